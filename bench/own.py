"""``python -m bench.own FRAMEWORK NETWORK``: ours and the framework's own, in turns."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import peers
from bench.loops import take_turns
from horizont.frameworks.base import Examples, Normalisation, Recipe, Trainer
from horizont.frameworks.registry import load_adapter
from horizont.measure.progress import ProgressWriter
from horizont.networks import build_network, initial_statistics, initial_weights
from horizont.spec import Optimizer, Steps
from horizont.worker.loop import StepLoop

RATE = 0.01
BATCH = 42

Loop = Callable[[], None]


@dataclass(frozen=True)
class Case:
    """A network and how long its segments are."""

    network: str
    steps: int
    rounds: int

    def recipe(self) -> Recipe:
        """Describe the network on images of the size of CIFAR-10's."""
        network = build_network(self.network, (3, 32, 32), 10)
        return Recipe(
            network=network,
            weights=initial_weights(network, 1),
            statistics=initial_statistics(network),
            optimizer=Optimizer(learning_rate=RATE),
            normalisation=Normalisation(np.full(3, 0.5), np.full(3, 0.25)),
        )

    def examples(self) -> Examples:
        """Draw images and labels for the batches of a segment."""
        random = np.random.default_rng(0)
        count = self.steps * BATCH
        return Examples(
            images=random.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8),
            labels=random.integers(0, 10, count),
            order=list(random.permutation(count).reshape(self.steps, BATCH)),
        )

    def our_loop(self, trainer: Trainer, ready: list[Any]) -> Loop:
        """Make the worker's own loop, as a run makes its bare steps."""
        steps = Steps(warmup=1, bare=self.steps - 1, instrumented=0)

        def loop() -> None:
            with ProgressWriter(Path("progress"), self.steps) as progress:
                StepLoop(trainer, steps, 0, progress).run(iter(ready), lambda: None)

        return loop


CASES = {
    "lenet5": Case("lenet5", steps=60, rounds=25),
    "resnet18": Case("resnet18", steps=4, rounds=11),
    "resnet50": Case("resnet50", steps=3, rounds=9),
}


def pytorch(case: Case) -> tuple[str, Loop, Loop]:
    """Pair our loop with the loop of PyTorch's tutorials over the same ready batches."""
    import torch

    adapter = load_adapter("pytorch")
    adapter.configure(1)
    ours, theirs = adapter.trainer(case.recipe()), adapter.trainer(case.recipe())
    ready = list(ours.batches(case.examples()))
    module = theirs.module  # type: ignore[attr-defined]
    if case.network != "lenet5":
        module = peers.torch_resnet(int(case.network[-2:]), 10)
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)
    criterion = torch.nn.CrossEntropyLoss()

    def plain() -> None:
        for images, labels in ready:
            optimizer.zero_grad()
            loss = criterion(module(images), labels)
            loss.backward()
            optimizer.step()

    return "a plain loop", case.our_loop(ours, ready), plain


def tensorflow(case: Case) -> tuple[str, Loop, Loop]:
    """Pair our loop with Keras' `fit` over the same ready batches."""
    adapter = load_adapter("tensorflow")
    adapter.configure(1)
    import keras
    import tensorflow as tf

    ours = adapter.trainer(case.recipe())
    ready = list(ours.batches(case.examples()))
    images, labels = (tf.concat(parts, axis=0) for parts in zip(*ready, strict=True))
    model = peers.keras_resnet50(10) if case.network == "resnet50" else keras_lenet5()
    model.compile(
        keras.optimizers.SGD(RATE), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )

    def fit() -> None:
        model.fit(images, labels, batch_size=BATCH, shuffle=False, verbose=0)

    return "Keras fit", case.our_loop(ours, ready), fit


def keras_lenet5() -> Any:
    """Build LeNet-5 as one writes it by hand in Keras."""
    import keras

    return keras.Sequential(
        [
            keras.layers.Input((32, 32, 3)),
            keras.layers.Conv2D(6, 5, activation="tanh"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(16, 5, activation="tanh"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(120, activation="tanh"),
            keras.layers.Dense(84, activation="tanh"),
            keras.layers.Dense(10),
        ]
    )


def mxnet(case: Case) -> tuple[str, Loop, Loop]:
    """Pair our loop with Gluon's Trainer loop over the same ready batches."""
    adapter = load_adapter("mxnet")
    adapter.configure(1)
    ours, theirs = adapter.trainer(case.recipe()), adapter.trainer(case.recipe())
    ready = list(ours.batches(case.examples()))
    import mxnet as mx

    network = theirs.net  # type: ignore[attr-defined]
    if case.network != "lenet5":
        network = peers.gluon_resnet(int(case.network[-2:]), 10)
    trainer = mx.gluon.Trainer(network.collect_params(), "sgd", {"learning_rate": RATE})
    criterion = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def plain() -> None:
        for images, labels in ready:
            with mx.autograd.record():
                loss = criterion(network(images), labels)
            loss.backward()
            trainer.step(BATCH)
        mx.nd.waitall()

    return "Gluon's Trainer loop", case.our_loop(ours, ready), plain


def main(framework: str, network: str) -> None:
    """Print the rates as JSON."""
    pair = {"pytorch": pytorch, "tensorflow": tensorflow, "mxnet": mxnet}[framework]
    case = CASES[network]
    peer, ours, theirs = pair(case)
    rates = take_turns(ours, theirs, steps=case.steps, rounds=case.rounds)
    print(json.dumps([{"peer": peer, **rates}]))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="horizont-bench-") as folder:
        os.chdir(folder)
        main(sys.argv[1], sys.argv[2])

"""``python -m bench.own FRAMEWORK``: our loop and the framework's own, in turns, in one process."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.loops import BATCH, STEPS, take_turns
from horizont.frameworks.base import Examples, Normalisation, Recipe, Trainer
from horizont.frameworks.registry import load_adapter
from horizont.measure.progress import ProgressWriter
from horizont.networks import build_network, initial_weights
from horizont.spec import Optimizer, Steps
from horizont.worker.loop import StepLoop

RATE = 0.01


def recipe() -> Recipe:
    """Describe LeNet-5 on images of the size of CIFAR-10's."""
    network = build_network("lenet5", (3, 32, 32), 10)
    return Recipe(
        network=network,
        weights=initial_weights(network, 1),
        optimizer=Optimizer(learning_rate=RATE),
        normalisation=Normalisation(np.full(3, 0.5), np.full(3, 0.25)),
    )


def examples() -> Examples:
    """Draw images and labels for `STEPS` batches."""
    random = np.random.default_rng(0)
    count = STEPS * BATCH
    return Examples(
        images=random.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8),
        labels=random.integers(0, 10, count),
        order=list(random.permutation(count).reshape(STEPS, BATCH)),
    )


def our_loop(trainer: Trainer, batches: Callable[[], Any]) -> Callable[[], None]:
    """Make the worker's own loop, as a run makes its bare steps."""
    steps = Steps(warmup=1, bare=STEPS - 1, instrumented=0)

    def loop() -> None:
        with ProgressWriter(Path("progress"), STEPS) as progress:
            StepLoop(trainer, steps, 0, progress).run(iter(batches()), lambda: None)

    return loop


def pytorch() -> list[tuple[str, Callable[[], None], Callable[[], None]]]:
    """Pair our loop with the loop of PyTorch's tutorials over the same ready batches."""
    import torch

    adapter = load_adapter("pytorch")
    adapter.configure(1)
    ours, theirs = adapter.trainer(recipe()), adapter.trainer(recipe())
    ready = list(ours.batches(examples()))
    module = theirs.module  # type: ignore[attr-defined]
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)
    criterion = torch.nn.CrossEntropyLoss()

    def plain() -> None:
        for images, labels in ready:
            optimizer.zero_grad()
            loss = criterion(module(images), labels)
            loss.backward()
            optimizer.step()

    return [("a plain loop", our_loop(ours, lambda: ready), plain)]


def tensorflow() -> list[tuple[str, Callable[[], None], Callable[[], None]]]:
    """Pair our loop with Keras' `fit` over the same ready batches."""
    adapter = load_adapter("tensorflow")
    adapter.configure(1)
    import keras
    import tensorflow as tf

    ours = adapter.trainer(recipe())
    ready = list(ours.batches(examples()))
    images, labels = (tf.concat(parts, axis=0) for parts in zip(*ready, strict=True))
    model = keras.Sequential(
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
    model.compile(
        keras.optimizers.SGD(RATE), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )

    def fit() -> None:
        model.fit(images, labels, batch_size=BATCH, shuffle=False, verbose=0)

    return [("Keras fit", our_loop(ours, lambda: ready), fit)]


def mxnet() -> list[tuple[str, Callable[[], None], Callable[[], None]]]:
    """Pair our loop with Gluon's Trainer loop over the same ready batches."""
    adapter = load_adapter("mxnet")
    adapter.configure(1)
    ours, theirs = adapter.trainer(recipe()), adapter.trainer(recipe())
    ready = list(ours.batches(examples()))
    import mxnet as mx

    network = theirs.net  # type: ignore[attr-defined]
    trainer = mx.gluon.Trainer(network.collect_params(), "sgd", {"learning_rate": RATE})
    criterion = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def plain() -> None:
        for images, labels in ready:
            with mx.autograd.record():
                loss = criterion(network(images), labels)
            loss.backward()
            trainer.step(BATCH)
        mx.nd.waitall()

    return [("Gluon's Trainer loop", our_loop(ours, lambda: ready), plain)]


def main(framework: str) -> None:
    """Print the rates as JSON."""
    pairs = {"pytorch": pytorch, "tensorflow": tensorflow, "mxnet": mxnet}[framework]()
    rows = [{"peer": peer, **take_turns(ours, theirs)} for peer, ours, theirs in pairs]
    print(json.dumps(rows))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="horizont-bench-") as folder:
        os.chdir(folder)
        main(sys.argv[1])

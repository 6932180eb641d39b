"""``python -m bench.own FRAMEWORK NETWORK [BUILD]``: ours and the framework's own, in turns.

With a build it is ours in that build, and ours as it is.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any

from bench import language, peers, plain
from bench.cases import CASES, RATE, Case, Loop
from bench.loops import take_turns
from horizont.config.system import DEFAULT
from horizont.frameworks import load_adapter


def pytorch(case: Case, ready: list[Any]) -> tuple[str, Loop]:
    """Make the loop of PyTorch's tutorials over the same ready batches."""
    import torch

    if case.reads_text:
        return "nn.LSTM", language.torch_lstm(ready)
    module = peers.torch_peer(case.network)
    module(ready[0][0])  # the sizes of some layers are found out here
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)
    criterion = torch.nn.CrossEntropyLoss()

    def loop() -> None:
        for images, labels in ready:
            optimizer.zero_grad()
            loss = criterion(module(images), labels)
            loss.backward()
            optimizer.step()

    return "a plain loop", loop


def tensorflow(case: Case, ready: list[Any]) -> tuple[str, Loop]:
    """Make Keras' `fit` over the same ready batches."""
    import keras
    import tensorflow as tf

    if case.reads_text:
        return "Keras LSTM, fit", language.keras_lstm(ready)
    images, labels = (tf.concat(parts, axis=0) for parts in zip(*ready, strict=True))
    if case.network in plain.NETWORKS:
        model = plain.keras_plain(case.network, tuple(images.shape[1:]))
    else:
        model = peers.keras_resnet50(10)
    model.compile(
        keras.optimizers.SGD(RATE), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )

    def fit() -> None:
        model.fit(images, labels, batch_size=case.batch, shuffle=False, verbose=0)

    return "Keras fit", fit


def mxnet(case: Case, ready: list[Any]) -> tuple[str, Loop]:
    """Make Gluon's Trainer loop over the same ready batches."""
    import mxnet as mx

    if case.reads_text:
        return "gluon.rnn.LSTM", language.gluon_lstm(ready)
    if case.network in plain.NETWORKS:
        network = plain.gluon_plain(case.network)
    else:
        network = peers.gluon_resnet(int(case.network[-2:]), 10)
    trainer = mx.gluon.Trainer(network.collect_params(), "sgd", {"learning_rate": RATE})
    criterion = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def loop() -> None:
        for images, labels in ready:
            with mx.autograd.record():
                loss = criterion(network(images), labels)
            loss.backward()
            trainer.step(case.batch)
        mx.nd.waitall()

    return "Gluon's Trainer loop", loop


PEERS = {"pytorch": pytorch, "tensorflow": tensorflow, "mxnet": mxnet}


def main(framework: str, network: str, build: str = DEFAULT) -> None:
    """Print the rates as JSON."""
    case = CASES[network]
    adapter = load_adapter(framework)
    adapter.configure(1)
    trainer = adapter.trainer(case.recipe(build))
    ready = list(trainer.batches(case.examples()))
    ours = case.our_loop(trainer, ready)
    if build == DEFAULT:
        peer, theirs = PEERS[framework](case, ready)
    else:
        as_it_is = adapter.trainer(case.recipe())
        usual = list(as_it_is.batches(case.examples()))
        peer, theirs = "our plain build", case.our_loop(as_it_is, usual)
    rates = take_turns(ours, theirs, steps=case.steps, rounds=case.rounds)
    print(json.dumps({"peer": peer, **rates}))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="horizont-bench-") as folder:
        os.chdir(folder)
        main(*sys.argv[1:])  # type: ignore[arg-type]

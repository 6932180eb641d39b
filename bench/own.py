"""``python -m bench.own FRAMEWORK NETWORK [VARIANT]``: our loop and the framework's own.

The two alternate. With a variant: our loop in that variant and in the default one.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any

from bench import language, peers, plain
from bench.cases import CASES, RATE, Case, Loop
from bench.loops import alternate
from horizont.config.system import DEFAULT
from horizont.frameworks import load_adapter


def pytorch(case: Case, batches: list[Any]) -> tuple[str, Loop]:
    """Build the loop of PyTorch's tutorials over the same batches."""
    import torch

    if case.reads_text:
        return "nn.LSTM", language.torch_lstm(batches)
    module = peers.torch_peer(case.network)
    module(batches[0][0])  # infers the sizes of lazy layers
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)
    criterion = torch.nn.CrossEntropyLoss()

    def loop() -> None:
        for images, labels in batches:
            optimizer.zero_grad()
            loss = criterion(module(images), labels)
            loss.backward()
            optimizer.step()

    return "a plain loop", loop


def tensorflow(case: Case, batches: list[Any]) -> tuple[str, Loop]:
    """Build Keras' `fit` over the same batches."""
    import keras
    import tensorflow as tf

    if case.reads_text:
        return "Keras LSTM, fit", language.keras_lstm(batches)
    images, labels = (tf.concat(parts, axis=0) for parts in zip(*batches, strict=True))
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


def mxnet(case: Case, batches: list[Any]) -> tuple[str, Loop]:
    """Build Gluon's Trainer loop over the same batches."""
    import mxnet as mx

    if case.reads_text:
        return "gluon.rnn.LSTM", language.gluon_lstm(batches)
    if case.network in plain.NETWORKS:
        network = plain.gluon_plain(case.network)
    else:
        network = peers.gluon_resnet(int(case.network[-2:]), 10)
    trainer = mx.gluon.Trainer(network.collect_params(), "sgd", {"learning_rate": RATE})
    criterion = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def loop() -> None:
        for images, labels in batches:
            with mx.autograd.record():
                loss = criterion(network(images), labels)
            loss.backward()
            trainer.step(case.batch)
        mx.nd.waitall()

    return "Gluon's Trainer loop", loop


def jax(case: Case, batches: list[Any]) -> tuple[str, Loop]:
    """Build a loop of pure functions over the same batches, as in JAX's tutorials."""
    import jax
    import optax

    if case.reads_text:
        return "lax.scan", language.jax_lstm(batches)
    weights, apply = plain.jax_plain(case.network, batches[0][0].shape[1:])
    optimizer = optax.sgd(RATE)

    def loss(weights: Any, images: Any, labels: Any, key: Any) -> Any:
        scores = apply(weights, images, key)
        return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()

    def step(weights: Any, state: Any, images: Any, labels: Any, key: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights, images, labels, key)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(weights, updates), state, value

    compiled = jax.jit(step, donate_argnums=(0, 1))
    trained = [weights, optimizer.init(weights)]
    keys = jax.random.split(jax.random.key(0), len(batches))

    def loop() -> None:
        for (images, labels), key in zip(batches, keys, strict=True):
            trained[0], trained[1], value = compiled(*trained, images, labels, key)
            value.block_until_ready()

    return "jit, value_and_grad", loop


PEERS = {"pytorch": pytorch, "tensorflow": tensorflow, "mxnet": mxnet, "jax": jax}


def main(framework: str, network: str, variant: str = DEFAULT) -> None:
    """Print the rates as JSON."""
    case = CASES[network]
    adapter = load_adapter(framework)
    adapter.configure(1)
    trainer = adapter.trainer(case.setup(variant))
    batches = list(trainer.batches(case.examples()))
    ours = case.our_loop(trainer, batches)
    if variant == DEFAULT:
        peer, theirs = PEERS[framework](case, batches)
    else:
        default = adapter.trainer(case.setup())
        default_batches = list(default.batches(case.examples()))
        peer, theirs = "our default build", case.our_loop(default, default_batches)
    rates = alternate(ours, theirs, steps=case.steps, rounds=case.rounds)
    print(json.dumps({"peer": peer, **rates}))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="horizont-bench-") as folder:
        os.chdir(folder)
        main(*sys.argv[1:])

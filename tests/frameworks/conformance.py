"""Compare one framework with NumPy in a process of its own; print JSON.

``python -m tests.frameworks.conformance FRAMEWORK [VARIANT [DEVICE]]``
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from horizont.config.framework import Device
from horizont.config.system import DEFAULT
from horizont.config.workload import OptimizerConfig
from horizont.frameworks import load_adapter
from horizont.frameworks.base import InMemoryImages, Normalisation, TrainingSetup
from horizont.networks.catalogue import build_network
from horizont.networks.layers import Dense, Flatten, MaxPool
from horizont.networks.network import Network
from horizont.networks.weights import initial_weights

RATE = 0.1
BATCH = 6


def reference(weights: dict[str, Any], images: Any) -> Any:
    """Compute the scores of LeNet-5 in NumPy, float64."""
    x = images
    for name in ("conv1", "conv2"):
        kernel = weights[f"{name}.weight"]
        windows = np.lib.stride_tricks.sliding_window_view(x, kernel.shape[2:], axis=(2, 3))
        x = np.einsum("nchwij,ocij->nohw", windows, kernel)
        x = np.tanh(x + weights[f"{name}.bias"][:, None, None])
        n, c, h, w = x.shape
        x = x.reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5))
    x = x.reshape(len(x), -1)
    for name in ("fc1", "fc2", "fc3"):
        x = x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
        x = np.tanh(x) if name != "fc3" else x
    return x


def cross_entropy(logits: Any, labels: Any) -> float:
    """Return the mean negative log probability of the correct class."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    log = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return float(-log[np.arange(len(labels)), labels].mean())


def distance(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Return the largest absolute difference of any element."""
    assert list(one) == list(other)
    return max(float(np.abs(one[name] - other[name]).max()) for name in one)


def main(framework: str, variant: str = DEFAULT, device: Device = "cpu") -> None:
    """Check what the protocol requires of a single-process trainer."""
    adapter = load_adapter(framework)
    adapter.configure(1, device)
    network = build_network("lenet5", (3, 32, 32), 10)
    random = np.random.default_rng(5)
    weights = {
        name: value + 0.01 * random.standard_normal(value.shape)
        for name, value in initial_weights(network, 5).items()
    }
    scale = Normalisation(np.array([0.4, 0.5, 0.6]), np.array([0.2, 0.25, 0.3]))
    setup = TrainingSetup(
        network,
        weights,
        OptimizerConfig(learning_rate=RATE),
        scale,
        dtype="float64",
        variant=variant,
        device=device,
    )
    examples = InMemoryImages(
        images=random.integers(0, 256, (4 * BATCH, 3, 32, 32), dtype=np.uint8),
        labels=random.integers(0, 10, 4 * BATCH),
        order=[*random.permutation(3 * BATCH).reshape(3, BATCH), np.arange(BATCH // 2)],
    )
    plain, timed = adapter.trainer(setup), adapter.trainer(setup)
    results = {"round_trip": distance(plain.weights(), weights)}
    results |= check_forward_backward(plain, weights, examples, scale)
    results |= steps(plain, timed, examples, weights)
    if variant != "compiled":  # a second network takes half a minute to compile
        results["padded"] = padded(adapter, examples, setup)
    print(json.dumps(results))


def check_forward_backward(
    trainer: Any, weights: Any, examples: InMemoryImages, scale: Normalisation
) -> dict[str, Any]:
    """Compare scores, loss and one element of a gradient with NumPy."""
    first = examples.order[0]
    images = examples.images[first] / 255.0
    images = (images - scale.mean[:, None, None]) / scale.std[:, None, None]
    logits = reference(weights, images)
    computed = trainer.forward_backward(next(trainer.batches(examples)))
    moved, step = dict(weights), 1e-6
    moved["conv1.weight"] = weights["conv1.weight"].copy()
    moved["conv1.weight"][2, 1, 3, 4] += step
    rise = cross_entropy(reference(moved, images), examples.labels[first])
    loss = cross_entropy(logits, examples.labels[first])
    return {
        "logits": float(np.abs(computed.logits - logits).max()),
        "loss": abs(computed.loss - loss),
        "slope": abs(computed.gradients["conv1.weight"][2, 1, 3, 4] - (rise - loss) / step),
        "predict": float(np.abs(trainer.predict(examples.images[first]) - logits).max()),
        "unmoved": distance(trainer.weights(), weights),
    }


def padded(adapter: Any, examples: InMemoryImages, like: TrainingSetup) -> float:
    """Pool windows beyond the edge of images with negative values, where zeros would show."""
    layers = (MaxPool(name="pool", kernel=3, stride=2, padding=1), Flatten(name="flatten"))
    network = Network("edges", (3, 32, 32), 10, (*layers, Dense(name="fc", features=10)))
    weights = initial_weights(network, 5)
    scale = like.normalisation
    assert scale is not None
    trainer = adapter.trainer(replace(like, network=network, weights=weights))
    batch = next(trainer.batches(examples))
    logits = trainer.forward_backward(batch).logits
    trainer.synchronize(trainer.step(batch))
    images = examples.images[examples.order[0]] / 255.0
    images = (images - scale.mean[:, None, None]) / scale.std[:, None, None]
    images = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(images, (3, 3), axis=(2, 3))
    pooled = windows[:, :, ::2, ::2].max(axis=(4, 5)).reshape(BATCH, -1)
    expected = pooled @ weights["fc.weight"].T + weights["fc.bias"]
    return float(np.abs(logits - expected).max())


def steps(plain: Any, timed: Any, examples: InMemoryImages, weights: Any) -> dict[str, Any]:
    """Run uninstrumented and instrumented steps, with a smaller last batch."""
    gradients = plain.forward_backward(next(plain.batches(examples))).gradients
    losses: list[list[float]] = [[], []]
    marks: list[str] = []
    sizes = []
    first_update = None
    for batch in plain.batches(examples):
        loss = plain.step(batch)
        plain.synchronize(loss)
        losses[0].append(plain.loss_value(loss))
        sizes.append(len(batch[1]))
        if first_update is None:
            first_update = plain.weights()
    timed.compile_instrumented_step(BATCH)
    for batch in timed.batches(examples):
        losses[1].append(
            timed.loss_value(
                timed.instrumented_step(batch, lambda phase, spent_s=None: marks.append(phase))
            )
        )
    expected = {name: weights[name] - RATE * gradients[name] for name in weights}
    return {
        "update": distance(first_update or {}, expected),
        "timed": distance(plain.weights(), timed.weights()),
        "losses": max(abs(a - b) for a, b in zip(*losses, strict=True)),
        "sizes": sizes,
        "marks": [mark for mark in marks if mark != "load"][:3],
    }


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]

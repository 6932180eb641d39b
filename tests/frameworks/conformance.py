"""Run in a process of its own: one framework against NumPy, told as JSON.

``python -m tests.frameworks.conformance FRAMEWORK [BUILD]``
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

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
    """Compute LeNet-5's scores in plain NumPy, float64."""
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
    """Average the negative log probability of the right class."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    log = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return float(-log[np.arange(len(labels)), labels].mean())


def distance(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Tell the largest difference of any element of any tensor."""
    assert list(one) == list(other)
    return max(float(np.abs(one[name] - other[name]).max()) for name in one)


def main(framework: str, build: str = DEFAULT) -> None:
    """Try everything that the protocol promises of a trainer alone."""
    adapter = load_adapter(framework)
    adapter.configure(1)
    network = build_network("lenet5", (3, 32, 32), 10)
    random = np.random.default_rng(5)
    weights = {
        name: value + 0.01 * random.standard_normal(value.shape)
        for name, value in initial_weights(network, 5).items()
    }
    scale = Normalisation(np.array([0.4, 0.5, 0.6]), np.array([0.2, 0.25, 0.3]))
    recipe = TrainingSetup(
        network, weights, OptimizerConfig(learning_rate=RATE), scale, dtype="float64", variant=build
    )
    examples = InMemoryImages(
        images=random.integers(0, 256, (4 * BATCH, 3, 32, 32), dtype=np.uint8),
        labels=random.integers(0, 10, 4 * BATCH),
        order=[*random.permutation(3 * BATCH).reshape(3, BATCH), np.arange(BATCH // 2)],
    )
    plain, timed = adapter.trainer(recipe), adapter.trainer(recipe)
    found = {"round_trip": distance(plain.weights(), weights)}
    found |= probe(plain, weights, examples, scale)
    found |= steps(plain, timed, examples, weights)
    if build != "compiled":  # a second network takes half a minute to compile
        found["padded"] = padded(adapter, examples, scale, build)
    print(json.dumps(found))


def probe(
    trainer: Any, weights: Any, examples: InMemoryImages, scale: Normalisation
) -> dict[str, Any]:
    """Compare scores, loss and a gradient with NumPy's."""
    first = examples.order[0]
    images = examples.images[first] / 255.0
    images = (images - scale.mean[:, None, None]) / scale.std[:, None, None]
    logits = reference(weights, images)
    told = trainer.forward_backward(next(trainer.batches(examples)))
    moved, step = dict(weights), 1e-6
    moved["conv1.weight"] = weights["conv1.weight"].copy()
    moved["conv1.weight"][2, 1, 3, 4] += step
    rise = cross_entropy(reference(moved, images), examples.labels[first])
    loss = cross_entropy(logits, examples.labels[first])
    return {
        "logits": float(np.abs(told.logits - logits).max()),
        "loss": abs(told.loss - loss),
        "slope": abs(told.gradients["conv1.weight"][2, 1, 3, 4] - (rise - loss) / step),
        "predict": float(np.abs(trainer.predict(examples.images[first]) - logits).max()),
        "unmoved": distance(trainer.weights(), weights),
    }


def padded(adapter: Any, examples: InMemoryImages, scale: Normalisation, build: str) -> float:
    """Train on windows that reach over the edge, where images are negative: zeros would be seen."""
    layers = (MaxPool(name="pool", kernel=3, stride=2, padding=1), Flatten(name="flatten"))
    network = Network("edges", (3, 32, 32), 10, (*layers, Dense(name="fc", features=10)))
    weights = initial_weights(network, 5)
    recipe = TrainingSetup(
        network, weights, OptimizerConfig(learning_rate=RATE), scale, dtype="float64", variant=build
    )
    trainer = adapter.trainer(recipe)
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
    """Make bare and instrumented steps, an uneven last batch among them."""
    probed = plain.forward_backward(next(plain.batches(examples))).gradients
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
    expected = {name: weights[name] - RATE * probed[name] for name in weights}
    return {
        "update": distance(first_update or {}, expected),
        "timed": distance(plain.weights(), timed.weights()),
        "losses": max(abs(a - b) for a, b in zip(*losses, strict=True)),
        "sizes": sizes,
        "marks": marks[:3],
    }


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]

"""Recompute the gradients of a recorded asynchronous run, in a process of its own.

``python -m tests.frameworks.recompute RECORD DATA``

Each recorded gradient is computed again, by a single process, from the replayed weights of the
version that the record names. The update rules in NumPy, with which they were replayed, are
compared with the framework's own.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from tests.frameworks.rules import RULES

from horizont.data.prepared import ImageData, load
from horizont.data.sharding import example_order
from horizont.equivalence.bounds import relative_distance
from horizont.equivalence.replay import ReferenceOptimizer, Replay
from horizont.frameworks import load_adapter
from horizont.frameworks.base import FrameworkAdapter, InMemoryImages, TrainingSetup
from horizont.records.record import Record, read_record
from horizont.training.context import training_setup


def gradients(
    record: Record, setup: TrainingSetup, data: ImageData, adapter: FrameworkAdapter
) -> dict[str, Any]:
    """Return the distance of each recorded gradient from the recomputed one.

    With it, return the rounding noise and the distance from the gradient of the next version.
    """
    replay = Replay(record, setup.weights, "float64")
    results = {}
    for worker in range(record.run.topology.workers):
        order = list(example_order(record.run, worker, data.description))
        for step, indices in enumerate(order):
            named_version, next_version = (
                replay.weights_used_by(worker, step, later) for later in (0, 1)
            )
            examples = InMemoryImages(data.train_images[indices], data.train_labels[indices],
                                [np.arange(len(indices))])  # fmt: skip
            exact, rounded, wrong = (
                gradient_of(adapter, replace(setup, weights=weights, dtype=dtype), examples)
                for weights, dtype in (
                    (named_version, "float64"),
                    (named_version, "float32"),
                    (next_version, "float64"),
                )
            )
            sent = vector(replay.gradient(record, worker, step))
            results[f"{worker}/{step}"] = {
                "distance": relative_distance(sent, exact, exact),
                "noise": relative_distance(rounded, exact, exact),
                "from_next": relative_distance(sent, wrong, wrong),
            }
    return results


def gradient_of(adapter: FrameworkAdapter, setup: TrainingSetup, examples: InMemoryImages) -> Any:
    """Return the gradient of the only batch."""
    trainer = adapter.trainer(setup)
    found = trainer.forward_backward(next(trainer.batches(examples))).gradients
    return vector({name: found[name] for name in setup.weights})


def vector(tensors: dict[str, Any]) -> Any:
    """Concatenate tensors to a vector."""
    return np.concatenate([value.ravel() for value in tensors.values()])


def rules(
    setup: TrainingSetup,
    data: ImageData,
    adapter: FrameworkAdapter,
    dtype: Literal["float32", "float64"],
) -> dict[str, float]:
    """Return the distances between NumPy's and the framework's rules after four steps."""
    order = np.arange(16).reshape(4, 4)
    examples = InMemoryImages(
        np.array(data.train_images[:16]), np.array(data.train_labels[:16]), order
    )
    results = {}
    for name, rule in RULES.items():
        trainer = adapter.trainer(replace(setup, optimizer=rule, dtype=dtype))
        decays = {
            weight: np.full(value.shape, rule.weight_decay if value.ndim > 1 else 0.0)
            for weight, value in setup.weights.items()
        }
        start = vector(trainer.weights())
        reference = ReferenceOptimizer(rule, start, vector(decays))
        for batch in trainer.batches(examples):
            found = trainer.forward_backward(batch).gradients
            reference.update(vector({weight: found[weight] for weight in setup.weights}))
            trainer.synchronize(trainer.step(batch))
        end = vector(trainer.weights())
        results[name] = relative_distance(reference.weights, end, end - start)
    return results


def main(record: Record, data: ImageData) -> None:
    """Print both as JSON."""
    adapter = load_adapter(record.run.system.framework)
    adapter.configure(1)
    setup = training_setup(record.run.workload, data, record.run.seed)
    results: dict[str, Any] = {
        "rules": rules(setup, data, adapter, "float64"),
        "float32_rules": rules(setup, data, adapter, "float32"),
    }
    print(json.dumps(results | {"gradients": gradients(record, setup, data, adapter)}))


if __name__ == "__main__":
    loaded = load(Path(sys.argv[2]))
    assert isinstance(loaded, ImageData)
    main(read_record(Path(sys.argv[1])), loaded)

"""Run in a process of its own: what a framework says to a recorded asynchronous run.

``python -m tests.frameworks.recompute RECORD DATA``

Each recorded gradient is computed again, by a single process, from the replayed weights of the
version that the record names. The update rules in NumPy, by which they were replayed, are held
against the framework's own.
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
from horizont.equivalence.compare import relative_distance
from horizont.equivalence.replay import ReferenceOptimizer, Replay
from horizont.frameworks import load_adapter
from horizont.frameworks.base import FrameworkAdapter, InMemoryImages, TrainingSetup
from horizont.records.record import Record, read_record
from horizont.training.context import training_setup


def gradients(
    record: Record, recipe: TrainingSetup, data: ImageData, adapter: FrameworkAdapter
) -> dict[str, Any]:
    """Tell how far each recorded gradient is from the one computed again.

    Beside it stand what is rounding, and the distance from what the next version would give.
    """
    replay = Replay(record, recipe.weights, "float64")
    told = {}
    for worker in range(record.run.topology.workers):
        order = list(example_order(record.run, worker, data.description))
        for step, indices in enumerate(order):
            named, next_one = (replay.weights_used_by(worker, step, later) for later in (0, 1))
            examples = InMemoryImages(data.train_images[indices], data.train_labels[indices],
                                [np.arange(len(indices))])  # fmt: skip
            exact, rounded, wrong = (
                probe(adapter, replace(recipe, weights=weights, dtype=dtype), examples)
                for weights, dtype in (
                    (named, "float64"),
                    (named, "float32"),
                    (next_one, "float64"),
                )
            )
            sent = vector(replay.gradient(record, worker, step))
            told[f"{worker}/{step}"] = {
                "distance": relative_distance(sent, exact, exact),
                "noise": relative_distance(rounded, exact, exact),
                "from_next": relative_distance(sent, wrong, wrong),
            }
    return told


def probe(adapter: FrameworkAdapter, recipe: TrainingSetup, examples: InMemoryImages) -> Any:
    """Compute the gradient of the one batch."""
    trainer = adapter.trainer(recipe)
    found = trainer.forward_backward(next(trainer.batches(examples))).gradients
    return vector({name: found[name] for name in recipe.weights})


def vector(tensors: dict[str, Any]) -> Any:
    """Lay tensors one after the other."""
    return np.concatenate([value.ravel() for value in tensors.values()])


def rules(
    recipe: TrainingSetup,
    data: ImageData,
    adapter: FrameworkAdapter,
    dtype: Literal["float32", "float64"],
) -> dict[str, float]:
    """Tell how far NumPy's rules come from the framework's own after four steps."""
    order = np.arange(16).reshape(4, 4)
    examples = InMemoryImages(
        np.array(data.train_images[:16]), np.array(data.train_labels[:16]), order
    )
    told = {}
    for name, rule in RULES.items():
        trainer = adapter.trainer(replace(recipe, optimizer=rule, dtype=dtype))
        decays = {
            weight: np.full(value.shape, rule.weight_decay if value.ndim > 1 else 0.0)
            for weight, value in recipe.weights.items()
        }
        start = vector(trainer.weights())
        moving = ReferenceOptimizer(rule, start, vector(decays))
        for batch in trainer.batches(examples):
            found = trainer.forward_backward(batch).gradients
            moving.update(vector({weight: found[weight] for weight in recipe.weights}))
            trainer.synchronize(trainer.step(batch))
        end = vector(trainer.weights())
        told[name] = relative_distance(moving.weights, end, end - start)
    return told


def main(record: Record, data: ImageData) -> None:
    """Tell both as JSON."""
    adapter = load_adapter(record.run.system.framework)
    adapter.configure(1)
    recipe = training_setup(record.run.workload, data, record.run.seed)
    told: dict[str, Any] = {
        "rules": rules(recipe, data, adapter, "float64"),
        "float32_rules": rules(recipe, data, adapter, "float32"),
    }
    print(json.dumps(told | {"gradients": gradients(record, recipe, data, adapter)}))


if __name__ == "__main__":
    loaded = load(Path(sys.argv[2]))
    assert isinstance(loaded, ImageData)
    main(read_record(Path(sys.argv[1])), loaded)

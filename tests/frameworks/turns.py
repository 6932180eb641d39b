"""Run in a process of its own, as the chief of TensorFlow's workers: they train in turns.

``python -m tests.frameworks.turns JOB.json``

TensorFlow's servers do not tell in which order they apply updates. Here a step is handed out only
when the one before it is over, so the order is known: it must be single-process training.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from horizont.config.base import parse_config
from horizont.config.jobs import WorkerJob
from horizont.data.prepared import load
from horizont.data.sharding import example_order
from horizont.equivalence.compare import relative_distance
from horizont.frameworks import load_adapter
from horizont.frameworks.base import InMemoryImages
from horizont.monitoring.process_control import exit_with_parent
from horizont.training.context import training_setup

#: Steps at least, and at most: until both workers have had turns.
LEAST, MOST = 6, 30


def main(job: WorkerJob) -> None:
    """Lead the turns, make the same steps alone, and tell how far apart they end."""
    adapter = load_adapter("tensorflow")
    adapter.configure(1)
    data: Any = load(job.data_folder)
    recipe = training_setup(job.run.workload, data, job.run.seed)
    coordinator: Any = adapter.coordinator(recipe, job, InMemoryImages(data.train_images, None, []))
    takers: list[int] = []
    while len(takers) < LEAST or (len(set(takers)) < 2 and len(takers) < MOST):
        step = coordinator.compiled_step if len(takers) % 2 else coordinator.compiled_instrumented_step
        promise = coordinator.cluster.schedule(step, args=(coordinator.iterators,))
        coordinator.cluster.join()
        takers.append(int(coordinator.cluster.fetch(promise)[0]))
    served = coordinator.weights()
    coordinator.close()
    orders = {rank: iter(example_order(job.run, rank, data.about)) for rank in (0, 1)}
    order = [next(orders[rank]) for rank in takers]
    examples = InMemoryImages(np.array(data.train_images), np.array(data.train_labels), order)
    exact, rounded = (
        alone(adapter.trainer(replace(recipe, dtype=dtype)), examples)
        for dtype in ("float64", "float32")
    )
    tensors = {}
    for name, value in exact.items():
        moved = value - recipe.weights[name]
        distance = relative_distance(served[name], value, moved)
        tensors[name] = [distance, relative_distance(rounded[name], value, moved)]
    Path("told.json").write_text(json.dumps({"takers": takers, "tensors": tensors}))


def alone(trainer: Any, examples: InMemoryImages) -> Any:
    """Train in this process."""
    for batch in trainer.batches(examples):
        trainer.synchronize(trainer.step(batch))
    return trainer.weights()


if __name__ == "__main__":
    exit_with_parent()
    main(parse_config(WorkerJob, json.loads(Path(sys.argv[1]).read_text()), "job"))

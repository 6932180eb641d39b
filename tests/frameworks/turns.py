"""The chief of TensorFlow workers that take turns, run in a process of its own.

``python -m tests.frameworks.turns JOB.json``

TensorFlow's servers do not report the order in which they apply updates. Here a step is scheduled
only when the previous one has finished, so the order is known: the result must be that of a single
process.
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
from horizont.equivalence.bounds import relative_distance
from horizont.frameworks import load_adapter
from horizont.frameworks.base import InMemoryImages
from horizont.monitoring.process_control import exit_with_parent
from horizont.training.context import training_setup

#: The smallest and largest number of steps: until both workers have run some.
MIN_STEPS, MAX_STEPS = 6, 30


def main(job: WorkerJob) -> None:
    """Run the steps in turns and in a single process, and write the distances of the weights."""
    adapter = load_adapter("tensorflow")
    adapter.configure(1)
    data: Any = load(job.data_folder)
    setup = training_setup(job.run.workload, data, job.run.seed)
    coordinator: Any = adapter.coordinator(setup, job, InMemoryImages(data.train_images, None, []))
    workers_of_steps: list[int] = []
    while len(workers_of_steps) < MIN_STEPS or (
        len(set(workers_of_steps)) < 2 and len(workers_of_steps) < MAX_STEPS
    ):
        step = (
            coordinator.compiled_step
            if len(workers_of_steps) % 2
            else coordinator.compiled_instrumented_step
        )
        pending = coordinator.cluster.schedule(step, args=(coordinator.iterators,))
        coordinator.cluster.join()
        workers_of_steps.append(int(coordinator.cluster.fetch(pending)[0]))
    distributed = coordinator.weights()
    coordinator.close()
    orders = {rank: iter(example_order(job.run, rank, data.description)) for rank in (0, 1)}
    order = [next(orders[rank]) for rank in workers_of_steps]
    examples = InMemoryImages(np.array(data.train_images), np.array(data.train_labels), order)
    exact, rounded = (
        alone(adapter.trainer(replace(setup, dtype=dtype)), examples)
        for dtype in ("float64", "float32")
    )
    tensors = {}
    for name, value in exact.items():
        update = value - setup.weights[name]
        distance = relative_distance(distributed[name], value, update)
        tensors[name] = [distance, relative_distance(rounded[name], value, update)]
    Path("turns.json").write_text(
        json.dumps({"workers_of_steps": workers_of_steps, "tensors": tensors})
    )


def alone(trainer: Any, examples: InMemoryImages) -> Any:
    """Train in this process and return the weights."""
    for batch in trainer.batches(examples):
        trainer.synchronize(trainer.step(batch))
    return trainer.weights()


if __name__ == "__main__":
    exit_with_parent()
    main(parse_config(WorkerJob, json.loads(Path(sys.argv[1]).read_text()), "job"))

"""Local SGD by hand, run in a process of its own.

``python -m tests.frameworks.averaging RUN.json DATA UPDATE.npz``

Each worker is a separate trainer in one process. With plain gradient descent, averaging the weights
at every step equals averaging the gradients.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from horizont.config.run import Run
from horizont.data.prepared import ImageData, load
from horizont.data.sharding import example_order
from horizont.frameworks import load_adapter
from horizont.frameworks.base import InMemoryImages
from horizont.training.context import training_setup


def main(run: Run, data: ImageData, out: Path) -> None:
    """Train as the run describes and write the update of the first worker."""
    adapter = load_adapter(run.system.framework)
    adapter.configure(1)
    setup = training_setup(run.workload, data, run.seed)
    images, labels = np.array(data.train_images), np.array(data.train_labels)
    workers = range(run.topology.workers)
    orders = [list(example_order(run, rank, data.description)) for rank in workers]
    weights = setup.weights
    for first in range(0, run.steps.total, run.gradient_exchange.local_steps):
        ended = []
        for order in orders:
            trainer = adapter.trainer(replace(setup, weights=weights))
            own = order[first : first + run.gradient_exchange.local_steps]
            for batch in trainer.batches(InMemoryImages(images, labels, own)):
                trainer.step(batch)
            ended.append(trainer.weights())
        weights = ended[0]  # what is left at the end, after a last segment that is too short
        if len(own) == run.gradient_exchange.local_steps:
            weights = {name: sum(each[name] for each in ended) / len(workers) for name in weights}
    np.savez(out, **{name: weights[name] - setup.weights[name] for name in weights})


if __name__ == "__main__":
    loaded = load(Path(sys.argv[2]))
    assert isinstance(loaded, ImageData)
    main(Run.model_validate_json(Path(sys.argv[1]).read_text()), loaded, Path(sys.argv[3]))

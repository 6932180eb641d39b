"""Synchronous training by hand, run in a process of its own.

``python -m tests.frameworks.ghost RUN.json DATA WEIGHTS.npz``

The network runs on each worker's examples separately, so that batch norm normalises over these
only; the gradients are averaged and the weights updated in NumPy.
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
    """Train as the run describes and write the updates of the weights."""
    adapter = load_adapter("pytorch")
    adapter.configure(1)
    setup = replace(training_setup(run.workload, data, run.seed), dtype="float64")
    weights = dict(setup.weights)
    images, labels = np.array(data.train_images), np.array(data.train_labels)
    workers = run.topology.workers
    orders = [list(example_order(run, rank, data.description)) for rank in range(workers)]
    for local_batches in zip(*orders, strict=True):
        trainer = adapter.trainer(replace(setup, weights=weights))
        batches = trainer.batches(InMemoryImages(images, labels, local_batches))
        gradients = [trainer.forward_backward(batch).gradients for batch in batches]
        for name in weights:
            mean = sum(gradient[name] for gradient in gradients) / workers
            weights[name] = weights[name] - run.workload.optimizer.learning_rate * mean
    np.savez(out, **{name: weights[name] - setup.weights[name] for name in weights})


if __name__ == "__main__":
    loaded = load(Path(sys.argv[2]))
    assert isinstance(loaded, ImageData)
    main(Run.model_validate_json(Path(sys.argv[1]).read_text()), loaded, Path(sys.argv[3]))

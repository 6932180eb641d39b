"""Run in a process of its own: synchronous training done by hand, one batch after the other.

``python -m tests.frameworks.ghost RUN.json DATA WEIGHTS.npz``

Each worker's share of a batch goes through the network on its own, so that batch norm sees only
that share; the gradients are averaged and the weights moved in NumPy.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from horizont.data import ImageData, load, order_for
from horizont.frameworks.base import Examples
from horizont.frameworks.registry import load_adapter
from horizont.spec import Run
from horizont.worker.session import recipe_for


def main(run: Run, data: ImageData, out: Path) -> None:
    """Train as the run says and keep the updates of the weights."""
    adapter = load_adapter("pytorch")
    adapter.configure(1)
    recipe = replace(recipe_for(run.workload, data, run.seed), dtype="float64")
    weights = dict(recipe.weights)
    images, labels = np.array(data.train_images), np.array(data.train_labels)
    workers = run.topology.workers
    orders = [list(order_for(run, rank, data.about)) for rank in range(workers)]
    for shares in zip(*orders, strict=True):
        trainer = adapter.trainer(replace(recipe, weights=weights))
        batches = trainer.batches(Examples(images, labels, shares))
        gradients = [trainer.probe(batch).gradients for batch in batches]
        for name in weights:
            mean = sum(gradient[name] for gradient in gradients) / workers
            weights[name] = weights[name] - run.workload.optimizer.learning_rate * mean
    np.savez(out, **{name: weights[name] - recipe.weights[name] for name in weights})


if __name__ == "__main__":
    loaded = load(Path(sys.argv[2]))
    assert isinstance(loaded, ImageData)
    main(Run.model_validate_json(Path(sys.argv[1]).read_text()), loaded, Path(sys.argv[3]))

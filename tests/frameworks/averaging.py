"""Run in a process of its own: workers that average their weights, done by hand.

``python -m tests.frameworks.averaging RUN.json DATA UPDATE.npz``

Each worker is a trainer of its own here. With plain gradient descent, weights that are averaged
at every step are the weights of averaged gradients.
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
    """Train as the run says and keep the first worker's update."""
    adapter = load_adapter("pytorch")
    adapter.configure(1)
    recipe = recipe_for(run.workload, data, run.seed)
    images, labels = np.array(data.train_images), np.array(data.train_labels)
    workers = range(run.topology.workers)
    orders = [list(order_for(run, rank, data.about)) for rank in workers]
    weights = recipe.weights
    for first in range(0, run.steps.total, run.exchange.average_every):
        ended = []
        for order in orders:
            trainer = adapter.trainer(replace(recipe, weights=weights))
            own = order[first : first + run.exchange.average_every]
            for batch in trainer.batches(Examples(images, labels, own)):
                trainer.step(batch)
            ended.append(trainer.weights())
        weights = ended[0]  # what is left at the end, after a last segment that is too short
        if len(own) == run.exchange.average_every:
            weights = {name: sum(each[name] for each in ended) / len(workers) for name in weights}
    np.savez(out, **{name: weights[name] - recipe.weights[name] for name in weights})


if __name__ == "__main__":
    loaded = load(Path(sys.argv[2]))
    assert isinstance(loaded, ImageData)
    main(Run.model_validate_json(Path(sys.argv[1]).read_text()), loaded, Path(sys.argv[3]))

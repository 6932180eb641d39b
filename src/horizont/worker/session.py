"""Everything that one process of a run works with, and its diary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.data import ImageData, batch_indices, load
from horizont.frameworks.base import Adapter, Examples, Normalisation, Recipe
from horizont.measure import ProgressWriter
from horizont.networks import initial_statistics, initial_weights, network_for
from horizont.records import append_event
from horizont.spec import ProcessJob, Run, Workload


@dataclass(frozen=True)
class Session:
    """The work of one process that trains or leads."""

    job: ProcessJob
    adapter: Adapter
    recipe: Recipe
    data: ImageData
    examples: Examples
    progress: ProgressWriter

    def note(self, event: str) -> None:
        """Note that something has just been reached."""
        note(self.job, event)


def note(job: ProcessJob, event: str) -> None:
    """Note an event of this process. Those of the start-up name the part that has just ended."""
    append_event(job.folder / "events.jsonl", event)


def load_images(job: ProcessJob) -> ImageData:
    """Load the run's data; only images are trained on so far."""
    data = load(job.data_folder)
    if not isinstance(data, ImageData):
        raise TypeError(f"{job.data_folder} holds no images")
    return data


def recipe_for(workload: Workload, data: ImageData, seed: int) -> Recipe:
    """Describe the training of a workload, the same for every framework."""
    network = network_for(workload, data.about.shape, data.about.classes)
    mean, std = (np.array(values) for values in (data.about.mean, data.about.std))
    return Recipe(
        network=network,
        weights=initial_weights(network, seed),
        statistics=initial_statistics(network),
        optimizer=workload.optimizer,
        normalisation=Normalisation(mean, std, workload.enlarge),
        seed=seed,
    )


def examples_for(job: ProcessJob, data: ImageData) -> Examples:
    """Load the examples into memory and lay down the order in which this worker sees them."""
    return Examples(
        images=np.array(data.train_images),
        labels=np.array(data.train_labels),
        order=order_for(job.run, job.rank, len(data.train_labels)),
    )


def order_for(run: Run, rank: int, examples: int) -> list[NDArray[Any]]:
    """Tell the indices of each batch of a worker."""
    return list(
        batch_indices(
            examples=examples,
            global_batch=run.global_batch,
            local_batch=run.local_batch,
            workers=run.topology.workers,
            rank=rank,
            sharding=run.topology.sharding,
            seed=run.seed,
            steps=run.steps.total,
        )
    )

"""Everything that one process of a run works with, and its diary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from horizont.data import ImageData, TextData, order_for
from horizont.frameworks.base import Adapter, Examples, Normalisation, Recipe, Windows
from horizont.measure import ProgressWriter
from horizont.networks import initial_statistics, initial_weights, network_for
from horizont.records import append_event
from horizont.spec import PLAIN, Build, ProcessJob, Workload


@dataclass(frozen=True)
class Session:
    """The work of one process that trains or leads."""

    job: ProcessJob
    adapter: Adapter
    recipe: Recipe
    data: ImageData | TextData
    examples: Examples | Windows
    progress: ProgressWriter

    def note(self, event: str) -> None:
        """Note that something has just been reached."""
        note(self.job, event)


def note(job: ProcessJob, event: str) -> None:
    """Note an event of this process. Those of the start-up name the part that has just ended."""
    append_event(job.folder / "events.jsonl", event)


def recipe_for(
    workload: Workload, data: ImageData | TextData, seed: int, build: Build = PLAIN
) -> Recipe:
    """Describe the training of a workload, the same for every framework."""
    about = data.about
    network = network_for(workload, about.shape, about.classes)
    normalisation = None
    if isinstance(data, ImageData):
        mean, std = (np.array(values) for values in (about.mean, about.std))
        normalisation = Normalisation(mean, std, workload.enlarge)
    return Recipe(
        network=network,
        weights=initial_weights(network, seed),
        statistics=initial_statistics(network),
        optimizer=workload.optimizer,
        normalisation=normalisation,
        seed=seed,
        build=build,
    )


def examples_for(job: ProcessJob, data: ImageData | TextData) -> Examples | Windows:
    """Load the examples into memory and lay down the order in which this worker sees them."""
    order = list(order_for(job.run, job.rank, data.about))
    if isinstance(data, TextData):
        return Windows(np.array(data.train_tokens), job.run.workload.time_steps, order)
    return Examples(np.array(data.train_images), np.array(data.train_labels), order)

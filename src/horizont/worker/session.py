"""Everything that one process of a run works with, and its diary."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from horizont.data import About, ImageData, TextData, order_for
from horizont.data.files import open_files
from horizont.frameworks.base import Adapter, Examples, Normalisation, OnDisk, Recipe, Windows
from horizont.measure import ProgressWriter
from horizont.networks import initial_statistics, initial_weights, network_for
from horizont.records import append_event
from horizont.spec import PLAIN, Build, ProcessJob, Workload

#: How often one that waits for others looks up.
_LOOK_S = 0.01


@dataclass(frozen=True)
class Session:
    """The work of one process that trains or leads.

    Attributes
    ----------
    examples_bytes
        The memory that the examples took before there was a pipeline, if it was looked at.
    """

    job: ProcessJob
    adapter: Adapter
    recipe: Recipe
    data: ImageData | TextData
    examples: Examples | Windows | OnDisk
    progress: ProgressWriter
    examples_bytes: int | None = None

    def note(self, event: str) -> None:
        """Note that something has just been reached."""
        note(self.job, event)

    def wait_for_others(self) -> None:
        """Begin with the bare steps when the launcher says so.

        Without it, one that is quick to start up would have made its steps before the others
        make theirs, on a machine that is busy with starting them; or with more of a processor
        than its host's share, because the launcher only looks now and then.
        """
        while self.job.start_line is not None and not self.job.start_line.exists():
            time.sleep(_LOOK_S)


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


def examples_for(job: ProcessJob, data: ImageData | TextData) -> Examples | Windows | OnDisk:
    """Load the examples, or find their files, and lay down the order in which they are seen."""
    order = order_of(job, data.about)
    if job.files_folder is not None:
        reader = job.run.input.reader_of(job.run.system.framework)
        return OnDisk(open_files(data.about, job.files_folder), order, job.run.input, reader)
    if isinstance(data, TextData):
        return Windows(np.array(data.train_tokens), job.run.workload.time_steps, order)
    return Examples(np.array(data.train_images), np.array(data.train_labels), order)


def order_of(job: ProcessJob, about: About) -> list[NDArray[np.int64]]:
    """Tell the examples of each batch of this worker.

    Batches that are taken from the pipeline alone come first, in an order of their own: the
    training sees the same examples whether or not there are any.
    """
    run = job.run
    training = list(order_for(run, job.rank, about))
    if not run.steps.drained:
        return training
    alone = {"bare": run.steps.drained, "warmup": 0, "instrumented": 0, "profiled": 0}
    before = run.model_copy(update={"steps": run.steps.model_copy(update=alone)})
    return [*order_for(before, job.rank, about), *training]

"""Everything that one process of a run works with, and its diary."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from horizont.config.jobs import WorkerJob
from horizont.config.system import DEFAULT, Variant
from horizont.config.workload import Workload
from horizont.data.files import open_files
from horizont.data.prepared import DatasetDescription, ImageData, TextData
from horizont.data.sharding import example_order
from horizont.frameworks.base import (
    FrameworkAdapter,
    ImagesOnDisk,
    InMemoryImages,
    Normalisation,
    TextWindows,
    TrainingSetup,
)
from horizont.monitoring.progress import StepCounter
from horizont.networks.catalogue import network_for
from horizont.networks.weights import initial_statistics, initial_weights
from horizont.records.files import append_event

#: How often one that waits for others looks up.
_POLL_INTERVAL_S = 0.01


@dataclass(frozen=True)
class WorkerContext:
    """The work of one process that trains or leads.

    Attributes
    ----------
    examples_bytes
        The memory that the examples took before there was a pipeline, if it was looked at.
    """

    job: WorkerJob
    adapter: FrameworkAdapter
    setup: TrainingSetup
    data: ImageData | TextData
    examples: InMemoryImages | TextWindows | ImagesOnDisk
    progress: StepCounter
    examples_bytes: int | None = None

    def log_event(self, event: str) -> None:
        """Note that something has just been reached."""
        log_event(self.job, event)

    def wait_at_start_barrier(self) -> None:
        """Begin with the bare steps when the launcher says so.

        Without it, one that is quick to start up would have made its steps before the others
        make theirs, on a machine that is busy with starting them; or with more of a processor
        than its host's share, because the launcher only looks now and then.
        """
        while self.job.start_barrier is not None and not self.job.start_barrier.exists():
            time.sleep(_POLL_INTERVAL_S)


def log_event(job: WorkerJob, event: str) -> None:
    """Note an event of this process. Those of the start-up name the part that has just ended."""
    append_event(job.folder / "events.jsonl", event)


def training_setup(
    workload: Workload, data: ImageData | TextData, seed: int, build: Variant = DEFAULT
) -> TrainingSetup:
    """Describe the training of a workload, the same for every framework."""
    about = data.description
    network = network_for(workload, about.shape, about.classes)
    normalisation = None
    if isinstance(data, ImageData):
        mean, std = (np.array(values) for values in (about.mean, about.std))
        normalisation = Normalisation(mean, std, workload.upscale)
    return TrainingSetup(
        network=network,
        weights=initial_weights(network, seed),
        running_statistics=initial_statistics(network),
        optimizer=workload.optimizer,
        normalisation=normalisation,
        seed=seed,
        variant=build,
    )


def dataset_for(
    job: WorkerJob, data: ImageData | TextData
) -> InMemoryImages | TextWindows | ImagesOnDisk:
    """Load the examples, or find their files, and lay down the order in which they are seen."""
    order = worker_example_order(job, data.description)
    if job.files_folder is not None:
        reader = job.run.input.reader_of(job.run.system.framework)
        return ImagesOnDisk(
            open_files(data.description, job.files_folder), order, job.run.input, reader
        )
    if isinstance(data, TextData):
        return TextWindows(np.array(data.train_tokens), job.run.workload.time_steps, order)
    return InMemoryImages(np.array(data.train_images), np.array(data.train_labels), order)


def worker_example_order(job: WorkerJob, about: DatasetDescription) -> list[NDArray[np.int64]]:
    """Tell the examples of each batch of this worker.

    Batches that are taken from the pipeline alone come first, in an order of their own: the
    training sees the same examples whether or not there are any.
    """
    run = job.run
    training = list(example_order(run, job.rank, about))
    if not run.steps.input_batches:
        return training
    alone = {"timed": run.steps.input_batches, "warmup": 0, "instrumented": 0, "profiled": 0}
    before = run.model_copy(update={"steps": run.steps.model_copy(update=alone)})
    return [*example_order(before, job.rank, about), *training]

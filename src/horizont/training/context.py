"""What the process of a run works with: setup, data, progress and event log."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.config.framework import Device
from horizont.config.jobs import WorkerJob
from horizont.config.system import DEFAULT
from horizont.config.workload import Workload
from horizont.data.files import open_files
from horizont.data.prepared import DatasetDescription, ImageData, TextData
from horizont.data.sharding import example_order, examples_read
from horizont.frameworks.base import (
    FrameworkAdapter,
    ImagesOnDisk,
    InMemoryImages,
    Normalisation,
    TextWindows,
    TrainingData,
    TrainingSetup,
)
from horizont.monitoring.progress import StepCounter
from horizont.networks.catalogue import network_for
from horizont.networks.weights import initial_statistics, initial_weights
from horizont.records.files import append_event

#: Seconds between two checks of the start barrier.
_POLL_INTERVAL_S = 0.01


@dataclass(frozen=True)
class WorkerContext:
    """The work of one process that trains or coordinates.

    Attributes
    ----------
    examples
        The training data in the order in which this worker reads it.
    examples_bytes
        Memory of the examples without an input pipeline; None if it was not measured.
    """

    job: WorkerJob
    adapter: FrameworkAdapter
    setup: TrainingSetup
    data: ImageData | TextData
    examples: TrainingData
    progress: StepCounter
    examples_bytes: int | None = None

    def log_event(self, event: str) -> None:
        """Log an event of this process."""
        log_event(self.job, event)

    def wait_at_start_barrier(self) -> None:
        """Wait until the launcher releases the timed steps.

        Otherwise a process that starts up quickly would run its steps while others load the
        machine with starting up, or before the CPU quota applies, as the launcher checks progress
        only now and then.
        """
        while self.job.start_barrier is not None and not self.job.start_barrier.exists():
            time.sleep(_POLL_INTERVAL_S)


def log_event(job: WorkerJob, event: str, **details: Any) -> None:
    """Log an event of a process; an event of start-up ends the phase of the same name."""
    append_event(job.folder / "events.jsonl", event, **details)


def training_setup(
    workload: Workload,
    data: ImageData | TextData,
    seed: int,
    variant: str = DEFAULT,
    device: Device = "cpu",
) -> TrainingSetup:
    """Return network, initial weights and optimizer of a workload, equal in all frameworks."""
    description = data.description
    network = network_for(workload, description.shape, description.classes)
    normalisation = None
    if isinstance(data, ImageData):
        mean, std = np.array(description.mean), np.array(description.std)
        normalisation = Normalisation(mean, std, workload.upscale)
    return TrainingSetup(
        network=network,
        weights=initial_weights(network, seed, workload.initial_limit),
        running_statistics=initial_statistics(network),
        optimizer=workload.optimizer,
        normalisation=normalisation,
        seed=seed,
        variant=variant,
        device=device,
    )


def dataset_for(job: WorkerJob, data: ImageData | TextData) -> TrainingData:
    """Load the examples, or open their files, with the order in which this worker reads them."""
    order = worker_example_order(job, data.description)
    if job.files_folder is not None:
        reader = job.run.input.reader_of(job.run.system.framework)
        files = open_files(data.description, job.files_folder)
        files = files.first(examples_read(job.run, data.description))
        return ImagesOnDisk(files, order, job.run.input, reader)
    if isinstance(data, TextData):
        return TextWindows(np.array(data.train_tokens), job.run.workload.time_steps, order)
    return InMemoryImages(np.array(data.train_images), np.array(data.train_labels), order)


def worker_example_order(
    job: WorkerJob, description: DatasetDescription
) -> list[NDArray[np.int64]]:
    """Return the indices of the examples of this worker, batch by batch.

    Batches for the input pipeline alone come first, in an order of their own, so that training
    sees the same examples with and without them.
    """
    run = job.run
    training = list(example_order(run, job.rank, description))
    if not run.steps.input_batches:
        return training
    input_only = {"timed": run.steps.input_batches, "warmup": 0, "instrumented": 0, "profiled": 0}
    measured = run.model_copy(update={"steps": run.steps.model_copy(update=input_only)})
    return [*example_order(measured, job.rank, description), *training]

"""The protocol between training processes and frameworks.

Each framework is a package with the same modules: ``info`` describes it without loading it,
``model`` builds a network from native layers, ``optimizer`` holds the update rules, ``input`` the
framework's own input pipeline, ``train`` the trainer of a single process, ``distributed`` or
``kvstore`` the trainers and servers of the distributed systems, ``profiler`` reads the framework's
profiler, and ``adapter`` offers them all as ``ADAPTER``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from horizont.config.framework import Device
from horizont.config.input import InputPipeline
from horizont.config.jobs import WorkerJob
from horizont.config.system import DEFAULT, SYSTEMS
from horizont.config.workload import OptimizerConfig
from horizont.data.files import DecodedImageCache, ImageFiles, ImageReader
from horizont.errors import UserError
from horizont.frameworks.operators import OperatorCall, ProfileError
from horizont.networks.network import Network

#: Arrays by canonical name and in canonical layout.
Weights = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Normalisation:
    """Bytes to network inputs: (byte / 255 - mean) / std for each channel.

    Attributes
    ----------
    upscale
        Each pixel is repeated so many times in both directions.
    """

    mean: NDArray[Any]
    std: NDArray[Any]
    upscale: int = 1

    @property
    def scale(self) -> NDArray[Any]:
        """The factor of a byte, for each channel."""
        return 1.0 / (255.0 * self.std)

    @property
    def offset(self) -> NDArray[Any]:
        """The summand of a scaled byte, for each channel."""
        offset: NDArray[Any] = -self.mean / self.std
        return offset


@dataclass(frozen=True)
class TrainingSetup:
    """A network with everything that is needed to train it.

    Attributes
    ----------
    weights
        Initial weights.
    normalisation
        Of images; None for texts.
    running_statistics
        Initial running statistics of batch norm; by default mean 0 and variance 1.
    seed
        Seed of the framework's own random numbers: the masks of dropout.
    loss_reduction
        ``mean`` over the examples of a batch. ``sum`` is a mutation for the comparator. The loss
        of a text is the sum over its time steps.
    decay_all
        Weight decay applies to kernels and matrices; on all weights it is a mutation.
    gradient_factors
        Factors of gradients by weight; any factor is a mutation.
    device
        Where the trainer computes: ``cuda`` is the only GPU that its process sees. Batches and
        arrays of the protocol are converted by the trainer.
    """

    network: Network
    weights: Weights
    optimizer: OptimizerConfig
    normalisation: Normalisation | None
    running_statistics: Weights = field(default_factory=dict)
    seed: int = 0
    dtype: Literal["float32", "float64"] = "float32"
    loss_reduction: Literal["mean", "sum"] = "mean"
    decay_all: bool = False
    gradient_factors: Mapping[str, float] = field(default_factory=dict)
    variant: str = DEFAULT
    device: Device = "cpu"

    def weight_decay_of(self, weight: str) -> float:
        """Return the weight decay of a weight."""
        is_decayed = self.decay_all or self.weights[weight].ndim > 1
        return self.optimizer.weight_decay if is_decayed else 0.0


@dataclass(frozen=True)
class InMemoryImages:
    """Images of a training run, in memory.

    Attributes
    ----------
    images
        uint8, (examples, channels, height, width).
    labels
        int64, (examples,).
    order
        The indices of the examples, batch by batch.
    """

    images: NDArray[Any]
    labels: NDArray[Any]
    order: Sequence[NDArray[Any]]


@dataclass(frozen=True)
class TextWindows:
    """Windows into a text, in memory.

    Attributes
    ----------
    tokens
        The text as word indices, int32 (words,).
    time_steps
        Words per example.
    order
        The first positions of the examples, batch by batch.
    """

    tokens: NDArray[Any]
    time_steps: int
    order: Sequence[NDArray[Any]]

    def inputs_and_targets(self, starts: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return inputs, and targets one word later: int32 (examples, time steps) each."""
        windows = self.tokens[np.asarray(starts)[:, None] + np.arange(self.time_steps + 1)]
        return windows[:, :-1], windows[:, 1:]


@dataclass(frozen=True)
class ImagesOnDisk:
    """Images of a training run, in files.

    Attributes
    ----------
    order
        The indices of the examples, batch by batch.
    reader
        A name of `horizont.config.system.READERS`.
    """

    files: ImageFiles
    order: Sequence[NDArray[Any]]
    input: InputPipeline
    reader: str

    def image_reader(self, read: ImageReader | None = None) -> ImageReader:
        """Return what reads images, by default from the files, with the cache of the pipeline."""
        files, read = self.files, read or self.files.read
        return DecodedImageCache(len(files), files.shape, read) if self.input.cache else read


TrainingData = InMemoryImages | TextWindows | ImagesOnDisk


def to_channels_last(inputs: NDArray[Any]) -> NDArray[Any]:
    """Return images with the channels last; texts are unchanged."""
    return np.ascontiguousarray(inputs.transpose(0, 2, 3, 1)) if inputs.ndim > 2 else inputs


def start_on_first_batch(pipeline: Iterable[Any]) -> Iterator[Any]:
    """Start a pipeline when its first batch is requested, and release it when this is closed."""
    yield from pipeline


@dataclass(frozen=True)
class ForwardBackward:
    """Logits, loss and gradients of a batch, without an update."""

    logits: NDArray[Any]
    loss: float
    gradients: Weights


@dataclass(frozen=True)
class CommunicationStats:
    """The gradient exchange of uninstrumented steps, by the framework's own clocks.

    Attributes
    ----------
    exchange_s
        Summed over the steps, from the start of the first transfer to the end of the last.
    overlap_s
        The part of it that overlapped with the backward pass.
    """

    steps: int
    exchange_s: float
    overlap_s: float

    def mean_since(self, before: CommunicationStats) -> CommunicationStats | None:
        """Return the mean of a step since an earlier reading; None without a step since."""
        steps = self.steps - before.steps
        if not steps:
            return None
        exchange_s = (self.exchange_s - before.exchange_s) / steps
        return CommunicationStats(1, exchange_s, (self.overlap_s - before.overlap_s) / steps)


class PhaseMark(Protocol):
    """The clock of an instrumented step."""

    def __call__(self, phase: str, end_s: float | None = None) -> None:
        """Record the end of a phase, now or at a time of ``time.monotonic``.

        The phase began at the previous mark.
        """


class Trainer(ABC):
    """The training of one process, alone or as one of several workers.

    The methods that are not abstract have the defaults of a single process that computes eagerly.
    """

    @abstractmethod
    def batches(self, data: TrainingData) -> Iterator[Any]:
        """Start the framework's own input pipeline; yield batches in the order of `data`.

        A batch begins with inputs and targets. No file is read before the first batch is
        requested.
        """

    def batch_inputs(self, batch: Any) -> NDArray[Any]:
        """Return the inputs of a batch as the first layer receives them, examples first."""
        return np.asarray(batch[0])

    def compile_instrumented_step(self, batch_size: int) -> None:
        """Trace or compile the instrumented step for this batch size, outside any timing.

        By default it calls what the uninstrumented one calls, so nothing is left to compile.
        """
        del batch_size

    @abstractmethod
    def step(self, batch: Any) -> Any:
        """Run one training step and return its loss.

        The loss may be pending: the step has finished when `synchronize` returns.
        """

    @abstractmethod
    def instrumented_step(self, batch: Any, mark: PhaseMark) -> Any:
        """Run the same step and mark the end of each phase.

        A worker marks its whole exchange as communication; the launcher separates waiting for
        the slowest worker after the run.
        """

    def synchronize(self, loss: Any) -> None:
        """Block until the step that produced this loss has finished, by default at its return."""
        del loss

    def communication_stats(self) -> CommunicationStats | None:
        """Return the exchange so far, if the framework measures it itself."""
        return None

    def loss_value(self, loss: Any) -> float:
        """Return a loss as a number."""
        return float(loss)

    @abstractmethod
    def predict(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return scores in evaluation mode, (examples, [time steps,] classes).

        The inputs are images, uint8 (examples, channels, height, width), or texts (examples, time
        steps), which continue where the examples of the previous batch ended.
        """

    @abstractmethod
    def forward_backward(self, batch: Any) -> ForwardBackward:
        """Return logits, loss and gradients of a batch; nothing is updated."""

    @abstractmethod
    def weights(self) -> Weights:
        """Return the weights."""

    def running_statistics(self) -> Weights:
        """Return the running statistics of batch norm, which each process tracks itself."""
        return {}

    def optimizer_state(self) -> Weights:
        """Return the optimizer's state in this process: ``<weight>.<slot>``.

        Slots are ``velocity`` of momentum, ``first`` and ``second`` moment of Adam.
        """
        return {}

    def recurrent_state(self) -> Weights:
        """Return the recurrent state carried to the next batch: ``<layer>.<part>``.

        Each part is (examples, units); before the first batch there is none.
        """
        return {}

    def set_recurrent_state(self, states: Weights) -> None:
        """Set the recurrent state, as `recurrent_state` returns it."""
        if states:
            raise NotImplementedError(f"recurrent state: {', '.join(states)}")

    def reset_recurrent_state(self) -> None:  # noqa: B027 - an empty default
        """Zero the recurrent state."""

    def set_dropout_masks(self, masks: Weights) -> None:
        """Set the external dropout masks of the next step, by layer: (examples, ...)."""
        if masks:
            raise NotImplementedError(f"external dropout masks: {', '.join(masks)}")

    def close(self) -> None:  # noqa: B027 - an empty default
        """Leave the group of workers in good order."""


#: Waits for the end of a step and returns its phases in order, each with its end in seconds of
#: ``time.monotonic``.
PhaseEnds = Callable[[], list[tuple[str, float]]]


class EngineQueuedTrainer(Trainer):
    """A trainer that can queue an instrumented step before the previous one has finished."""

    @abstractmethod
    def enqueue_instrumented_step(self, batch: Any) -> tuple[Any, PhaseEnds]:
        """Queue a step whose phases are timed where they run; return the pending loss and ends.

        A phase begins when the previous one has ended, the first one when the previous step has.
        """

    def instrumented_step(self, batch: Any, mark: PhaseMark) -> Any:
        """Run one training step, each phase after the end of the previous one."""
        loss, phase_ends = self.enqueue_instrumented_step(batch)
        for phase, end_s in phase_ends():
            mark(phase, end_s)
        return loss


@dataclass(frozen=True)
class RemoteStep:
    """A step that a worker ran for a coordinator.

    Attributes
    ----------
    start_unix_s, end_unix_s
        By the worker's wall clock.
    phases_s
        Seconds of each measured phase.
    """

    worker: int
    start_unix_s: float
    end_unix_s: float
    phases_s: dict[str, float]
    loss: float


class Coordinator(ABC):
    """The process that schedules steps on workers that only serve."""

    @abstractmethod
    def run(self, kind: str, steps: int, on_progress: Callable[[int], None]) -> list[RemoteStep]:
        """Run `steps` steps per worker on average; `on_progress` receives the steps so far.

        `kind` is a segment of `horizont.config.run.StepCounts`; instrumented steps have phases.
        """

    @abstractmethod
    def weights(self) -> Weights:
        """Return the weights."""

    @abstractmethod
    def running_statistics(self) -> Weights:
        """Return the running statistics of batch norm."""

    @abstractmethod
    def close(self) -> None:
        """Wait for pending steps and release workers and servers."""


class FrameworkAdapter(ABC):
    """Everything that Horizont needs from a framework; a process loads one adapter.

    The methods that are not abstract have the defaults of a framework without distributed systems
    and without a profiler.
    """

    framework: str  # its name in the registry

    @abstractmethod
    def configure(self, threads: int, device: Device = "cpu") -> None:
        """Set the threads and the device; called before everything else."""

    def share_compiled_programs(self, folder: Path) -> None:
        """Compile equal programs of several trainers once; for processes that time nothing.

        They are written to a folder. A framework that compiles quickly does nothing.
        """
        del folder

    @abstractmethod
    def trainer(self, setup: TrainingSetup) -> Trainer:
        """Return the trainer of a single process."""

    def worker(self, setup: TrainingSetup, job: WorkerJob) -> Trainer:
        """Join the other processes of the job and return the trainer of a worker."""
        raise self._role_error(job)

    def coordinator(self, setup: TrainingSetup, job: WorkerJob, data: TrainingData) -> Coordinator:
        """Return the coordinator of workers that only serve."""
        raise self._role_error(job)

    def serve(self, job: WorkerJob) -> None:
        """Run a service role until the job is over: server, scheduler or remote-controlled worker.

        It may not return; the launcher then terminates it.
        """
        raise self._role_error(job)

    def _role_error(self, job: WorkerJob) -> UserError:
        infos = [info for name, info in SYSTEMS.items() if name.startswith(f"{self.framework}/")]
        return UserError("role", job.role, sorted({"worker", *(r for i in infos for r in i.roles)}))

    def profiling_trainer(self, setup: TrainingSetup) -> Trainer:
        """Return a new trainer of a single process that runs its operators one by one."""
        return self.trainer(setup)

    def profile(
        self, run_steps: Callable[[], None], trainer: Trainer, setup: TrainingSetup, folder: Path
    ) -> list[OperatorCall]:
        """Run steps of such a trainer under the framework's profiler.

        Files of the profiler that are worth storing go to the folder. A profile that cannot be read
        is a `ProfileError`.
        """
        raise ProfileError(f"{self.framework} has no profiler")

    @abstractmethod
    def features(self) -> dict[str, Any]:
        """Return what the installed framework offers; see `horizont.frameworks.features`.

        It also trains a convolution for a step, so that a library below the framework can report
        what it computes.
        """

"""What a framework must offer: the protocol that worker processes speak.

Each framework is a package with the same files: ``model`` builds a network natively,
``input`` is the framework's own input pipeline, ``train`` a trainer in one process,
``distribute`` the trainers and servers of the distributed systems, ``profile`` the
framework's own profiler. Its ``ADAPTER`` ties them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from horizont.config.input import InputPipeline
from horizont.config.jobs import WorkerJob
from horizont.config.system import DEFAULT, Variant
from horizont.config.workload import OptimizerConfig
from horizont.data.files import ImageFiles
from horizont.frameworks.operators import OperatorCall
from horizont.networks.network import Network


class PhaseMark(Protocol):
    """Tells the clock that a phase of the step has ended."""

    def __call__(self, phase: str, end_s: float | None = None) -> None:
        """Book the time since the last mark, until now or until a time of ``time.monotonic``."""
        ...


Weights = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Normalisation:
    """From bytes to numbers: (byte / 255 - mean) / std for each channel.

    Attributes
    ----------
    enlarge
        Each pixel becomes a square of so many by so many.
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
        """What is added to a scaled byte, for each channel."""
        offset: NDArray[Any] = -self.mean / self.std
        return offset


@dataclass(frozen=True)
class TrainingSetup:
    """A network with everything that training it needs.

    Attributes
    ----------
    normalisation
        Of images; nothing for texts.
    weights
        Initial weights by canonical name and in canonical layout.
    statistics
        What the tracked statistics start from, likewise; mean 0 and variance 1 where left out.
    seed
        Of what a framework draws itself: the elements that dropout drops.
    loss_reduction
        ``mean`` over the examples of a batch; ``sum`` exists for the comparator to catch. The
        loss of a text is the sum over its time steps.
    decay_all
        Weight decay is for kernels and matrices; on all weights it is for the comparator to
        catch.
    gradient_factors
        Factors of some gradients, by weight; none are meant, any are for the comparator to catch.
    build
        How the framework is to build the network; of :data:`horizont.config.BUILDS`, or plain.
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
    variant: Variant = DEFAULT

    def weight_decay_of(self, weight: str) -> float:
        """Tell the weight decay of a weight by its name."""
        decayed = self.decay_all or self.weights[weight].ndim > 1
        return self.optimizer.weight_decay if decayed else 0.0


@dataclass(frozen=True)
class ForwardBackward:
    """What a network says to a batch before learning from it, in canonical layout."""

    logits: NDArray[Any]
    loss: float
    gradients: Weights


@dataclass(frozen=True)
class InMemoryImages:
    """The examples of a training run, in memory.

    Attributes
    ----------
    images
        uint8, (examples, channels, height, width).
    labels
        int64, (examples,).
    order
        The indices of each batch, batch by batch.
    """

    images: NDArray[Any]
    labels: NDArray[Any]
    order: Sequence[NDArray[Any]]


@dataclass(frozen=True)
class TextWindows:
    """The examples of a training run on a text, in memory.

    Attributes
    ----------
    words
        The text as numbers of words, int32 (words,).
    time_steps
        Words of an example.
    order
        Where the examples of each batch begin, batch by batch.
    """

    tokens: NDArray[Any]
    time_steps: int
    order: Sequence[NDArray[Any]]

    def inputs_and_targets(self, starts: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Cut out examples: what is read and, one word later, what is to be predicted.

        Returns
        -------
        tuple
            Two arrays, int32 (examples, time steps).
        """
        cut = self.tokens[np.asarray(starts)[:, None] + np.arange(self.time_steps + 1)]
        return cut[:, :-1], cut[:, 1:]


@dataclass(frozen=True)
class ImagesOnDisk:
    """The examples of a training run, in files.

    Attributes
    ----------
    order
        The indices of each batch, batch by batch.
    input
        How they are to be read.
    reader
        The name of the reader, of :data:`horizont.config.READERS`.
    """

    files: ImageFiles
    order: Sequence[NDArray[Any]]
    input: InputPipeline
    reader: str


@dataclass(frozen=True)
class CommunicationStats:
    """The exchange of the gradients in bare steps, by the framework's own clocks.

    Attributes
    ----------
    steps
        How many have been summed up so far.
    exchange_s
        From the first gradients on their way to the last ones back, in seconds.
    overlap_s
        How much of that went on beside the backward pass, in seconds.
    """

    steps: int
    exchange_s: float
    overlap_s: float

    def mean_since(self, before: CommunicationStats) -> CommunicationStats | None:
        """Take the mean of a step since an earlier sum, if there was a step since."""
        steps = self.steps - before.steps
        if not steps:
            return None
        exchange_s = (self.exchange_s - before.exchange_s) / steps
        return CommunicationStats(1, exchange_s, (self.overlap_s - before.overlap_s) / steps)


def lazily(pipeline: Iterable[Any]) -> Iterator[Any]:
    """Start a pipeline when its first batch is asked for, and let go of it when this is closed."""
    yield from pipeline


#: Waits for the end of a step, and tells its phases in their order, each with its end in seconds of
#: ``time.monotonic``.
PhaseEnds = Callable[[], list[tuple[str, float]]]


@runtime_checkable
class EngineQueuedTrainer(Protocol):
    """A trainer that can be told to make a timed step before the one before it is over."""

    def enqueue_instrumented_step(self, batch: Any) -> tuple[Any, PhaseEnds]:
        """Queue a step whose phases are timed where the work is done; promise loss and ends.

        A phase begins when the one before it has ended, and the first when the step before has.
        """
        ...


class Trainer(Protocol):
    """One process that trains: alone, or as a worker among others."""

    def batches(self, data: InMemoryImages | TextWindows | ImagesOnDisk) -> Iterator[Any]:
        """Start the framework's own input pipeline: batches in the given order.

        A batch begins with what the network takes and what it is to find. No file is read before
        the first batch is asked for.
        """
        ...

    def compile_instrumented_step(self, batch_size: int) -> None:
        """Get ready for timed steps, so that the first of them is like the others.

        Parameters
        ----------
        examples
            Of a batch. What compiles for one size of batch compiles for this one.
        """
        ...

    def step(self, batch: Any) -> Any:
        """Make one training step, as fast as the framework can, and hand back its loss.

        The loss may be a promise: the step is over when :meth:`settle` returns.
        """
        ...

    def instrumented_step(self, batch: Any, mark: PhaseMark) -> Any:
        """Make the same step, and mark the end of each phase.

        A worker marks all of its exchange as communication: how much of it was waiting for the
        slowest, only the others know.
        """
        ...

    def synchronize(self, loss: Any) -> None:
        """Return when the step that gave this loss is over."""
        ...

    def communication_stats(self) -> CommunicationStats | None:
        """Sum up the exchange so far, if the framework takes its time beside the backward pass."""
        ...

    def loss_value(self, loss: Any) -> float:
        """Read a loss."""
        ...

    def predict(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Score inputs in evaluation.

        Parameters
        ----------
        inputs
            Images, uint8 (examples, channels, height, width), or texts (examples, time steps),
            which are read on from where the examples of the batch before ended.

        Returns
        -------
        NDArray
            (examples, classes), or (examples, time steps, classes).
        """
        ...

    def forward_backward(self, batch: Any) -> ForwardBackward:
        """Tell logits, loss and gradients for a batch without learning from it."""
        ...

    def weights(self) -> Weights:
        """Read the weights by canonical name and in canonical layout."""
        ...

    def running_statistics(self) -> Weights:
        """Read the tracked statistics, likewise: those of this process."""
        ...

    def optimizer_state(self) -> Weights:
        """Read what the optimizer keeps here of each weight: ``<weight>.<slot>``.

        The slots are ``velocity`` of momentum, ``first`` and ``second`` moment of Adam.
        """
        ...

    def recurrent_state(self) -> Weights:
        """Read what a recurrent network carries to the next batch: ``<layer>.<part>``.

        Each is laid out as (examples, units); before the first batch there is nothing.
        """
        ...

    def reset_recurrent_state(self) -> None:
        """Let the next batch begin with a state of zeros."""
        ...

    def set_dropout_masks(self, masks: Weights) -> None:
        """Set the factors of all fed dropouts for the next step, by the name of the layer.

        A mask is laid out canonically, with an axis for the examples in front.
        """
        ...

    def close(self) -> None:
        """Leave the others in good order."""
        ...


@dataclass(frozen=True)
class RemoteStep:
    """A step that a coordinator had done by a worker.

    Attributes
    ----------
    start_unix_s, end_unix_s
        The worker's wall clock.
    phases_s
        Seconds of each phase that was measured.
    """

    worker: int
    start_unix_s: float
    end_unix_s: float
    phases_s: dict[str, float]
    loss: float


class Coordinator(Protocol):
    """The process that hands out steps where workers only serve."""

    def run(self, kind: str, steps: int, on_progress: Callable[[int], None]) -> list[RemoteStep]:
        """Have `steps` steps done on each worker on average, calling `done` with the count.

        `kind` is a segment of :class:`horizont.config.Steps`; instrumented ones tell phases.
        """
        ...

    def weights(self) -> Weights:
        """Read the weights by canonical name and in canonical layout."""
        ...

    def running_statistics(self) -> Weights:
        """Read the tracked statistics, likewise."""
        ...

    def close(self) -> None:
        """Let the workers and servers go."""
        ...


class FrameworkAdapter(Protocol):
    """A framework."""

    def configure(self, threads: int) -> None:
        """Set the threads, before anything else happens."""
        ...

    def trainer(self, setup: TrainingSetup) -> Trainer:
        """Build a trainer that works alone."""
        ...

    def worker(self, setup: TrainingSetup, job: WorkerJob) -> Trainer:
        """Join the other processes of the job as a worker that trains."""
        ...

    def profiling_trainer(self, setup: TrainingSetup) -> Trainer:
        """Build a trainer that works alone and shows its operators one by one."""
        ...

    def profile(
        self, run_steps: Callable[[], None], trainer: Trainer, setup: TrainingSetup, folder: Path
    ) -> list[OperatorCall]:
        """Do some work of such a trainer under the framework's own profiler.

        Parameters
        ----------
        folder
            For files of the profiler that are worth keeping.

        Raises
        ------
        ProfileNotUnderstood
            If the profiler left nothing that can be read.
        """
        ...

    def serve(self, job: WorkerJob) -> None:
        """Serve the job as a passive role: server, scheduler, or a worker that is told what to do.

        Returns, if at all, when the job is over.
        """
        ...

    def coordinator(
        self,
        setup: TrainingSetup,
        job: WorkerJob,
        data: InMemoryImages | TextWindows | ImagesOnDisk,
    ) -> Coordinator:
        """Lead the job's passive workers."""
        ...

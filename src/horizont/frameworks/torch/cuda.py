"""Training with PyTorch on a GPU: steps are queued, and the device reads its own clock.

Operators return before the device has executed them. CUDA events, queued like operators, give the
end of a step and of its phases without making the program wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from typing import Any, NamedTuple

import torch

from horizont.config.jobs import WorkerJob
from horizont.frameworks import base
from horizont.frameworks.torch.distributed import AllReduceTrainer, LocalSGDTrainer
from horizont.frameworks.torch.input import Batch, batches
from horizont.frameworks.torch.train import LocalTrainer

#: The variant whose matrix products and convolutions round float32 inputs to TF32.
TF32 = "tf32"


def build_trainer(setup: base.TrainingSetup) -> CudaTrainer:
    """Return the trainer of a single process."""
    set_float32_precision(setup.variant)
    return CudaTrainer(setup)


def build_worker(setup: base.TrainingSetup, job: WorkerJob) -> CudaTrainer:
    """Join the process group of the job and return the trainer of a worker."""
    set_float32_precision(setup.variant)
    if job.run.gradient_exchange.local_steps > 1:
        return CudaLocalSGDTrainer(setup, job)
    return CudaAllReduceTrainer(setup, job)


def set_float32_precision(variant: str) -> None:
    """Set TF32 on for its variant and off otherwise: PyTorch's convolutions use it by default."""
    uses_tf32 = variant == TF32
    torch.backends.cuda.matmul.allow_tf32 = uses_tf32
    torch.backends.cudnn.allow_tf32 = uses_tf32
    torch.set_float32_matmul_precision("high" if uses_tf32 else "highest")


def record_event() -> torch.cuda.Event:
    """Queue a reading of the device's clock after all operators queued so far."""
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


class DeviceClock:
    """The device's clock in seconds of ``time.monotonic``.

    The device reports only the time between two events. The first one is recorded while the device
    has no work, so that this process knows its time to within some ten microseconds; the others
    follow from one to the next, because the difference is a float32 of milliseconds.
    """

    def __init__(self) -> None:
        torch.cuda.synchronize()
        self._event = record_event()
        self._event.synchronize()
        self._time_s = monotonic()

    def time_s(self, event: torch.cuda.Event) -> float:
        """Wait for an event and return its time; events are passed in the order of recording."""
        event.synchronize()
        self._time_s += self._event.elapsed_time(event) / 1e3
        self._event = event
        return self._time_s


class PendingLoss(NamedTuple):
    """The loss of a queued step, and the event after its update."""

    loss: torch.Tensor
    end: torch.cuda.Event


class CudaTrainer(LocalTrainer, base.EngineQueuedTrainer):
    """The trainer of a single process on a GPU."""

    _clock: DeviceClock | None = None

    def batches(self, data: base.TrainingData) -> Iterator[Batch]:
        """Start the input pipeline; copies of its batches are queued from pinned memory."""
        return (
            (
                inputs.to(self.setup.device, non_blocking=True),
                labels.to(self.setup.device, non_blocking=True),
            )
            for inputs, labels in batches(data, self.convert, pin_memory=True)
        )

    def step(self, batch: Batch) -> Any:
        """Queue one training step."""
        return PendingLoss(super().step(batch), record_event())

    def instrumented_step(self, batch: Batch, mark: base.PhaseMark) -> Any:
        """Run one training step and wait for its phases."""
        return base.EngineQueuedTrainer.instrumented_step(self, batch, mark)

    def enqueue_instrumented_step(self, batch: Batch) -> tuple[PendingLoss, base.PhaseEnds]:
        """Queue the step of a CPU with an event in the place of each reading of the clock.

        The load phase ends when the batch has been copied, for which the forward pass waits.
        """
        clock = self._clock = self._clock or DeviceClock()
        events: list[tuple[str, torch.cuda.Event]] = []

        def mark(phase: str, end: Any = None) -> None:
            events.append((phase, end or record_event()))

        mark("load")
        loss = super().instrumented_step(batch, mark)  # type: ignore[arg-type] # ends are events
        return PendingLoss(loss, events[-1][1]), lambda: [
            (phase, clock.time_s(event)) for phase, event in events
        ]

    def synchronize(self, loss: PendingLoss) -> None:
        """Block until the step has updated the weights; later steps may still be queued."""
        loss.end.synchronize()

    def loss_value(self, loss: PendingLoss) -> float:
        """Return a loss as a number."""
        return float(loss.loss)


class CudaAllReduceTrainer(CudaTrainer, AllReduceTrainer):
    """A worker on a GPU whose gradients DistributedDataParallel averages through NCCL.

    The exchange is queued on a stream of its own; the update waits for it on the device.
    """

    read_clock = staticmethod(record_event)

    def communication_stats(self) -> None:
        """Return nothing: to read its clocks on a GPU, DDP waits for the device at every step."""


class CudaLocalSGDTrainer(CudaTrainer, LocalSGDTrainer):
    """A worker on a GPU that averages the weights through NCCL."""

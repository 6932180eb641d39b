"""What came of an incident: who went on, who noticed, and how far the training got."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from horizont.config.base import ConfigModel

#: How a process ended: it did its work, an error ended it, the incident did, or it was still
#: running when the launcher ended it.
Outcome = Literal["completed", "failed", "injected", "running"]

#: Why the launcher stopped waiting: all that train were done, all had ended, nothing moved any
#: more, or the deadline had come.
EndReason = Literal["completed", "all_exited", "stalled", "timeout"]


class ProcessOutcome(ConfigModel):
    """What became of a process.

    Attributes
    ----------
    life
        1, or 2 of a process that was started again.
    steps_before, steps_after
        Steps done before the incident and from then on; None where it counts none.
    end_s
        From the incident until it ended, in seconds; None if the launcher had to end it.
    error_s
        From the incident until the error that ended it, where it could tell.
    words
        The last error that it printed.
    """

    process: str
    role: str
    rank: int
    incarnation: int = 1
    outcome: Outcome
    ended_after_s: float | None = None
    error_after_s: float | None = None
    error: str = ""
    steps_before: int | None = None
    steps_after: int | None = None

    @property
    def detected_after_s(self) -> float:
        """From the incident until it failed."""
        return self.error_after_s if self.error_after_s is not None else self.ended_after_s or 0.0


class FaultReport(ConfigModel):
    """What came of an incident.

    Attributes
    ----------
    process
        To whom it happened.
    at_step
        Steps that the process had made then; the slowest worker's, if it counts none.
    over
        Why the launcher stopped waiting.
    over_s
        From the incident until then, in seconds.
    fates
        Of all processes.
    taken_in
        Whether a process that was started again had a part in the training; None where nothing
        was started again, or where the run did not get far enough to tell.
    """

    target: str
    at_step: int
    end_reason: EndReason
    ended_after_s: float
    processes: tuple[ProcessOutcome, ...]
    rejoined: bool | None = None

    @property
    def first_failure(self) -> ProcessOutcome | None:
        """The first of the others that ended badly, or None if the others went on or hung."""
        failed = [f for f in self.processes if f.outcome == "failed" and f.process != self.target]
        return min(failed, key=lambda fate: fate.detected_after_s, default=None)

    @property
    def completed_steps(self) -> int:
        """Steps that the slowest of those that count had made in the end."""
        counted = [
            fate.steps_before + (fate.steps_after or 0)
            for fate in self.processes
            if fate.steps_before is not None and fate.incarnation == 1
        ]
        return min(counted, default=0)


Status = Literal["ok", "failed", "skipped"]


class InputMeasurement(ConfigModel):
    """What a pipeline that was drained before the training needed.

    Attributes
    ----------
    memory_bytes
        By how much the memory of the worker and its loader processes grew, from before the
        pipeline was made until the last drained batch: the sum of their proportional set
        sizes, in which shared pages count once.
    resident_share
        The share of the files' pages that was still in the operating system's memory after it
        was asked to drop them; nothing if it was not asked, or does not tell.
    """

    memory_bytes: float | None = None
    page_cache_fraction: float | None = None


class RunResult(ConfigModel):
    """What a run came to.

    Attributes
    ----------
    status
        Whether the run did all it was asked to.
    reason
        Why not, in a sentence; empty if it did.
    wall_s
        From the first process started to the last one ended, in seconds.
    train_s
        From the first bare step of any worker to the last one's end, in seconds.
    startup_s
        Of a process's start-up, from part to part, the mean over the processes.
    final_loss
        That of the last step; of a text it is summed over the time steps of an example.
    parameters
        How many numbers the network learns.
    test_accuracy, test_perplexity
        The share of images that were recognised, or exp of the mean loss of a word.
    disturbed
        Whether other programs of the machine took a notable share of the processor.
    input
        What the input pipeline needed, if it was looked at alone.
    exchange_s, overlap_s
        Of a bare step of the first worker, by the framework's own clocks: how long the exchange of
        the gradients takes, and how much of that goes on beside the backward pass.
    """

    status: Status
    reason: str = ""
    wall_s: float | None = None
    train_s: float | None = None
    startup_s: dict[str, float] = Field(default_factory=dict)
    final_loss: float | None = None
    parameters: int | None = None
    test_accuracy: float | None = None
    test_perplexity: float | None = None
    background_cpu: float | None = None
    disturbed: bool = False
    input: InputMeasurement | None = None
    exchange_s: float | None = None
    overlap_s: float | None = None

"""The result of a run, its update history, and the report of a fault injected into it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from horizont.config.base import ConfigModel

#: How a process ended: it completed its work, failed with an error, was ended by the injected
#: fault, or was still running when the launcher ended it.
Outcome = Literal["completed", "failed", "injected", "running"]

#: Why the launcher stopped waiting: all training processes had completed, all had exited, no
#: process made progress, or the timeout passed.
EndReason = Literal["completed", "all_exited", "stalled", "timeout"]


class ProcessOutcome(ConfigModel):
    """How a process ended after a fault.

    Attributes
    ----------
    incarnation
        1, or 2 for a process that was restarted.
    ended_after_s
        Seconds from the fault until the process ended; None if the launcher ended it.
    error_after_s
        Seconds from the fault until the error that ended the process, if it logged one.
    error
        The last error that it printed.
    steps_before, steps_after
        Steps before and after the fault; None if the process counts no steps.
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
        """Seconds from the fault until the process failed."""
        return self.error_after_s if self.error_after_s is not None else self.ended_after_s or 0.0


class FaultReport(ConfigModel):
    """The consequences of an injected fault.

    Attributes
    ----------
    target
        The process into which the fault was injected.
    at_step
        Steps that it had completed then; the slowest worker's, if it counts none.
    ended_after_s
        Seconds from the fault until the launcher stopped waiting.
    rejoined
        Whether a restarted process took part in the training again; None if none was restarted,
        or if the run ended too early to know.
    """

    target: str
    at_step: int
    end_reason: EndReason
    ended_after_s: float
    processes: tuple[ProcessOutcome, ...]
    rejoined: bool | None = None

    @property
    def first_failure(self) -> ProcessOutcome | None:
        """The first of the other processes that failed; None if all continued or hung."""
        failed = [p for p in self.processes if p.outcome == "failed" and p.process != self.target]
        return min(failed, key=lambda process: process.detected_after_s, default=None)


Status = Literal["ok", "failed", "skipped"]


#: What must not become of a gradient, not even by a fault: it was never applied, although a later
#: one of its worker was pushed; applied again; applied after a later one of its worker; applied but
#: never pushed; computed on weights that the server never had; or applied to weights that the
#: updates before it do not explain.
UpdateDefect = Literal[
    "lost", "repeated", "out_of_order", "unknown_gradient", "unknown_weights", "discontinuous"
]


class UpdateHistory(ConfigModel):
    """What became of the gradients that asynchronous workers pushed, each of a part of the weights.

    Attributes
    ----------
    in_flight
        Pushed in the last step of a worker and not applied: a fault interrupted that step.
    discarded
        Updates whose result was not in the weights with which their restarted server continued.
    defects
        The number of each kind.
    examples
        A sentence on the first of each kind.
    missing_logs
        The processes without a log, because they did nothing or their host was lost. What only
        their logs could show is no defect.
    """

    pushed: int
    applied: int
    in_flight: int = 0
    discarded: int = 0
    defects: dict[UpdateDefect, int] = Field(default_factory=dict)
    examples: tuple[str, ...] = ()
    missing_logs: tuple[str, ...] = ()

    @property
    def problem(self) -> str:
        """What is wrong with the updates of a run without a fault; empty if nothing is."""
        if self.examples:
            more = sum(self.defects.values()) - 1
            return self.examples[0] + (f", and {more} other defects" if more else "")
        if self.in_flight:
            return f"{self.in_flight} gradients were pushed but never applied"
        return ""


class InputMeasurement(ConfigModel):
    """The memory that an input pipeline needed, measured on its own before training.

    Attributes
    ----------
    memory_bytes
        Growth of the memory of the worker and its loader processes, from before the pipeline was
        built until the last batch was read: the sum of their proportional set sizes (PSS), which
        count shared pages once.
    page_cache_fraction
        The fraction of the files' pages that remained in the page cache after the operating
        system was asked to drop them; None if it was not asked, or does not report it.
    """

    memory_bytes: float | None = None
    page_cache_fraction: float | None = None


class RunResult(ConfigModel):
    """The summary of a run.

    Attributes
    ----------
    reason
        Why the run failed or was skipped.
    wall_s
        From the start of the first process to the end of the last one, in seconds.
    train_s
        From the start of the first timed step of any worker to the end of the last one.
    startup_s
        Duration of each phase of the start-up, the mean over the processes.
    final_loss
        Loss of the last step; for text the sum over the time steps of an example.
    parameters
        The number of trained parameters.
    table_parameters
        Those of embedding tables.
    test_accuracy, test_perplexity
        Fraction of correctly classified images; exp of the mean loss per word.
    background_cpu
        CPU time used by other programs, as a fraction of all CPUs.
    disturbed
        Whether other programs used a considerable part of the CPUs, a wall clock was set, or the
        clock of a host drifted.
    clock_step_s
        By how much a wall clock was set, by which some frameworks time their phases. To suspend
        the machine has the same effect.
    exchange_s, overlap_s
        Of a timed step of the first worker, by the framework's own clocks: the duration of the
        gradient exchange, and how much of it overlaps with the backward pass.
    update_history
        None if updates were not recorded.
    """

    status: Status
    reason: str = ""
    wall_s: float | None = None
    train_s: float | None = None
    startup_s: dict[str, float] = Field(default_factory=dict)
    final_loss: float | None = None
    parameters: int | None = None
    table_parameters: int = 0
    test_accuracy: float | None = None
    test_perplexity: float | None = None
    background_cpu: float | None = None
    disturbed: bool = False
    clock_step_s: float = 0.0
    input: InputMeasurement | None = None
    exchange_s: float | None = None
    overlap_s: float | None = None
    update_history: UpdateHistory | None = None

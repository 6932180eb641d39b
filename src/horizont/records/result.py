"""The summary of a run. A failed or skipped run has one too, with its reason."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from horizont.spec import Frozen

Status = Literal["ok", "failed", "skipped"]


class InputFacts(Frozen):
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
    resident_share: float | None = None


class Result(Frozen):
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
    input: InputFacts | None = None
    exchange_s: float | None = None
    overlap_s: float | None = None

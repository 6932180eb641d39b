"""The summary of a run. A failed or skipped run has one too, with its reason."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from horizont.spec import Frozen

Status = Literal["ok", "failed", "skipped"]


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
        From the first process started to the first step of the last worker, by part.
    final_loss
        That of the last step; of a text it is summed over the time steps of an example.
    parameters
        How many numbers the network learns.
    test_accuracy, test_perplexity
        The share of images that were recognised, or exp of the mean loss of a word.
    disturbed
        Whether other programs of the machine took a notable share of the processor.
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

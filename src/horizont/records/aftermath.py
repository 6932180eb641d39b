"""What came of an incident: who went on, who noticed, and how far the training got."""

from __future__ import annotations

from typing import Literal

from horizont.spec import Frozen

#: How a process ended: it did its work, an error ended it, the incident did, or it was still
#: running when the launcher ended it.
End = Literal["finished", "failed", "struck", "running"]

#: Why the launcher stopped waiting: all that train were done, all had ended, nothing moved any
#: more, or the deadline had come.
Over = Literal["finished", "ended", "stalled", "deadline"]


class Fate(Frozen):
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
    life: int = 1
    end: End
    end_s: float | None = None
    error_s: float | None = None
    words: str = ""
    steps_before: int | None = None
    steps_after: int | None = None

    @property
    def noticed_s(self) -> float:
        """From the incident until it failed."""
        return self.error_s if self.error_s is not None else self.end_s or 0.0


class Aftermath(Frozen):
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

    process: str
    at_step: int
    over: Over
    over_s: float
    fates: tuple[Fate, ...]
    taken_in: bool | None = None

    @property
    def noticed(self) -> Fate | None:
        """The first of the others that ended badly, or None if the others went on or hung."""
        failed = [f for f in self.fates if f.end == "failed" and f.process != self.process]
        return min(failed, key=lambda fate: fate.noticed_s, default=None)

    @property
    def done(self) -> int:
        """Steps that the slowest of those that count had made in the end."""
        counted = [
            fate.steps_before + (fate.steps_after or 0)
            for fate in self.fates
            if fate.steps_before is not None and fate.life == 1
        ]
        return min(counted, default=0)

"""A way from one process to several, as a page of chapter 11 shows it."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

import pandas as pd

from horizont.reporting.tables import Table, text_table
from horizont.theory.tutorial import Trained
from horizont.theory.tutorial import trained as in_numpy

#: How far trainings in float32 may be apart after a few steps: some dozens of roundings.
BOUND = 1e-5


@dataclass(frozen=True)
class Member:
    """A process that was started.

    Attributes
    ----------
    address
        The one it was given to listen at; nothing if it was given none.
    variables
        What it was told of the others.
    """

    name: str
    address: str
    variables: dict[str, str]


@dataclass(frozen=True)
class Lesson:
    """A way from one process to several, and what its processes came to.

    Attributes
    ----------
    exact
        Whether it must come to the weights of one process.
    trained
        Nothing if it was left out.
    """

    name: str
    framework: str
    means: str
    exact: bool
    members: tuple[Member, ...] = ()
    trained: Trained | None = None
    wall_s: float | None = None

    @property
    def distance(self) -> float | None:
        """How far its weights are from those of one process in NumPy."""
        return None if self.trained is None else in_numpy().distance(self.trained)

    @property
    def ok(self) -> bool | None:
        """Whether rounding explains the distance; nothing if none was to be expected, or known."""
        return None if self.distance is None or not self.exact else self.distance <= BOUND

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        told = {"name": self.name, "processes": len(self.members), "distance": self.distance}
        metadata = {"horizont": {"lesson": {**told, "ok": self.ok, "exact": self.exact}}}
        if self.trained is None:
            left = f"{self.name}: left out of this run; empty the parameter leave_out to start it."
            return {"text/html": f"<p>{html.escape(left)}</p>", "text/plain": left}, metadata
        table, sentence = self._table(), self._sentence()
        kind = {True: "good", False: "bad", None: "open"}[self.ok]
        page = f'{table.html()}<p class="hz-verdict hz-{kind}">{html.escape(sentence)}</p>'
        return {"text/html": page, "text/plain": f"{table.cells}\n{sentence}"}, metadata

    def _table(self) -> Table:
        rows = [
            {
                "process": member.name,
                "was given": member.address or "–",
                "was told": _shortened(member.variables),
            }
            for member in self.members
        ]
        return text_table(pd.DataFrame(rows))

    def _sentence(self) -> str:
        assert self.trained is not None
        steps = ", ".join(f"{loss:.4f}" for loss in self.trained.losses)
        far = f"weights {self.distance:.0e} from those of one process in NumPy"
        if self.ok is None:
            return f"losses {steps}; {far}: each gradient made a step of its own"
        return f"{'✓' if self.ok else '✗'} losses {steps}; {far}"


def _shortened(variables: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in variables.items()) or "nothing"

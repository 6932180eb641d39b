"""What the comparator found, said plainly."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from horizont.analysis import staleness
from horizont.records import Record
from horizont.report import words
from horizont.report.tables import Table, table


@dataclass(frozen=True)
class Verdict:
    """A finding in a sentence, and whether it is the one hoped for."""

    text: str
    good: bool

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        kind = "good" if self.good else "bad"
        mark = "✓" if self.good else "✗"
        text = f'<p class="hz-verdict hz-{kind}">{mark} {html.escape(self.text)}</p>'
        return {"text/html": text, "text/plain": f"{mark} {self.text}"}


@dataclass(frozen=True)
class Remark:
    """A plain sentence in the place of a table."""

    text: str

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/html": f"<p>{html.escape(self.text)}</p>", "text/plain": self.text}


def verdict(text: str, good: bool) -> Verdict:
    """Show a finding."""
    return Verdict(text, good)


def fault_table(tried: Sequence[Any]) -> Table | Remark:
    """Show what the comparator said of deliberate mistakes.

    Parameters
    ----------
    tried
        Each has ``as_row()``: ``mistake, framework, quantity, step, tensor, distance, caught``.
    """
    if not tried:
        return Remark("On this workload no mistakes were tried; params.yaml names where they are.")
    frame = pd.DataFrame([each.as_row() for each in tried])
    frame["framework"] = frame["framework"].map(words.framework)
    frame["caught"] = frame["caught"].map({True: "yes", False: "no"})
    columns = ["mistake", "framework", "caught", "quantity", "step", "tensor", "distance"]
    return table(frame[columns])


def replay_table(replayed: Sequence[Any]) -> Table | Remark:
    """Show what came of replaying asynchronous runs.

    Parameters
    ----------
    replayed
        Each has ``as_row()``: ``system, replayed, reason``, and of a run that went well
        ``updates, tensor, distance, bound``.
    """
    if not replayed:
        return Remark("On this workload nothing was replayed; params.yaml names where it is.")
    frame = pd.DataFrame([each.as_row() for each in replayed])
    frame["replayed"] = frame["replayed"].map({True: "yes", False: "no"})
    columns = ["system", "replayed", "updates", "tensor", "distance", "bound", "reason"]
    return table(frame.reindex(columns=columns))


def staleness_table(records: Sequence[Record]) -> Table | Remark:
    """Show how many updates were how stale, of all runs whose updates were recorded."""
    counted = staleness(records)
    if counted.empty:
        return Remark("No updates were recorded.")
    return table(counted)


def worst_distances(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Pick, of each quantity, step and precision, the row that comes closest to its bound.

    Parameters
    ----------
    rows
        The rows of a proof.
    """
    frame = pd.DataFrame(list(rows))
    if frame.empty:
        return frame
    # An exact quantity has the bound 0: being on it is as good as can be.
    close = frame["distance"] / frame["bound"].where(frame["bound"] > 0, np.inf)
    close = close.where(frame["ok"], np.inf)
    order = ["dtype", "quantity", "step"]
    worst = frame.assign(close=close).groupby(order, sort=False)["close"].idxmax()
    columns = [*order, "tensor", "pair", "distance", "bound"]
    return frame.loc[worst, columns].reset_index(drop=True)

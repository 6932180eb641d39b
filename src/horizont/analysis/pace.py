"""How fast a run gets on, and what it is doing: from its counters while it goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pandas as pd

from horizont.config.run import StepCounts

#: The name of the quantity beside those of `RESOURCES`.
PACE = "pace"

#: Bins that a run's steps are counted in, and the least width of one, in seconds.
_BINS = 150
_BIN_S = 0.5

Values = Sequence[float] | npt.NDArray[np.float64]

#: Time (in seconds) and steps done, oldest first.
History = Sequence[tuple[float, int]]


def pace_of_steps(steps: pd.DataFrame, zero_s: float) -> pd.DataFrame:
    """Count the steps that each worker ended in a second.

    Parameters
    ----------
    steps
        As the record has them.
    zero_s
        The zero of the time axis, in seconds.

    Returns
    -------
    pandas.DataFrame
        ``time_s``, ``quantity`` (`PACE`), ``name`` (worker-0), ``value`` in steps a second.
    """
    ends = (steps["start_s"] + steps["step_s"]).to_numpy()
    first_s, last_s = float(steps["start_s"].min()), float(ends.max())
    bins = int(np.clip((last_s - first_s) / _BIN_S, 1, _BINS))
    edges, width_s = np.linspace(first_s, last_s, bins + 1, retstep=True)
    tables = []
    for worker, own in (steps.assign(end_s=ends)).groupby("worker"):
        count, _ = np.histogram(own["end_s"], edges)
        time_s = edges[:-1] + width_s / 2 - zero_s
        tables.append(_table(time_s, count / width_s, f"worker-{worker}"))
    return pd.concat(tables, ignore_index=True)


def pace_of_counters(histories: Mapping[str, History], zero_s: float) -> pd.DataFrame:
    """Tell the steps a second between the looks at the counters of a run that goes on.

    Before the first look there is the mean alone, from the first step on.
    """
    tables = []
    for name, history in histories.items():
        time_s = np.array([time_s for time_s, _ in history])
        done = np.array([done for _, done in history], dtype=float)
        if len(history) > 1:
            rate = np.diff(done) / np.maximum(np.diff(time_s), 1e-6)
            # The value holds from look to look: so the first stretch is drawn as a line.
            tables.append(_table(time_s - zero_s, np.append(rate[:1], rate), name))
    return pd.concat(tables, ignore_index=True) if tables else _table([], [], "")


def _table(time_s: Values, value: Values, name: str) -> pd.DataFrame:
    return pd.DataFrame({"time_s": time_s, "quantity": PACE, "name": name, "value": value})


def reached_s(history: History, steps: int) -> float | None:
    """Tell when a counter reached a number of steps, evenly between two looks; None if not yet."""
    for before, after in pairwise(history):
        if after[1] >= steps > before[1]:
            share = (steps - before[1]) / (after[1] - before[1])
            return before[0] + share * (after[0] - before[0])
    return history[0][0] if history and history[0][1] >= steps else None


def live_segments(
    planned: StepCounts,
    history: History,
    *,
    begin_s: float,
    first_step_s: float | None,
    trained_s: float | None,
    evaluated_s: float | None,
    end_s: float,
) -> pd.DataFrame:
    """Tell what a run that goes on was doing when, as far as its counters show it.

    Parameters
    ----------
    planned
        The steps of each worker.
    history
        Of the slowest worker.
    begin_s, first_step_s, trained_s, evaluated_s, end_s
        The start of the run, the end of the first step, of the training, and of the evaluation
        before profiled steps (None if not yet), and now; in seconds.

    Returns
    -------
    pandas.DataFrame
        As of `horizont.analysis.resources`, in seconds from `begin_s`.
    """
    bounds = {"start-up": first_step_s}
    total = 0
    for kind, count in planned.segments():
        total += count
        if count and kind != "profiled":
            bounds[kind] = reached_s(history, total)
    *_, last = bounds
    bounds |= {last: trained_s, "evaluation": evaluated_s, "profiled": None}
    rows, start_s = [], begin_s
    for kind, bound_s in bounds.items():
        # Counters of several processes need not agree to the last tenth of a second.
        stop_s = end_s if bound_s is None else max(start_s, bound_s)
        rows.append({"kind": kind, "start_s": start_s - begin_s, "end_s": stop_s - begin_s})
        start_s = stop_s
        if bound_s is None:
            break
    return pd.DataFrame(rows)

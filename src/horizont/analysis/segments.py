"""What a run was doing when: start-up, the kinds of steps, evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from horizont.analysis.frames import samples_of, steps_of
from horizont.records import Record, read_events

#: The segments of a run in the order in which they usually follow each other.
SEGMENTS = ("start-up", "warmup", "bare", "instrumented", "evaluation", "profiled")

_COLUMNS = ["kind", "start_s", "end_s"]


def begin_of(record: Record) -> float:
    """Find the zero of the time axis: the start of the first step, else the first sample."""
    steps, samples = steps_of(record), samples_of(record)
    first = steps["start_s"].min() if len(steps) else samples["time_s"].min()
    return float(first)


def segments(record: Record) -> pd.DataFrame:
    """List the segments of a run.

    Returns
    -------
    pandas.DataFrame
        ``kind`` (one of `SEGMENTS`), ``start_s``, ``end_s``, in seconds from the first step. A
        segment lasts from its first worker's start to its last worker's end; start-up begins
        with the first sample, evaluation ends with the first profiled step, or when the last
        process that trained has closed.
    """
    samples, zero_s = samples_of(record), begin_of(record)
    rows = []
    if len(samples) and samples["time_s"].min() < zero_s:
        rows.append({"kind": "start-up", "start_s": samples["time_s"].min() - zero_s, "end_s": 0.0})
    rows += step_segments(steps_of(record), zero_s)
    if record.run.evaluate_examples:
        events = read_events(record.folder / "events.jsonl")
        closed_s = [line["time_s"] - zero_s for line in events if line["event"] == "closed"]
        rows += evaluation_segment(rows, closed_s)
    table = pd.DataFrame(rows, columns=_COLUMNS)
    return table.sort_values("start_s", ignore_index=True)


def step_segments(steps: pd.DataFrame, zero_s: float) -> list[dict[str, Any]]:
    """List the segments that the kinds of steps make, in seconds from `zero_s`."""
    ends = steps.assign(end_s=steps["start_s"] + steps["step_s"])
    return [
        {
            "kind": str(kind),
            "start_s": float(own["start_s"].min() - zero_s),
            "end_s": float(own["end_s"].max() - zero_s),
        }
        for kind, own in ends.groupby("kind", sort=False)
    ]


def evaluation_segment(
    before: list[dict[str, Any]], closed_s: Sequence[float]
) -> list[dict[str, Any]]:
    """Find the time from the last step of the training to the first profiled one, or the end.

    Parameters
    ----------
    before
        The segments that the steps make.
    closed_s
        When each process that trained has closed, in seconds of the same axis.
    """
    trained = [row["end_s"] for row in before if row["kind"] != "profiled"]
    if not trained:
        return []
    start_s = max(trained)
    profiled = [row["start_s"] for row in before if row["kind"] == "profiled"]
    end_s = min(profiled, default=max(closed_s, default=start_s))
    return [{"kind": "evaluation", "start_s": start_s, "end_s": end_s}] if end_s > start_s else []

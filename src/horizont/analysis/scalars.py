"""The scalars of a run by step: what TensorBoard and its like draw."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pandas as pd

from horizont.analysis.learning import EVALUATION_METRICS
from horizont.analysis.runs import steps_of
from horizont.records.files import read_events
from horizont.records.record import Record

_COLUMNS = ["tag", "step", "time_unix_s", "value"]


def scalars(record: Record) -> pd.DataFrame:
    """Collect the scalars of a run.

    Returns
    -------
    pandas.DataFrame
        ``tag``, ``step``, ``time_unix_s`` (seconds since 1970) and ``value``, ordered by tag and
        step. The tags: ``loss``, the mean over the workers that measured it;
        ``throughput/examples_per_s`` of the bare steps, the workers' rates added up;
        ``accuracy`` or ``perplexity`` on test examples, on the way and in the end, if that was
        looked at. A step's value has the time of its last worker's end.
    """
    steps = steps_of(record)
    if steps.empty:
        return pd.DataFrame(columns=_COLUMNS)
    ends = steps.assign(time_s=steps["start_s"] + steps["step_s"])
    tables = [_loss(ends), _throughput(ends), _quality(record, ends)]
    table = pd.concat([own for own in tables if len(own)], ignore_index=True)
    table["time_unix_s"] = table["time_s"] + _since_1970_s(record)
    table = table[_COLUMNS].dropna(subset="value")
    return table.sort_values(["tag", "step"], kind="stable", ignore_index=True)


def _loss(ends: pd.DataFrame) -> pd.DataFrame:
    known = ends[ends["loss"].notna()]
    table = known.groupby("step").agg(value=("loss", "mean"), time_s=("time_s", "max"))
    return table.reset_index().assign(tag="loss")


def _throughput(ends: pd.DataFrame) -> pd.DataFrame:
    bare = ends[ends["kind"] == "timed"]
    rated = bare.assign(rate=bare["examples"] / bare["step_s"])
    table = rated.groupby("step").agg(value=("rate", "sum"), time_s=("time_s", "max"))
    return table.reset_index().assign(tag="throughput/examples_per_s")


def _quality(record: Record, ends: pd.DataFrame) -> pd.DataFrame:
    """Collect how good the network was: the looks on the way, then the result."""
    looks = record.evaluation()
    on_the_way = pd.DataFrame() if looks is None else looks.to_pandas()
    rows: list[dict[Hashable, Any]] = []
    for tag, column in EVALUATION_METRICS.items():
        if column in on_the_way:
            own = on_the_way.rename(columns={column: "value"}).assign(tag=tag)
            rows += own[["tag", "step", "time_s", "value"]].to_dict("records")
        final = getattr(record.result, column)
        if final is not None:
            trained = ends[ends["kind"] != "profiled"]
            step, time_s = int(trained["step"].max()) + 1, float(trained["time_s"].max())
            rows.append({"tag": tag, "step": step, "time_s": time_s, "value": final})
    return pd.DataFrame(rows)


def _since_1970_s(record: Record) -> float:
    """Tell what to add to the run's clock, from an event that was noted on both clocks."""
    events = read_events(record.folder / "events.jsonl")
    return float(events[0]["time_unix_s"] - events[0]["time_s"]) if events else 0.0

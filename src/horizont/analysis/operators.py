"""What each operator costs, by the profilers of the frameworks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from horizont.analysis.frames import of_system, steps_of, systems_of
from horizont.records import Record
from horizont.spec import OPERATOR_CLASSES, OTHER
from horizont.stats import median

#: What a step takes beyond its operators: the interpreter, the dispatch, the scheduling.
OUTSIDE = "outside operators"

_KEYS = ["operator_class", "operator", "phase"]


def operators(records: Sequence[Record]) -> pd.DataFrame:
    """List the operators of every system that was profiled, the most expensive first.

    Returns
    -------
    pandas.DataFrame
        ``system``, ``operator_class``, ``operator`` (the framework's own name), ``phase``, and,
        for one step, ``calls`` and ``self_s`` (in seconds, without what an operator calls):
        medians over the runs. An operator that a run did not call counts as zero there.
    """
    columns = ["system", *_KEYS, "calls", "self_s"]
    tables = [_of_system(records, system) for system in systems_of(records)]
    tables = [table for table in tables if len(table)]
    return (
        pd.concat(tables, ignore_index=True)[columns] if tables else pd.DataFrame(columns=columns)
    )


def _of_system(records: Sequence[Record], system: str) -> pd.DataFrame:
    profiles = _profiles(records, system)
    if not profiles:
        return pd.DataFrame()
    sums = [own.groupby(_KEYS)[["calls", "self_s"]].sum() for own in profiles]
    together = pd.concat(sums, axis="columns", keys=range(len(sums))).fillna(0.0)
    medians = together.T.groupby(level=1).median().T.reset_index()
    return medians.assign(system=system).sort_values("self_s", ascending=False)


def _profiles(records: Sequence[Record], system: str) -> list[pd.DataFrame]:
    tables = [record.operators() for record in of_system(records, system) if record.ok]
    return [table.to_pandas() for table in tables if table is not None]


def operator_classes(records: Sequence[Record]) -> pd.DataFrame:
    """Sum the operators up by class, with what the step takes beyond them.

    Returns
    -------
    pandas.DataFrame
        ``system``, ``operator_class`` (one of `horizont.spec.OPERATOR_CLASSES` or `OUTSIDE`),
        ``self_s`` for one step and its ``share`` of the profiled step, in the order of classes.
    """
    rows = []
    found = operators(records)
    times = profile_times(records).set_index("system")
    for system, own in found.groupby("system", sort=False):
        sums = own.groupby("operator_class")["self_s"].sum()
        step_s = float(times["profiled_s"][str(system)])
        sums[OUTSIDE] = max(step_s - sums.sum(), 0.0)
        rows += [
            (system, name, sums[name], sums[name] / step_s) for name in ordered_classes(sums.index)
        ]
    return pd.DataFrame(rows, columns=["system", "operator_class", "self_s", "share"])


def ordered_classes(names: Iterable[str]) -> list[str]:
    """Put classes, each once, into the order of tables and figures."""
    present = set(names)
    return [name for name in (*OPERATOR_CLASSES, OUTSIDE) if name in present]


def profile_times(records: Sequence[Record]) -> pd.DataFrame:
    """Tell what the profiler cost, and what it could not place.

    The batches of profiled steps are fetched beforehand, so they stand beside bare steps without
    the wait for the batch.

    Returns
    -------
    pandas.DataFrame
        A row for each profiled system: ``computing_s`` (a bare step without its load),
        ``profiled_s``, ``profile_ratio`` of both, ``operators_s`` (the sum of all operators),
        ``covered`` (its share of the profiled step), ``other_share`` (of unplaced operators in
        all operators). Medians over steps, then over runs.
    """
    rows = []
    for system in systems_of(records):
        runs = [r for r in of_system(records, system) if r.ok and r.operators() is not None]
        if runs:
            rows.append({"system": system, **_times(runs)})
    columns = ["computing_s", "profiled_s", "profile_ratio", "operators_s", "covered"]
    return pd.DataFrame(rows, columns=["system", *columns, "other_share"])


def _times(runs: Sequence[Record]) -> dict[str, float]:
    computing, profiled, sums, other = [], [], [], []
    for record in runs:
        steps = steps_of(record)
        bare, seen = (steps[steps["kind"] == kind] for kind in ("bare", "profiled"))
        computing.append(float((bare["step_s"] - bare["load_s"]).median()))
        profiled.append(float(seen["step_s"].mean()))
        table = record.operators()
        assert table is not None
        own = table.to_pandas()
        sums.append(float(own["self_s"].sum()))
        other.append(float(own.loc[own["operator_class"] == OTHER, "self_s"].sum()))
    return {
        "computing_s": median(computing),
        "profiled_s": median(profiled),
        "profile_ratio": median([a / b for a, b in zip(profiled, computing, strict=True)]),
        "operators_s": median(sums),
        "covered": median([a / b for a, b in zip(sums, profiled, strict=True)]),
        "other_share": median([a / b for a, b in zip(other, sums, strict=True)]),
    }

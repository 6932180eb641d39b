"""What each operator costs, by the profilers of the frameworks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from horizont.analysis.runs import records_of_system, steps_of, systems_of
from horizont.records.record import Record
from horizont.records.schema import OPERATOR_CLASSES, OTHER_CLASS
from horizont.statistics.intervals import median

#: What a step takes beyond its operators: the interpreter, the dispatch, the scheduling.
OUTSIDE_OPERATORS = "outside operators"

#: The phases that a profile tells apart.
PROFILED_PHASES = ("forward", "backward", "update")

_KEYS = ["operator_class", "operator", "phase"]


def operator_table(records: Sequence[Record]) -> pd.DataFrame:
    """List the operators of every system that was profiled, the most expensive first.

    Returns
    -------
    pandas.DataFrame
        ``system``, ``operator_class``, ``operator`` (the framework's own name), ``phase``, and,
        for one step, ``calls`` and ``self_s`` (in seconds, without what an operator calls):
        medians over the runs. An operator that a run did not call counts as zero there. And
        ``shapes``, those of the inputs of its costliest calls in the first run; empty if the
        framework does not tell.
    """
    columns = ["system", *_KEYS, "calls", "self_s", "shapes"]
    tables = [_operators_of_system(records, system) for system in systems_of(records)]
    tables = [table for table in tables if len(table)]
    return (
        pd.concat(tables, ignore_index=True)[columns] if tables else pd.DataFrame(columns=columns)
    )


def _operators_of_system(records: Sequence[Record], system: str) -> pd.DataFrame:
    profiles = _profiles(records, system)
    if not profiles:
        return pd.DataFrame()
    sums = [own.groupby(_KEYS)[["calls", "self_s"]].sum() for _, own in profiles]
    together = pd.concat(sums, axis="columns", keys=range(len(sums))).fillna(0.0)
    medians = together.T.groupby(level=1).median().T
    _, first = profiles[0]
    costs = first.groupby([*_KEYS, "shapes"])["self_s"].sum().reset_index()
    costliest = costs.sort_values("self_s").groupby(_KEYS)["shapes"].last()
    named = medians.assign(shapes=costliest).fillna({"shapes": ""}).reset_index()
    return named.assign(system=system).sort_values(by="self_s", ascending=False)


def _profiles(records: Sequence[Record], system: str) -> list[tuple[Record, pd.DataFrame]]:
    """Read the profiles of a system's runs, of those that have one."""
    good = [
        (record, record.operators()) for record in records_of_system(records, system) if record.ok
    ]
    return [(record, table.to_pandas()) for record, table in good if table is not None]


def operator_classes(records: Sequence[Record]) -> pd.DataFrame:
    """Sum the operators up by class, with what the step takes beyond them.

    Returns
    -------
    pandas.DataFrame
        ``system``, ``operator_class`` (one of `horizont.config.OPERATOR_CLASSES` or `OUTSIDE`),
        ``self_s`` for one step and its ``fraction`` of the profiled step, in the order of classes.
    """
    rows = []
    found = operator_table(records)
    times = profiler_overhead(records).set_index("system")
    for system, own in found.groupby("system", sort=False):
        sums = own.groupby("operator_class")["self_s"].sum()
        step_s = float(times["profiled_s"][str(system)])
        sums[OUTSIDE_OPERATORS] = max(step_s - sums.sum(), 0.0)
        rows += [
            (system, name, sums[name], sums[name] / step_s) for name in ordered_classes(sums.index)
        ]
    return pd.DataFrame(rows, columns=["system", "operator_class", "self_s", "fraction"])


def ordered_classes(names: Iterable[str]) -> list[str]:
    """Put classes, each once, into the order of tables and figures."""
    present = set(names)
    return [name for name in (*OPERATOR_CLASSES, OUTSIDE_OPERATORS) if name in present]


def profiler_overhead(records: Sequence[Record]) -> pd.DataFrame:
    """Tell what the profiler cost, and what it could not place.

    The batches of profiled steps are fetched beforehand, so they stand beside bare steps without
    the wait for the batch.

    Returns
    -------
    pandas.DataFrame
        A row for each profiled system: ``timed_s``, ``timed_without_load_s`` (a bare step without its
        load), ``profiled_s``, ``profile_ratio`` of the last two, ``operators_s`` (the sum of all
        of them), ``operators_fraction`` (its share of the profiled step), ``unclassified_fraction`` (of unplaced
        operators in all operators). Means over steps, since a profiler sums over them, then
        medians over runs.
    """
    rows = []
    for system in systems_of(records):
        profiles = _profiles(records, system)
        if profiles:
            rows.append({"system": system, **_profiler_overhead(profiles)})
    columns = [
        "timed_s",
        "timed_without_load_s",
        "profiled_s",
        "profile_ratio",
        "operators_s",
        "operators_fraction",
    ]
    return pd.DataFrame(rows, columns=["system", *columns, "unclassified_fraction"])


def phases_from_profile(records: Sequence[Record]) -> pd.DataFrame:
    """Take the bare step apart by the profile: what it calls is what profiled steps call.

    Returns
    -------
    pandas.DataFrame
        A row for each profiled system, in seconds: ``timed_s``, ``load_s`` of the bare step,
        ``forward_s``, ``backward_s`` and ``update_s``, the sums of the operators, ``outside_operators_s``,
        what a profiled step takes beyond them, and ``remainder_s`` = bare less all of these. Below zero
        it is what the profiler costs, or what happens at the same time.
    """
    found = operator_table(records)
    times = profiler_overhead(records).set_index("system").to_dict("index")
    rows = []
    for system, own in found.groupby("system", sort=False):
        sums = own.groupby("phase")["self_s"].sum()
        time = times[str(system)]
        parts = {f"{phase}_s": float(sums.get(phase, 0.0)) for phase in PROFILED_PHASES}
        outside_s = float(time["profiled_s"] - sum(parts.values()))
        bare_s, load_s = (
            float(time["timed_s"]),
            float(time["timed_s"] - time["timed_without_load_s"]),
        )
        left_s = bare_s - load_s - sum(parts.values()) - outside_s
        rows.append(
            {"system": system, "timed_s": bare_s, "load_s": load_s, **parts}
            | {"outside_operators_s": outside_s, "remainder_s": left_s}
        )
    return pd.DataFrame(rows)


def _profiler_overhead(profiles: Sequence[tuple[Record, pd.DataFrame]]) -> dict[str, float]:
    whole, computing, profiled, sums, other = [], [], [], [], []
    for record, own in profiles:
        steps = steps_of(record)
        bare, seen = (steps[steps["kind"] == kind] for kind in ("timed", "profiled"))
        whole.append(float(bare["step_s"].mean()))
        computing.append(float((bare["step_s"] - bare["load_s"]).mean()))
        profiled.append(float(seen["step_s"].mean()))
        sums.append(float(own["self_s"].sum()))
        other.append(float(own.loc[own["operator_class"] == OTHER_CLASS, "self_s"].sum()))
    return {
        "timed_s": median(whole),
        "timed_without_load_s": median(computing),
        "profiled_s": median(profiled),
        "profile_ratio": median([a / b for a, b in zip(profiled, computing, strict=True)]),
        "operators_s": median(sums),
        "operators_fraction": median([a / b for a, b in zip(sums, profiled, strict=True)]),
        "unclassified_fraction": median([a / b for a, b in zip(other, sums, strict=True)]),
    }

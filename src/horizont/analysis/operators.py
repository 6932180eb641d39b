"""Time by operator and operator class, from the profilers of the frameworks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from horizont.analysis.runs import records_of_system, steps_of, systems_of
from horizont.records.record import Record
from horizont.records.schema import OPERATOR_CLASSES, OTHER_CLASS
from horizont.statistics.intervals import median

#: The time of a step beyond its operators: interpreter, dispatch, scheduling.
OUTSIDE_OPERATORS = "outside operators"

#: The phases that a profile distinguishes.
PROFILED_PHASES = ("forward", "backward", "update")

_KEYS = ["operator_class", "operator", "phase"]


def operator_table(records: Sequence[Record]) -> pd.DataFrame:
    """List the operators of every profiled system, the most expensive first.

    ``system``, ``operator_class``, ``operator`` (the framework's name), ``phase``, and per step
    ``calls`` and ``self_s`` (seconds without nested operators): medians over the runs, where an
    operator that a run did not call counts as zero. ``shapes`` are the input shapes of its most
    expensive calls in the first run; empty if the framework does not record them.
    """
    tables = []
    for system in systems_of(records):
        profiles = [profile for _, profile in _profiles(records, system)]
        if not any(len(profile) for profile in profiles):
            continue
        sums = [profile.groupby(_KEYS)[["calls", "self_s"]].sum() for profile in profiles]
        by_run = pd.concat(sums, axis="columns", keys=range(len(sums))).fillna(0.0)
        table = by_run.T.groupby(level=1).median().T
        costs = profiles[0].groupby([*_KEYS, "shapes"])["self_s"].sum().reset_index()
        table["shapes"] = costs.sort_values("self_s").groupby(_KEYS)["shapes"].last()
        table = table.fillna({"shapes": ""}).reset_index().assign(system=system)
        tables.append(table.sort_values("self_s", ascending=False))
    columns = ["system", *_KEYS, "calls", "self_s", "shapes"]
    if not tables:
        return pd.DataFrame(columns=columns)
    return pd.concat(tables, ignore_index=True)[columns]


def _profiles(records: Sequence[Record], system: str) -> list[tuple[Record, pd.DataFrame]]:
    """Read the profiles of the successful runs of a system that have one."""
    runs = [record for record in records_of_system(records, system) if record.ok]
    profiles = [(record, record.operators()) for record in runs]
    return [(record, table.to_pandas()) for record, table in profiles if table is not None]


def operator_classes(records: Sequence[Record]) -> pd.DataFrame:
    """Sum the operators by class, with the time of the step beyond them.

    ``system``, ``operator_class`` (in the order of `ordered_classes`), ``self_s`` per step and its
    ``fraction`` of the profiled step.
    """
    rows = []
    step_s = profiler_overhead(records).set_index("system")["profiled_s"]
    for system, operators in operator_table(records).groupby("system", sort=False):
        sums = operators.groupby("operator_class")["self_s"].sum()
        profiled_s = float(step_s[str(system)])
        sums[OUTSIDE_OPERATORS] = max(profiled_s - sums.sum(), 0.0)
        rows += [
            (system, name, sums[name], sums[name] / profiled_s)
            for name in ordered_classes(sums.index)
        ]
    return pd.DataFrame(rows, columns=["system", "operator_class", "self_s", "fraction"])


def ordered_classes(names: Iterable[str]) -> list[str]:
    """Sort classes, each once, in the order of tables and figures."""
    present = set(names)
    return [name for name in (*OPERATOR_CLASSES, OUTSIDE_OPERATORS) if name in present]


def profiler_overhead(records: Sequence[Record]) -> pd.DataFrame:
    """Compute the overhead of the profiler, and the time it could not attribute.

    The batches of profiled steps are loaded beforehand, so they are compared with timed steps
    without their load.

    One row per profiled system: ``timed_s``, ``timed_without_load_s``, ``profiled_s``,
    ``profile_ratio`` of the last two, ``operators_s`` (sum of all operators),
    ``operators_fraction`` (of the profiled step), ``unclassified_fraction`` (of ``operators_s``).
    Means over steps, because a profiler sums over them, then medians over runs.
    """
    rows = []
    for system in systems_of(records):
        by_run = pd.DataFrame(
            [_profiler_times(record, profile) for record, profile in _profiles(records, system)]
        )
        if len(by_run):
            medians = {str(name): median(values) for name, values in by_run.items()}
            rows.append({"system": system, **medians})
    columns = ["system", "timed_s", "timed_without_load_s", "profiled_s", "profile_ratio"]
    columns += ["operators_s", "operators_fraction", "unclassified_fraction"]
    return pd.DataFrame(rows, columns=columns)


def _profiler_times(record: Record, profile: pd.DataFrame) -> dict[str, float]:
    steps = steps_of(record)
    timed, profiled = (steps[steps["kind"] == kind] for kind in ("timed", "profiled"))
    without_load_s = (timed["step_s"] - timed["load_s"]).mean()
    profiled_s, operators_s = profiled["step_s"].mean(), profile["self_s"].sum()
    other_s = profile.loc[profile["operator_class"] == OTHER_CLASS, "self_s"].sum()
    return {
        "timed_s": timed["step_s"].mean(),
        "timed_without_load_s": without_load_s,
        "profiled_s": profiled_s,
        "profile_ratio": profiled_s / without_load_s,
        "operators_s": operators_s,
        "operators_fraction": operators_s / profiled_s,
        "unclassified_fraction": other_s / operators_s,
    }


def phases_from_profile(records: Sequence[Record]) -> pd.DataFrame:
    """Split the timed step by the profile: it calls the operators of the profiled steps.

    One row per profiled system, in seconds: ``timed_s``, ``load_s`` of the timed step,
    ``forward_s``, ``backward_s`` and ``update_s``, the sums of the operators,
    ``outside_operators_s``, the rest of the profiled step, and ``remainder_s`` = timed less all of
    these. A negative remainder is profiler overhead, or overlap.
    """
    times = profiler_overhead(records).set_index("system").to_dict("index")
    rows = []
    for system, operators in operator_table(records).groupby("system", sort=False):
        time = times[str(system)]
        sums = operators.groupby("phase")["self_s"].sum()
        parts = {f"{phase}_s": float(sums.get(phase, 0.0)) for phase in PROFILED_PHASES}
        load_s = time["timed_s"] - time["timed_without_load_s"]
        outside_s = time["profiled_s"] - sum(parts.values())
        remainder_s = time["timed_s"] - load_s - sum(parts.values()) - outside_s
        rows.append(
            {"system": system, "timed_s": time["timed_s"], "load_s": load_s, **parts}
            | {"outside_operators_s": outside_s, "remainder_s": remainder_s}
        )
    return pd.DataFrame(rows)

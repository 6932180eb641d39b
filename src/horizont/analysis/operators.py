"""Time by operator and operator class, from the profilers of the frameworks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from horizont.analysis.runs import concat_tables, group_by, steps_of, successful
from horizont.config.system import DEFAULT
from horizont.records.record import Record
from horizont.records.schema import OPERATOR_CLASSES, OTHER_CLASS

#: The time of a step beyond its operators: interpreter, dispatch, scheduling. On a GPU operators
#: are kernels, and it is the time without one in a timed step: the profiler delays the program
#: that launches the kernels, not the kernels.
OUTSIDE_OPERATORS = "outside operators"

#: All operators and the time outside them, beside the classes.
WHOLE_STEP = "whole step"

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
    for system, runs in _profiles(records).items():
        profiles = [profile for _, profile in runs]
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
    return concat_tables(tables, columns)[columns]


def _profiles(records: Sequence[Record]) -> dict[str, list[tuple[Record, pd.DataFrame]]]:
    """Read the profiles of the successful runs that have one, by system."""
    profiles: dict[str, list[tuple[Record, pd.DataFrame]]] = {}
    for record in successful(records):
        if (table := record.operators()) is not None:
            profiles.setdefault(record.run.system.name, []).append((record, table.to_pandas()))
    return profiles


def is_on_gpu(records: Sequence[Record]) -> bool:
    """Whether the operators of some runs are the kernels of a GPU."""
    return any(record.run.topology.device != "cpu" for record in records)


def operator_classes(records: Sequence[Record]) -> pd.DataFrame:
    """Sum the operators by class, with the time of the step beyond them.

    ``system``, ``operator_class`` (in the order of `ordered_classes`), ``self_s`` per step and its
    ``fraction`` of the profiled step, on a GPU of the timed step.
    """
    rows = []
    steps_s = profiler_overhead(records).set_index("system")["whole_s"]
    for system, operators in operator_table(records).groupby("system", sort=False):
        sums = operators.groupby("operator_class")["self_s"].sum()
        whole_s = float(steps_s[str(system)])
        sums[OUTSIDE_OPERATORS] = max(whole_s - sums.sum(), 0.0)
        rows += [
            (system, name, sums[name], sums[name] / whole_s) for name in ordered_classes(sums.index)
        ]
    return pd.DataFrame(rows, columns=["system", "operator_class", "self_s", "fraction"])


def classes_by_workload(records: Sequence[Record]) -> pd.DataFrame:
    """Compare the time of each operator class with that of the fastest framework, by workload.

    The single process of each framework without variants, in the first experiment on a workload
    that has profiles.

    ``workload``, ``framework``, ``operator_class`` (the last is `WHOLE_STEP`), ``self_s`` and
    ``fraction`` as of `operator_classes`, and ``ratio`` to the least ``self_s`` of any framework
    that takes time for the class; NaN if no other does.
    """
    profiled = [
        record
        for record in records
        if record.is_profiled
        and record.run.system.is_local
        and record.run.system.variant == DEFAULT
    ]
    tables = []
    for workload, own in group_by(profiled, lambda record: record.run.workload_name).items():
        first = [record for record in own if record.run.experiment == own[0].run.experiment]
        classes = operator_classes(first)
        sums = classes.groupby("system", sort=False)[["self_s", "fraction"]].sum().reset_index()
        table = pd.concat([classes, sums.assign(operator_class=WHOLE_STEP)], ignore_index=True)
        used_s = table["self_s"].where(table["self_s"] > 0)
        groups = used_s.groupby(table["operator_class"])
        ratio = (used_s / groups.transform("min")).where(groups.transform("count") > 1)
        framework = table.pop("system").str.partition("/")[0]
        tables.append(table.assign(workload=workload, framework=framework, ratio=ratio))
    columns = ["workload", "framework", "operator_class", "self_s", "fraction", "ratio"]
    return concat_tables(tables, columns)[columns]


def ordered_classes(names: Iterable[str]) -> list[str]:
    """Sort classes, each once, in the order of tables and figures."""
    present = set(names)
    return [name for name in (*OPERATOR_CLASSES, OUTSIDE_OPERATORS, WHOLE_STEP) if name in present]


def profiler_overhead(records: Sequence[Record]) -> pd.DataFrame:
    """Compute the overhead of the profiler, and the time it could not attribute.

    The batches of profiled steps are loaded beforehand, so they are compared with timed steps
    without their load.

    One row per profiled system: ``timed_s``, ``timed_without_load_s``, ``profiled_s``,
    ``profile_ratio`` of the last two, ``operators_s`` (sum of all operators), ``whole_s`` (the step
    that they are part of: the profiled one, on a GPU the timed one), ``operators_fraction`` (of
    it), ``unclassified_fraction`` (of ``operators_s``).
    Means over steps, because a profiler sums over them, then medians over runs.
    """
    rows = []
    for system, runs in _profiles(records).items():
        for record, profile in runs:
            steps = steps_of(record)
            timed, profiled = (steps[steps["kind"] == kind] for kind in ("timed", "profiled"))
            without_load_s = (timed["step_s"] - timed["load_s"]).mean()
            profiled_s, operators_s = profiled["step_s"].mean(), profile["self_s"].sum()
            whole_s = timed["step_s"].mean() if is_on_gpu([record]) else profiled_s
            other_s = profile.loc[profile["operator_class"] == OTHER_CLASS, "self_s"].sum()
            rows.append(
                {
                    "system": system,
                    "timed_s": timed["step_s"].mean(),
                    "timed_without_load_s": without_load_s,
                    "profiled_s": profiled_s,
                    "profile_ratio": profiled_s / without_load_s,
                    "operators_s": operators_s,
                    "whole_s": whole_s,
                    "operators_fraction": operators_s / whole_s,
                    "unclassified_fraction": other_s / operators_s,
                }
            )
    columns = ["system", "timed_s", "timed_without_load_s", "profiled_s", "profile_ratio"]
    columns += ["operators_s", "whole_s", "operators_fraction", "unclassified_fraction"]
    by_run = pd.DataFrame(rows, columns=columns)
    return by_run.groupby("system", sort=False).median().reset_index()


def phases_from_profile(records: Sequence[Record]) -> pd.DataFrame:
    """Split the timed step by the profile: it calls the operators of the profiled steps.

    One row per profiled system, in seconds: ``timed_s``, ``load_s`` of the timed step,
    ``forward_s``, ``backward_s`` and ``update_s``, the sums of the operators,
    ``outside_operators_s``, the rest of the profiled step, and ``remainder_s`` = timed less all of
    these. A negative remainder is profiler overhead, or overlap. On a GPU a batch is loaded while
    kernels of the previous step run, so that the time outside operators is the rest of the timed
    step, and includes the load.
    """
    operators = operator_table(records)
    if operators.empty:
        return pd.DataFrame()
    parts = operators.pivot_table("self_s", "system", "phase", "sum", fill_value=0.0, sort=False)
    parts = parts.reindex(columns=PROFILED_PHASES, fill_value=0.0)
    times = profiler_overhead(records).set_index("system").loc[parts.index]
    table = times[["timed_s"]].assign(load_s=times["timed_s"] - times["timed_without_load_s"])
    table[[f"{phase}_s" for phase in PROFILED_PHASES]] = parts
    attributed_s = parts.sum(axis="columns")
    table["outside_operators_s"] = times["whole_s"] - attributed_s
    load_s = 0.0 if is_on_gpu(records) else table["load_s"]
    spent_s = load_s + attributed_s + table["outside_operators_s"]
    return table.assign(remainder_s=table["timed_s"] - spent_s).reset_index()

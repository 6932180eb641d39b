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

#: The phases that a profile tells apart.
PROFILED_PHASES = ("forward", "backward", "update")

_KEYS = ["operator_class", "operator", "phase"]


def operators(records: Sequence[Record]) -> pd.DataFrame:
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
    tables = [_of_system(records, system) for system in systems_of(records)]
    tables = [table for table in tables if len(table)]
    return (
        pd.concat(tables, ignore_index=True)[columns] if tables else pd.DataFrame(columns=columns)
    )


def _of_system(records: Sequence[Record], system: str) -> pd.DataFrame:
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
    good = [(record, record.operators()) for record in of_system(records, system) if record.ok]
    return [(record, table.to_pandas()) for record, table in good if table is not None]


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
        A row for each profiled system: ``bare_s``, ``computing_s`` (a bare step without its
        load), ``profiled_s``, ``profile_ratio`` of the last two, ``operators_s`` (the sum of all
        of them), ``covered`` (its share of the profiled step), ``other_share`` (of unplaced
        operators in all operators). Means over steps, since a profiler sums over them, then
        medians over runs.
    """
    rows = []
    for system in systems_of(records):
        profiles = _profiles(records, system)
        if profiles:
            rows.append({"system": system, **_times(profiles)})
    columns = ["bare_s", "computing_s", "profiled_s", "profile_ratio", "operators_s", "covered"]
    return pd.DataFrame(rows, columns=["system", *columns, "other_share"])


def profile_phases(records: Sequence[Record]) -> pd.DataFrame:
    """Take the bare step apart by the profile: what it calls is what profiled steps call.

    Returns
    -------
    pandas.DataFrame
        A row for each profiled system, in seconds: ``bare_s``, ``load_s`` of the bare step,
        ``forward_s``, ``backward_s`` and ``update_s``, the sums of the operators, ``outside_s``,
        what a profiled step takes beyond them, and ``left_s`` = bare less all of these. Below zero
        it is what the profiler costs, or what happens at the same time.
    """
    found = operators(records)
    times = profile_times(records).set_index("system").to_dict("index")
    rows = []
    for system, own in found.groupby("system", sort=False):
        sums = own.groupby("phase")["self_s"].sum()
        time = times[str(system)]
        parts = {f"{phase}_s": float(sums.get(phase, 0.0)) for phase in PROFILED_PHASES}
        outside_s = float(time["profiled_s"] - sum(parts.values()))
        bare_s, load_s = float(time["bare_s"]), float(time["bare_s"] - time["computing_s"])
        left_s = bare_s - load_s - sum(parts.values()) - outside_s
        rows.append(
            {"system": system, "bare_s": bare_s, "load_s": load_s, **parts}
            | {"outside_s": outside_s, "left_s": left_s}
        )
    return pd.DataFrame(rows)


def _times(profiles: Sequence[tuple[Record, pd.DataFrame]]) -> dict[str, float]:
    whole, computing, profiled, sums, other = [], [], [], [], []
    for record, own in profiles:
        steps = steps_of(record)
        bare, seen = (steps[steps["kind"] == kind] for kind in ("bare", "profiled"))
        whole.append(float(bare["step_s"].mean()))
        computing.append(float((bare["step_s"] - bare["load_s"]).mean()))
        profiled.append(float(seen["step_s"].mean()))
        sums.append(float(own["self_s"].sum()))
        other.append(float(own.loc[own["operator_class"] == OTHER, "self_s"].sum()))
    return {
        "bare_s": median(whole),
        "computing_s": median(computing),
        "profiled_s": median(profiled),
        "profile_ratio": median([a / b for a, b in zip(profiled, computing, strict=True)]),
        "operators_s": median(sums),
        "covered": median([a / b for a, b in zip(sums, profiled, strict=True)]),
        "other_share": median([a / b for a, b in zip(other, sums, strict=True)]),
    }

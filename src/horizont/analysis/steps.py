"""Step times and phases: common window, throughput of a run, instrumentation overhead."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import nan

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from horizont.analysis.runs import PHASES_AND_OTHER, by_system, concat_tables, steps_of
from horizont.config.system import parse_system
from horizont.records.record import Record
from horizont.records.schema import PHASES
from horizont.statistics.intervals import median_interval, paired_ratio

#: Separates the phases of a group: ``communication + update``.
GROUP_SEPARATOR = " + "

#: Phases that exist only with several workers.
REMOTE_PHASES = frozenset({"communication", "waiting"})

#: Phases included in communication where they are not measured: the update on a server, and the
#: wait for other workers of one that does not synchronise with them.
_INCLUDED_IN_COMMUNICATION = frozenset({"waiting", "update"})


def step_means(record: Record) -> pd.Series:
    """Compute the throughput of a run, and its mean steps.

    ``examples_per_s`` of all workers over the timed steps, NaN without a common window; in seconds
    a worker's mean timed and instrumented step, ``timed_s`` and ``instrumented_s``, and mean phases
    of the instrumented ones, `PHASES_AND_OTHER`. Means over steps and workers; NaN where not
    measured.
    """
    means, _ = _reduced_steps(record)
    return means


def _reduced_steps(record: Record) -> tuple[pd.Series, pd.DataFrame]:
    """Read the steps of a run: `step_means`, and the `phase_breakdown` that they come from.

    A finished record does not change and the tables of a book read each one many times, so the
    result is cached.
    """
    return _reduce_steps(record, record.file_version("steps.parquet"))


@lru_cache(maxsize=4096)
def _reduce_steps(record: Record, _version: object) -> tuple[pd.Series, pd.DataFrame]:
    steps = steps_of(record)
    breakdown = phase_breakdown(steps)
    by_kind = steps.groupby("kind")["step_s"].mean()
    step_s = {f"{kind}_s": by_kind.get(kind, nan) for kind in ("timed", "instrumented")}
    values = {"examples_per_s": examples_per_second(steps), **step_s, **breakdown.mean()}
    return pd.Series(values, dtype="float64"), breakdown


def means_by_run(records: Sequence[Record]) -> pd.DataFrame:
    """Return the `step_means` of every successful run, indexed by the name of the record."""
    successful = [record for record in records if record.ok]
    return pd.DataFrame(
        [step_means(record) for record in successful],
        index=[record.folder.name for record in successful],
        columns=["examples_per_s", "timed_s", "instrumented_s", *PHASES_AND_OTHER],
        dtype="float64",
    )


def common_window(steps: pd.DataFrame) -> tuple[float, float]:
    """Find the interval in which all workers made timed steps.

    From the latest first start to the earliest last end of a worker, in seconds of the run's clock.
    The end precedes the start if there was no such interval.
    """
    timed = steps[steps["kind"] == "timed"]
    workers = timed.assign(end_s=timed["start_s"] + timed["step_s"]).groupby("worker")
    return float(workers["start_s"].min().max()), float(workers["end_s"].max().min())


def examples_per_second(steps: pd.DataFrame) -> float:
    """Compute the throughput of all workers of a run over their common window.

    A step that is partly inside the window counts with that fraction of its examples; otherwise
    the result would depend on where the window happens to cut a step. NaN without a common window.
    """
    timed = steps[steps["kind"] == "timed"]
    begin_s, end_s = common_window(timed)
    if not end_s > begin_s:
        return nan
    fractions = window_overlap(timed, begin_s, end_s)
    return float((fractions * timed["examples"].to_numpy()).sum() / (end_s - begin_s))


def window_overlap(steps: pd.DataFrame, begin_s: float, end_s: float) -> NDArray[np.float64]:
    """Compute the fraction of each step that lies in a window, shape (steps,)."""
    start_s, step_s = steps["start_s"].to_numpy(), steps["step_s"].to_numpy()
    inside_s = np.minimum(start_s + step_s, end_s) - np.maximum(start_s, begin_s)
    fractions: NDArray[np.float64] = np.clip(inside_s / step_s, 0.0, 1.0)
    return fractions


def phase_breakdown(steps: pd.DataFrame) -> pd.DataFrame:
    """Split the instrumented steps into phases.

    One row per instrumented step, one column in seconds for each of `PHASES_AND_OTHER`. A phase
    that was not measured is NaN and its time belongs to ``other`` = step - sum of the measured
    phases, so the columns always add up to the step. A negative ``other`` means that phases
    overlapped; it is reported as it is.
    """
    instrumented = steps[steps["kind"] == "instrumented"]
    columns = {phase: instrumented.get(f"{phase}_s") for phase in PHASES}
    breakdown = pd.DataFrame(columns, index=instrumented.index).astype("float64")
    breakdown["other"] = instrumented["step_s"] - breakdown.sum(axis="columns")
    return breakdown


def phases(records: Sequence[Record]) -> pd.DataFrame:
    """Split the step of every system into phases.

    Means add up to the mean step and medians do not, so bars are drawn from means. Each run has
    the same weight: means over steps and workers within a run, then over the runs.

    One row per system and phase: ``mean_s``, ``median_s`` (over all steps), ``fraction`` of the
    mean step, ``measured``. Seconds of one worker's step; NaN without instrumented steps.
    """
    tables = []
    for system, runs in by_system(records).items():
        means = means_by_run(runs).mean()
        breakdowns = [_reduced_steps(record)[1] for record in runs if record.ok]
        steps = concat_tables(breakdowns, list(PHASES_AND_OTHER)).astype("float64")
        table = pd.DataFrame(
            {"system": system, "mean_s": means, "median_s": steps.median()}, index=PHASES_AND_OTHER
        )
        table["fraction"] = table["mean_s"] / table["mean_s"].sum()
        tables.append(table.assign(measured=table["mean_s"].notna()))
    columns = ["system", "phase", "mean_s", "median_s", "fraction", "measured"]
    tables = [table.rename_axis("phase").reset_index()[columns] for table in tables]
    return concat_tables(tables, columns)


def instrumentation_overhead(records: Sequence[Record]) -> pd.DataFrame:
    """Compare the instrumented with the timed steps of every system.

    One row per system: ``timed_s`` with ``timed_low_s``, ``timed_high_s`` and ``level`` (a worker's
    mean step in a run, then the median over the blocks), ``instrumented_s``, and ``ratio`` of
    instrumented to timed, paired by block, with ``ratio_low``, ``ratio_high``.
    """
    rows = []
    for system, runs in by_system(records).items():
        means = means_by_run(runs)
        timed = median_interval(means["timed_s"])
        ratio = paired_ratio(means["instrumented_s"], means["timed_s"])
        rows.append(
            {
                "system": system,
                **timed.columns("timed_s", "timed_low_s", "timed_high_s", "level"),
                "instrumented_s": means["instrumented_s"].median(),
                **ratio.columns("ratio", "ratio_low", "ratio_high"),
            }
        )
    return pd.DataFrame(rows)


def measured_phases(run_phases: pd.DataFrame) -> frozenset[str]:
    """Return the phases measured in all runs of one system, given as rows of `means_by_run`."""
    return frozenset(
        phase for phase in PHASES_AND_OTHER if len(run_phases) and run_phases[phase].notna().all()
    )


def comparable_phase_groups(
    a: str, measured_a: frozenset[str], b: str, measured_b: frozenset[str]
) -> list[tuple[str, ...]]:
    """Group the phases so that the time of each group is known of both systems.

    Every phase measured (see `measured_phases`) of system a or b, once, in the order of
    `PHASES_AND_OTHER`. A single process does not communicate: a remote phase that it lacks takes no
    time and joins no group.
    """
    groups = {phase: {phase} for phase in PHASES_AND_OTHER if phase in measured_a | measured_b}
    for system, measured in ((a, measured_a), (b, measured_b)):
        absent = REMOTE_PHASES if parse_system(system).is_local else frozenset()
        for phase in [phase for phase in groups if phase not in measured | absent]:
            included = phase in _INCLUDED_IN_COMMUNICATION and "communication" in measured
            container = "communication" if included else "other"
            merged = groups[phase] | groups.setdefault(container, {container})
            groups.update(dict.fromkeys(merged, merged))
    ordered = (tuple(p for p in PHASES_AND_OTHER if p in group) for group in groups.values())
    return list(dict.fromkeys(ordered))

"""What the steps of a run come to: its rate, its mean steps and their parts, read once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from horizont.analysis.runs import PHASES_AND_OTHER, records_of_system, steps_of, systems_of
from horizont.config.system import parse_system
from horizont.monitoring.step_log import PHASES
from horizont.records.files import read_table
from horizont.records.record import Record
from horizont.statistics.intervals import median, median_interval, paired_ratio

#: So many runs are kept in memory: a book's tables ask for the same ones over and over.
CACHE_SIZE = 4096


@dataclass(frozen=True)
class StepSummary:
    """What the tables need of the steps of a run.

    Attributes
    ----------
    examples_per_s
        Of all workers together, in bare steps; NaN if they had no common time.
    mean_step_s
        A worker's mean step, by kind.
    parts
        The instrumented steps taken apart, as of `split_steps`.
    """

    examples_per_s: float
    mean_step_s: dict[str, float]
    phases: pd.DataFrame


def step_summary(record: Record) -> StepSummary:
    """Reduce the steps of a run; a run that did not get so far has none.

    A finished record does not change, so what was read of it once is kept.
    """
    path = record.folder / "steps.parquet"
    if not path.exists():
        return summarise_steps(steps_of(record))
    return _read_summary(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=CACHE_SIZE)
def _read_summary(path: Path, _modified_ns: int) -> StepSummary:
    steps: pd.DataFrame = read_table(path).to_pandas()
    return summarise_steps(steps)


def summarise_steps(steps: pd.DataFrame) -> StepSummary:
    """Reduce a table of steps."""
    return StepSummary(examples_per_second(steps), mean_step_times(steps), phase_breakdown(steps))


def common_window(steps: pd.DataFrame) -> tuple[float, float]:
    """Find when all workers were making bare steps.

    Returns
    -------
    tuple of float
        From the latest of the workers' first starts to the earliest of their last ends, in
        seconds of the run's clock. The end is before the start if there was no such time.
    """
    bare = steps[steps["kind"] == "timed"]
    start_s, worker = bare["start_s"].to_numpy(), bare["worker"].to_numpy()
    end_s = start_s + bare["step_s"].to_numpy()
    own = [worker == each for each in np.unique(worker)]
    begins = [float(start_s[each].min()) for each in own]
    ends = [float(end_s[each].max()) for each in own]
    return max(begins, default=float("nan")), min(ends, default=float("nan"))


def examples_per_second(steps: pd.DataFrame) -> float:
    """Measure the throughput of one run over the window that is common to its workers.

    A step that is only partly inside the window counts with that part of its examples; without
    it, the result would depend on where the window happens to cut a step.

    Returns
    -------
    float
        Examples per second of all workers together; NaN if there was no common window.
    """
    bare = steps[steps["kind"] == "timed"]
    if bare.empty:
        return float("nan")
    begin_s, end_s = common_window(bare)
    if end_s <= begin_s:
        return float("nan")
    share = window_overlap(bare, begin_s, end_s)
    return float((share * bare["examples"].to_numpy()).sum() / (end_s - begin_s))


def window_overlap(steps: pd.DataFrame, begin_s: float, end_s: float) -> NDArray[np.float64]:
    """Tell which share of each step lies in a window, (steps,)."""
    start = steps["start_s"].to_numpy()
    spent = steps["step_s"].to_numpy()
    inside = np.minimum(start + spent, end_s) - np.maximum(start, begin_s)
    shares: NDArray[np.float64] = np.clip(inside / spent, 0.0, 1.0)
    return shares


def phase_breakdown(steps: pd.DataFrame) -> pd.DataFrame:
    """Take the instrumented steps apart.

    Returns
    -------
    pandas.DataFrame
        A row an instrumented step, a column in seconds for each of `PARTS`. A phase that was
        not measured is NaN and its time lies in ``other`` = step - sum of the measured phases,
        so the columns of a row always add up to the step. Negative ``other`` means that phases
        overlapped; it is shown, not mended.
    """
    seen = steps[steps["kind"] == "instrumented"]
    parts = pd.DataFrame({phase: seen.get(f"{phase}_s") for phase in PHASES}, index=seen.index)
    parts = parts.astype("float64")
    parts["other"] = seen["step_s"] - parts.sum(axis="columns")
    return parts


def mean_step_times(steps: pd.DataFrame) -> dict[str, float]:
    """Average a worker's step, in seconds, by kind of step."""
    if steps.empty:
        return {}
    return {str(kind): float(mean) for kind, mean in steps.groupby("kind")["step_s"].mean().items()}


#: What tells a part of several phases: `communication + update`.
GROUP_SEPARATOR = " + "

#: The parts that are there only because there are several workers.
REMOTE_PHASES = frozenset({"communication", "waiting"})

#: What the communication holds where it is not told apart: the update of a server, and the time
#: behind other workers of one that waits for nobody.
_INCLUDED_IN_COMMUNICATION = frozenset({"waiting", "update"})


def measured_phases(run_phases: pd.DataFrame) -> frozenset[str]:
    """List the parts that are known of all runs.

    Parameters
    ----------
    parts
        Of `horizont.analysis.run_parts`, the rows of one system.
    """
    return frozenset(
        part for part in PHASES_AND_OTHER if len(run_phases) and run_phases[part].notna().all()
    )


def comparable_phase_groups(
    a: str, measured_a: frozenset[str], b: str, measured_b: frozenset[str]
) -> list[tuple[str, ...]]:
    """Group the phases so that each group is known of both systems.

    Parameters
    ----------
    a, b
        The systems.
    known_a, known_b
        The parts that were measured of each, as of `known_parts`.

    Returns
    -------
    list of tuple
        Every part that either knows, once, in the order of `PARTS`. A single process does not
        communicate: there, what is not known is nothing and joins no group.
    """
    groups = {part: {part} for part in PHASES_AND_OTHER if part in measured_a | measured_b}
    for system, own in ((a, measured_a), (b, measured_b)):
        absent = REMOTE_PHASES if parse_system(system).is_local else frozenset()
        for part in [part for part in groups if part not in own | absent]:
            _merge_groups(groups, part, _containing_phase(part, own))
    found = [tuple(part for part in PHASES_AND_OTHER if part in group) for group in groups.values()]
    return list(dict.fromkeys(found))


def _containing_phase(phase: str, measured: Iterable[str]) -> str:
    """Tell where the time of a part is that a system does not tell apart."""
    inside = phase in _INCLUDED_IN_COMMUNICATION and "communication" in measured
    return "communication" if inside else "other"


def _merge_groups(groups: dict[str, set[str]], phase: str, other: str) -> None:
    together = groups[phase] | groups.setdefault(other, {other})
    for member in together:
        groups[member] = together


def is_remote(group: Iterable[str]) -> bool:
    """Tell whether a group of phases has to do with other processes."""
    return not REMOTE_PHASES.isdisjoint(group)


def group_label(group: Iterable[str]) -> str:
    """Name a group of phases."""
    return GROUP_SEPARATOR.join(group)


def phases(records: Sequence[Record]) -> pd.DataFrame:
    """Break the steps of every system down into phases.

    Means add up to the mean step and medians do not, so bars are built from means. Each run
    counts the same: means over steps and workers inside the run, then over the runs.

    Returns
    -------
    pandas.DataFrame
        A row a system and part: ``mean_s``, ``median_s`` (over all steps), ``fraction`` of the
        mean step, ``measured``. Seconds of one worker's step. A system without instrumented
        steps has rows that are all NaN.
    """
    rows = [row for system in systems_of(records) for row in _system_phases(records, system)]
    return pd.DataFrame(
        rows, columns=["system", "phase", "mean_s", "median_s", "fraction", "measured"]
    )


def _system_phases(records: Sequence[Record], system: str) -> list[dict[str, object]]:
    split = [
        step_summary(record).phases for record in records_of_system(records, system) if record.ok
    ]
    split = [parts for parts in split if len(parts)]
    if not split:
        nan = float("nan")
        return [_phase_row(system, part, nan, nan, nan) for part in PHASES_AND_OTHER]
    means = pd.DataFrame([parts.mean() for parts in split]).mean()
    medians = pd.concat(split).median()
    total = means.sum()
    return [
        _phase_row(system, part, means[part], medians[part], means[part] / total)
        for part in PHASES_AND_OTHER
    ]


def _phase_row(
    system: str, phase: str, mean_s: float, median_s: float, fraction: float
) -> dict[str, object]:
    return {
        "system": system,
        "phase": phase,
        "mean_s": mean_s,
        "median_s": median_s,
        "fraction": fraction,
        "measured": mean_s == mean_s,  # noqa: PLR0124 (false for NaN only)
    }


def phases_by_run(records: Sequence[Record]) -> pd.DataFrame:
    """Reduce each run to its mean step and the mean parts of it.

    Returns
    -------
    pandas.DataFrame
        A row a run that went well, by the name of its record: ``timed_s``, and a column for each
        of `PARTS` of the instrumented steps; seconds, means over steps and workers. NaN is what
        was not measured.
    """
    rows = {
        record.folder.name: _mean_step_and_phases(step_summary(record))
        for record in records
        if record.ok
    }
    return pd.DataFrame.from_dict(
        rows, orient="index", columns=["timed_s", *PHASES_AND_OTHER], dtype="float64"
    )


def _mean_step_and_phases(summary: StepSummary) -> list[float]:
    return [summary.mean_step_s.get("timed", float("nan")), *summary.phases.mean()]


def instrumentation_overhead(records: Sequence[Record]) -> pd.DataFrame:
    """Compare instrumented with bare steps.

    Returns
    -------
    pandas.DataFrame
        A row a system: ``timed_s`` with ``timed_low_s``, ``timed_high_s`` and ``level`` (the run's
        mean step of a worker, then the median over the blocks), ``instrumented_s``, and
        ``ratio`` of instrumented to bare, paired by block, with ``ratio_low``, ``ratio_high``.
    """
    return pd.DataFrame([_overhead_row(records, system) for system in systems_of(records)])


def _overhead_row(records: Sequence[Record], system: str) -> dict[str, object]:
    own = [
        step_summary(record).mean_step_s
        for record in records_of_system(records, system)
        if record.ok
    ]
    bare = [means.get("timed", float("nan")) for means in own]
    seen = [means.get("instrumented", float("nan")) for means in own]
    estimate, ratio = median_interval(bare), paired_ratio(seen, bare)
    return {
        "system": system,
        "timed_s": estimate.value,
        "timed_low_s": estimate.low,
        "timed_high_s": estimate.high,
        "level": estimate.level,
        "instrumented_s": median(seen),
        "ratio": ratio.value,
        "ratio_low": ratio.low,
        "ratio_high": ratio.high,
    }

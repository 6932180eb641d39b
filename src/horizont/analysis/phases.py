"""Where the time of a step goes, and what looking cost."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from horizont.analysis.digest import Digest, digest
from horizont.analysis.frames import PARTS, of_system, systems_of
from horizont.records import Record
from horizont.stats import median, median_interval, paired_ratio


def phases(records: Sequence[Record]) -> pd.DataFrame:
    """Break the steps of every system down into phases.

    Means add up to the mean step and medians do not, so bars are built from means. Each run
    counts the same: means over steps and workers inside the run, then over the runs.

    Returns
    -------
    pandas.DataFrame
        A row a system and part: ``mean_s``, ``median_s`` (over all steps), ``share`` of the
        mean step, ``measured``. Seconds of one worker's step. A system without instrumented
        steps has rows that are all NaN.
    """
    rows = [row for system in systems_of(records) for row in _system_parts(records, system)]
    return pd.DataFrame(rows, columns=["system", "part", "mean_s", "median_s", "share", "measured"])


def _system_parts(records: Sequence[Record], system: str) -> list[dict[str, object]]:
    split = [digest(record).parts for record in of_system(records, system) if record.ok]
    split = [parts for parts in split if len(parts)]
    if not split:
        nan = float("nan")
        return [_part_row(system, part, nan, nan, nan) for part in PARTS]
    means = pd.DataFrame([parts.mean() for parts in split]).mean()
    medians = pd.concat(split).median()
    total = means.sum()
    return [
        _part_row(system, part, means[part], medians[part], means[part] / total) for part in PARTS
    ]


def _part_row(
    system: str, part: str, mean_s: float, median_s: float, share: float
) -> dict[str, object]:
    return {
        "system": system,
        "part": part,
        "mean_s": mean_s,
        "median_s": median_s,
        "share": share,
        "measured": mean_s == mean_s,  # noqa: PLR0124 (false for NaN only)
    }


def run_parts(records: Sequence[Record]) -> pd.DataFrame:
    """Reduce each run to its mean step and the mean parts of it.

    Returns
    -------
    pandas.DataFrame
        A row a run that went well, by the name of its record: ``bare_s``, and a column for each
        of `PARTS` of the instrumented steps; seconds, means over steps and workers. NaN is what
        was not measured.
    """
    rows = {record.folder.name: _run_row(digest(record)) for record in records if record.ok}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["bare_s", *PARTS], dtype="float64")


def _run_row(run: Digest) -> list[float]:
    return [run.mean_step_s.get("bare", float("nan")), *run.parts.mean()]


def step_times(records: Sequence[Record]) -> pd.DataFrame:
    """Compare instrumented with bare steps.

    Returns
    -------
    pandas.DataFrame
        A row a system: ``bare_s`` with ``bare_low_s``, ``bare_high_s`` and ``level`` (the run's
        mean step of a worker, then the median over the blocks), ``instrumented_s``, and
        ``ratio`` of instrumented to bare, paired by block, with ``ratio_low``, ``ratio_high``.
    """
    return pd.DataFrame([_step_row(records, system) for system in systems_of(records)])


def _step_row(records: Sequence[Record], system: str) -> dict[str, object]:
    own = [digest(record).mean_step_s for record in of_system(records, system) if record.ok]
    bare = [means.get("bare", float("nan")) for means in own]
    seen = [means.get("instrumented", float("nan")) for means in own]
    estimate, ratio = median_interval(bare), paired_ratio(seen, bare)
    return {
        "system": system,
        "bare_s": estimate.value,
        "bare_low_s": estimate.low,
        "bare_high_s": estimate.high,
        "level": estimate.level,
        "instrumented_s": median(seen),
        "ratio": ratio.value,
        "ratio_low": ratio.low,
        "ratio_high": ratio.high,
    }

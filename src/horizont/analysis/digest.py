"""What the steps of a run come to: its rate, its mean steps and their parts, read once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from horizont.analysis.frames import steps_of
from horizont.measure import PHASES
from horizont.records import Record, read_table

#: So many runs are kept in memory: a book's tables ask for the same ones over and over.
KEPT = 4096


@dataclass(frozen=True)
class Digest:
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
    parts: pd.DataFrame


def digest(record: Record) -> Digest:
    """Reduce the steps of a run; a run that did not get so far has none.

    A finished record does not change, so what was read of it once is kept.
    """
    path = record.folder / "steps.parquet"
    if not path.exists():
        return reduced(steps_of(record))
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=KEPT)
def _read(path: Path, _changed_ns: int) -> Digest:
    steps: pd.DataFrame = read_table(path).to_pandas()
    return reduced(steps)


def reduced(steps: pd.DataFrame) -> Digest:
    """Reduce a table of steps."""
    return Digest(examples_per_second(steps), mean_steps(steps), split_steps(steps))


def common_window(steps: pd.DataFrame) -> tuple[float, float]:
    """Find when all workers were making bare steps.

    Returns
    -------
    tuple of float
        From the latest of the workers' first starts to the earliest of their last ends, in
        seconds of the run's clock. The end is before the start if there was no such time.
    """
    bare = steps[steps["kind"] == "bare"]
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
    bare = steps[steps["kind"] == "bare"]
    if bare.empty:
        return float("nan")
    begin_s, end_s = common_window(bare)
    if end_s <= begin_s:
        return float("nan")
    share = shares_inside(bare, begin_s, end_s)
    return float((share * bare["examples"].to_numpy()).sum() / (end_s - begin_s))


def shares_inside(steps: pd.DataFrame, begin_s: float, end_s: float) -> NDArray[np.float64]:
    """Tell which share of each step lies in a window, (steps,)."""
    start = steps["start_s"].to_numpy()
    spent = steps["step_s"].to_numpy()
    inside = np.minimum(start + spent, end_s) - np.maximum(start, begin_s)
    shares: NDArray[np.float64] = np.clip(inside / spent, 0.0, 1.0)
    return shares


def split_steps(steps: pd.DataFrame) -> pd.DataFrame:
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


def mean_steps(steps: pd.DataFrame) -> dict[str, float]:
    """Average a worker's step, in seconds, by kind of step."""
    if steps.empty:
        return {}
    return {str(kind): float(mean) for kind, mean in steps.groupby("kind")["step_s"].mean().items()}

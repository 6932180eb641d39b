"""An experiment as a small tree of numbers, for `dvc metrics` and for the overview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from horizont.analysis.frames import PARTS, in_order
from horizont.analysis.phases import phases, step_times
from horizont.analysis.runs import NO_PROOF, ProofStatus, startup
from horizont.analysis.summary import summary
from horizont.records import Record


def metrics(records: Sequence[Record], proof: ProofStatus = NO_PROOF) -> dict[str, dict[str, Any]]:
    """Reduce an experiment on a workload to its figures.

    Returns
    -------
    dict
        By system: throughput in examples per second with its interval, the bare step and the
        parts of the instrumented one in milliseconds, runs, comparability. What is not known
        is None.
    """
    table = summary(records, proof).merge(
        step_times(records).drop(columns="level"), on="system", validate="one_to_one"
    )
    parts = phases(records)
    starts = startup(records).groupby("system")["mean_s"].sum()
    return {
        str(row["system"]): _plain(
            {
                "examples_per_s": row["examples_per_s"],
                "low": row["low"],
                "high": row["high"],
                "level": row["level"],
                "step_ms": row["bare_s"] * 1e3,
                "step_low_ms": row["bare_low_s"] * 1e3,
                "step_high_ms": row["bare_high_s"] * 1e3,
                "instrumented_ratio": row["ratio"],
                **_parts_ms(parts, str(row["system"])),
                "startup_s": starts.get(row["system"]),
                "ok": row["ok"],
                "planned": row["planned"],
                "disturbed": row["disturbed"],
                "comparable": row["comparable"],
                "reason": row["reason"],
            }
        )
        for _, row in table.iterrows()
    }


def _parts_ms(parts: pd.DataFrame, system: str) -> dict[str, float]:
    own = parts[parts["system"] == system].set_index("part")["mean_s"]
    return {f"{part}_ms": own[part] * 1e3 for part in PARTS}


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Turn NumPy's numbers into Python's, rounded to six figures, and NaN into None."""
    return {key: _value(value) for key, value in values.items()}


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if value is None or pd.isna(value):
        return None
    number = float(value)
    return int(number) if number == int(number) and abs(number) < 1e6 else float(f"{number:.6g}")


def from_metrics(metrics: Mapping[str, Mapping[str, Any]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Get back, from what `metrics` wrote, the tables of `phases` and `step_times`.

    Returns
    -------
    tuple of pandas.DataFrame
        Phases without medians and shares; step times with the reason why there are none. In the
        order of systems, which a file of metrics does not keep.
    """
    ordered = {system: metrics[system] for system in in_order(metrics)}
    parts = [
        {"system": system, "part": part, "mean_s": _seconds(own[f"{part}_ms"])}
        for system, own in ordered.items()
        for part in PARTS
    ]
    times = [
        {
            "system": system,
            "bare_s": _seconds(own["step_ms"]),
            "bare_low_s": _seconds(own["step_low_ms"]),
            "bare_high_s": _seconds(own["step_high_ms"]),
            "level": own["level"],
            "reason": own["reason"],
        }
        for system, own in ordered.items()
    ]
    return pd.DataFrame(parts), pd.DataFrame(times)


def _seconds(value_ms: float | None) -> float:
    return float("nan") if value_ms is None else value_ms / 1e3

"""Throughput over the timed steps, and the metrics of an experiment for DVC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

import pandas as pd

from horizont.analysis.runs import (
    NO_CERTIFICATE_GIVEN,
    PHASES_AND_OTHER,
    CertificateStatus,
    by_system,
    comparability,
    run_columns,
    startup_times,
    table_order,
)
from horizont.analysis.steps import instrumentation_overhead, phases, step_means
from horizont.records.record import Record
from horizont.statistics.intervals import median_interval

#: Why a successful run may have no throughput.
NO_COMMON_WINDOW = "the workers made no timed steps at the same time"


def throughput_by_run(records: Sequence[Record]) -> pd.DataFrame:
    """Compute the throughput of every run.

    One row per run: ``examples_per_s`` and ``batch_s``, seconds per global batch; NaN for a run
    that failed or was skipped.
    """
    rows = []
    for record in records:
        rate = step_means(record)["examples_per_s"] if record.ok else nan
        result = {"status": record.result.status, "reason": record.result.reason}
        rates = {"examples_per_s": rate, "batch_s": record.run.global_batch / rate}
        rows.append({**run_columns(record), **result, **rates})
    return pd.DataFrame(rows)


def throughput_by_system(records: Sequence[Record]) -> pd.DataFrame:
    """Estimate the throughput of every system from its runs.

    One row per system, in examples per second: the median over the blocks ``examples_per_s``,
    ``low``, ``high`` and the ``level`` attainable with this number of runs; ``ok`` of ``planned``
    runs; ``reason`` of the first run without a throughput.
    """
    rows = []
    for system, runs in by_system(records).items():
        rates = throughput_by_run(runs)["examples_per_s"]
        estimate = median_interval(rates)
        reasons = [f"{r.result.status}: {r.result.reason}" for r in runs if not r.ok]
        if rates.isna().any():
            reasons.append(NO_COMMON_WINDOW)
        rows.append(
            {
                "experiment": runs[0].run.experiment,
                "workload": runs[0].run.workload_name,
                "system": system,
                **estimate.columns("examples_per_s", "low", "high", "level"),
                "ok": estimate.n,
                "planned": len(runs),
                "reason": reasons[0] if reasons else "",
            }
        )
    return pd.DataFrame(rows)


#: Instead of the comparability of a system without a time.
NO_SUCCESS = "not comparable: no run succeeded"


def metrics(
    records: Sequence[Record], certificate: CertificateStatus = NO_CERTIFICATE_GIVEN
) -> dict[str, dict[str, Any]]:
    """Compute the metrics of an experiment on a workload.

    By system, also if all its runs failed: throughput in examples per second with its interval, the
    timed step and the phases of the instrumented one in milliseconds, runs, comparability. None
    where unknown.
    """
    groups = by_system(records).values()
    table = throughput_by_system(records).set_index("system")
    table["disturbed"] = [sum(record.result.disturbed for record in runs) for runs in groups]
    table["comparable"] = [
        comparability(runs[0], certificate) if any(run.ok for run in runs) else NO_SUCCESS
        for runs in groups
    ]
    steps = instrumentation_overhead(records).set_index("system")
    means = phases(records).pivot(index="system", columns="phase", values="mean_s")
    startup_s = startup_times(records).groupby("system")["mean_s"].sum()
    columns = {
        **table[["examples_per_s", "low", "high", "level"]],
        "step_ms": steps["timed_s"] * 1e3,
        "step_low_ms": steps["timed_low_s"] * 1e3,
        "step_high_ms": steps["timed_high_s"] * 1e3,
        "instrumented_ratio": steps["ratio"],
        **{f"{phase}_ms": means[phase] * 1e3 for phase in PHASES_AND_OTHER},
        "startup_s": startup_s.reindex(table.index),
        **table[["ok", "planned", "disturbed", "comparable", "reason"]],
    }
    rows = pd.DataFrame(columns, index=table.index).to_dict("index")
    return {
        str(system): {str(name): _to_builtin(value) for name, value in values.items()}
        for system, values in rows.items()
    }


def _to_builtin(value: Any) -> Any:
    """Convert a NumPy number to a Python number of six significant digits, and NaN to None."""
    if isinstance(value, str):
        return value
    if value is None or pd.isna(value):
        return None
    number = float(value)
    return int(number) if number == int(number) and abs(number) < 1e6 else float(f"{number:.6g}")


def from_metrics(metrics: Mapping[str, Mapping[str, Any]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Restore the tables of `phases` and `instrumentation_overhead` from `metrics`.

    Phases without medians and fractions; timed steps with the reason why there are none. In the
    order of systems, which a file of metrics does not preserve.
    """
    table = pd.DataFrame.from_dict({**metrics}, orient="index").rename_axis("system").reset_index()
    table = table.sort_values("system", key=table_order, ignore_index=True)
    times = {f"{phase}_ms": phase for phase in PHASES_AND_OTHER}
    times |= {"step_ms": "timed_s", "step_low_ms": "timed_low_s", "step_high_ms": "timed_high_s"}
    seconds = table[list(times)].astype(float).rename(columns=times) / 1e3
    seconds.insert(0, "system", table["system"])
    phase_table = seconds.melt("system", list(PHASES_AND_OTHER), "phase", "mean_s")
    phase_table = phase_table.sort_values("system", key=table_order, kind="stable")
    steps = seconds[["system", "timed_s", "timed_low_s", "timed_high_s"]]
    steps = steps.assign(level=table["level"], reason=table["reason"])
    return phase_table.reset_index(drop=True), steps

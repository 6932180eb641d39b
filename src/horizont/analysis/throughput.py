"""Throughput over the timed steps, the summary of an experiment, and its metrics for DVC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

import pandas as pd

from horizont.analysis.runs import (
    NO_CERTIFICATE_GIVEN,
    PHASES_AND_OTHER,
    CertificateStatus,
    comparability,
    records_of_system,
    run_columns,
    startup_times,
    system_order,
    systems_of,
)
from horizont.analysis.steps import instrumentation_overhead, phases, step_summary
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
        rate = step_summary(record).examples_per_s if record.ok else nan
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
    for system in systems_of(records):
        runs = records_of_system(records, system)
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
                "examples_per_s": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "level": estimate.level,
                "ok": estimate.n,
                "planned": len(runs),
                "reason": reasons[0] if reasons else "",
            }
        )
    return pd.DataFrame(rows)


def summary(
    records: Sequence[Record], certificate: CertificateStatus = NO_CERTIFICATE_GIVEN
) -> pd.DataFrame:
    """Summarise an experiment on one workload.

    One row per system, also if all its runs failed: ``examples_per_s`` with ``low``, ``high`` and
    ``level``, ``step_s`` (timed), ``instrumented_ratio``, ``<phase>_fraction`` of the step for each
    phase, ``ok`` of ``planned`` runs, ``disturbed`` runs, ``comparable`` and ``reason``.
    """
    if not records:
        return pd.DataFrame()
    steps = instrumentation_overhead(records)[["system", "timed_s", "ratio"]]
    steps = steps.rename(columns={"timed_s": "step_s", "ratio": "instrumented_ratio"})
    fractions = phases(records).pivot(index="system", columns="phase", values="fraction")
    fractions = fractions.add_suffix("_fraction").rename_axis(columns=None).reset_index()
    table = throughput_by_system(records).merge(steps, on="system").merge(fractions, on="system")
    runs = [records_of_system(records, system) for system in table["system"]]
    return table.assign(
        disturbed=[sum(record.result.disturbed for record in group) for group in runs],
        comparable=[comparability(group[0], certificate) for group in runs],
    )


def format_summary(table: pd.DataFrame) -> pd.DataFrame:
    """Format a summary as text for a narrow place such as a terminal.

    Strings: system, examples/s with interval and level, step, fraction of communication and
    waiting, runs, and a note of failures and disturbances; why times are not comparable is left to
    the certificate. A dash where a value is unknown.
    """

    def column(values: pd.Series, spec: str) -> list[str]:
        return ["–" if pd.isna(value) else spec.format(value) for value in values]

    rows = table.to_dict("records")
    communication = table["waiting_fraction"].fillna(0) + table["communication_fraction"]
    return pd.DataFrame(
        {
            "system": table["system"],
            "examples/s": column(table["examples_per_s"], "{:,.0f}"),
            "interval": [
                "–" if pd.isna(row["low"]) else f"{row['low']:,.0f} to {row['high']:,.0f}"
                for row in rows
            ],
            "level": column(table["level"], "{:.0%}"),
            "step, ms": column(table["step_s"] * 1e3, "{:.2f}"),
            "comm.": column(communication, "{:.0%}"),
            "runs": [f"{row['ok']}/{row['planned']}" for row in rows],
            "note": [_note(row) for row in rows],
        }
    )


def _note(row: Mapping[Any, Any]) -> str:
    disturbed = f"{row['disturbed']} disturbed" if row["disturbed"] else ""
    comparable = "" if row["comparable"] == "verified" else "not comparable"
    return "; ".join(filter(None, [comparable, str(row["reason"]), disturbed]))


def metrics(
    records: Sequence[Record], certificate: CertificateStatus = NO_CERTIFICATE_GIVEN
) -> dict[str, dict[str, Any]]:
    """Compute the metrics of an experiment on a workload.

    By system: throughput in examples per second with its interval, the timed step and the phases of
    the instrumented one in milliseconds, runs, comparability. None where unknown.
    """
    table = summary(records, certificate).merge(
        instrumentation_overhead(records).drop(columns="level"), on="system", validate="one_to_one"
    )
    means = phases(records).pivot(index="phase", columns="system", values="mean_s") * 1e3
    starts = startup_times(records).groupby("system")["mean_s"].sum()
    found = {}
    for row in table.to_dict("records"):
        system = str(row["system"])
        values = {
            "examples_per_s": row["examples_per_s"],
            "low": row["low"],
            "high": row["high"],
            "level": row["level"],
            "step_ms": row["timed_s"] * 1e3,
            "step_low_ms": row["timed_low_s"] * 1e3,
            "step_high_ms": row["timed_high_s"] * 1e3,
            "instrumented_ratio": row["ratio"],
            **{f"{phase}_ms": means[system][phase] for phase in PHASES_AND_OTHER},
            "startup_s": starts.get(system),
            "ok": row["ok"],
            "planned": row["planned"],
            "disturbed": row["disturbed"],
            "comparable": row["comparable"],
            "reason": row["reason"],
        }
        found[system] = {name: _to_builtin(value) for name, value in values.items()}
    return found


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

    def seconds(value_ms: float | None) -> float:
        return nan if value_ms is None else value_ms / 1e3

    ordered = {system: metrics[system] for system in system_order(metrics)}
    phase_rows = [
        {"system": system, "phase": phase, "mean_s": seconds(values[f"{phase}_ms"])}
        for system, values in ordered.items()
        for phase in PHASES_AND_OTHER
    ]
    step_rows = [
        {
            "system": system,
            "timed_s": seconds(values["step_ms"]),
            "timed_low_s": seconds(values["step_low_ms"]),
            "timed_high_s": seconds(values["step_high_ms"]),
            "level": values["level"],
            "reason": values["reason"],
        }
        for system, values in ordered.items()
    ]
    return pd.DataFrame(phase_rows), pd.DataFrame(step_rows)

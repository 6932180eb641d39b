"""Training speed from the bare steps: examples per second while all workers were at work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

#: Why a run that went well may have no throughput.
NO_COMMON_WINDOW = "the workers made no bare steps at the same time"


def throughput_by_run(records: Sequence[Record]) -> pd.DataFrame:
    """Measure the throughput of every run.

    Returns
    -------
    pandas.DataFrame
        A row a run, ``examples_per_s`` and ``batch_s`` (seconds for one global batch); NaN for
        a run that failed or was skipped.
    """
    return pd.DataFrame([_run_row(record) for record in records])


def _run_row(record: Record) -> dict[str, object]:
    rate = step_summary(record).examples_per_s if record.ok else float("nan")
    return {
        **run_columns(record),
        "status": record.result.status,
        "reason": record.result.reason,
        "examples_per_s": rate,
        "batch_s": record.run.global_batch / rate,
    }


def throughput_by_system(records: Sequence[Record]) -> pd.DataFrame:
    """Estimate the throughput of every system from its runs.

    Returns
    -------
    pandas.DataFrame
        A row a system, in examples per second: the median over the blocks ``examples_per_s``,
        ``low``, ``high`` and the ``level`` that the interval can reach with this number of
        runs; ``ok`` of ``planned`` runs; ``reason`` of the first run that gave nothing.
    """
    return pd.DataFrame([_system_row(records, system) for system in systems_of(records)])


def _system_row(records: Sequence[Record], system: str) -> dict[str, object]:
    own = records_of_system(records, system)
    table = throughput_by_run(own)
    estimate = median_interval(table["examples_per_s"])
    reasons = [f"{r.result.status}: {r.result.reason}" for r in own if not r.ok]
    if table["examples_per_s"].isna().any():
        reasons.append(NO_COMMON_WINDOW)
    return {
        "experiment": own[0].run.experiment,
        "workload": own[0].run.workload_name,
        "system": system,
        "examples_per_s": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "level": estimate.level,
        "ok": estimate.n,
        "planned": len(own),
        "reason": reasons[0] if reasons else "",
    }


def summary(
    records: Sequence[Record], certificate: CertificateStatus = NO_CERTIFICATE_GIVEN
) -> pd.DataFrame:
    """Sum an experiment on one workload up.

    Returns
    -------
    pandas.DataFrame
        A row a system, also one of which no run went well: ``examples_per_s`` with ``low``,
        ``high`` and ``level``, ``step_s`` (bare), ``instrumented_ratio``, ``<part>_share`` of
        the step for each part, ``ok`` of ``planned`` runs, ``disturbed`` runs, ``comparable``
        and ``reason``.
    """
    if not records:
        return pd.DataFrame()
    table = throughput_by_system(records).merge(_step_times(records), on="system")
    table = table.merge(_phase_fractions(records), on="system")
    table["disturbed"] = [
        sum(record.result.disturbed for record in records_of_system(records, system))
        for system in table["system"]
    ]
    table["comparable"] = [
        comparability(records_of_system(records, system)[0], certificate)
        for system in table["system"]
    ]
    return table


def _step_times(records: Sequence[Record]) -> pd.DataFrame:
    times = instrumentation_overhead(records)[["system", "timed_s", "ratio"]]
    return times.rename(columns={"timed_s": "step_s", "ratio": "instrumented_ratio"})


def _phase_fractions(records: Sequence[Record]) -> pd.DataFrame:
    parts = phases(records)
    shares = parts.pivot(index="system", columns="phase", values="fraction")
    return shares.add_suffix("_share").rename_axis(columns=None).reset_index()


def format_summary(table: pd.DataFrame) -> pd.DataFrame:
    """Write a summary out as text for a narrow place such as a terminal.

    Returns
    -------
    pandas.DataFrame
        Strings only: system, examples/s with interval and level, step, share of communication
        and waiting, runs, and in the note whatever is not as it should be; why times are not
        comparable is left to the proof. What is not known is a dash.
    """
    communication = table["waiting_fraction"].fillna(0) + table["communication_fraction"]
    return pd.DataFrame(
        {
            "system": table["system"],
            "examples/s": [_format_number(value, "{:,.0f}") for value in table["examples_per_s"]],
            "interval": [_format_interval(row) for _, row in table.iterrows()],
            "level": [_format_number(value, "{:.0%}") for value in table["level"]],
            "step, ms": [_format_number(value * 1e3, "{:.2f}") for value in table["step_s"]],
            "comm.": [_format_number(value, "{:.0%}") for value in communication],
            "runs": [
                f"{ok}/{planned}" for ok, planned in zip(table["ok"], table["planned"], strict=True)
            ],
            "note": [_note(row) for _, row in table.iterrows()],
        }
    )


def _format_number(value: float, format_spec: str) -> str:
    return "–" if pd.isna(value) else format_spec.format(value)


def _format_interval(row: pd.Series) -> str:
    if pd.isna(row["low"]):
        return "–"
    return f"{row['low']:,.0f} to {row['high']:,.0f}"


def _note(row: pd.Series) -> str:
    disturbed = f"{row['disturbed']} disturbed" if row["disturbed"] else ""
    comparable = "" if row["comparable"] == "verified" else "not comparable"
    return "; ".join(filter(None, [comparable, str(row["reason"]), disturbed]))


def metrics(
    records: Sequence[Record], certificate: CertificateStatus = NO_CERTIFICATE_GIVEN
) -> dict[str, dict[str, Any]]:
    """Reduce an experiment on a workload to its figures.

    Returns
    -------
    dict
        By system: throughput in examples per second with its interval, the bare step and the
        parts of the instrumented one in milliseconds, runs, comparability. What is not known
        is None.
    """
    table = summary(records, certificate).merge(
        instrumentation_overhead(records).drop(columns="level"), on="system", validate="one_to_one"
    )
    parts = phases(records)
    starts = startup_times(records).groupby("system")["mean_s"].sum()
    return {
        str(row["system"]): _to_builtin(
            {
                "examples_per_s": row["examples_per_s"],
                "low": row["low"],
                "high": row["high"],
                "level": row["level"],
                "step_ms": row["timed_s"] * 1e3,
                "step_low_ms": row["timed_low_s"] * 1e3,
                "step_high_ms": row["timed_high_s"] * 1e3,
                "instrumented_ratio": row["ratio"],
                **_phases_ms(parts, str(row["system"])),
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


def _phases_ms(phase_table: pd.DataFrame, system: str) -> dict[str, float]:
    own = phase_table[phase_table["system"] == system].set_index("phase")["mean_s"]
    return {f"{part}_ms": own[part] * 1e3 for part in PHASES_AND_OTHER}


def _to_builtin(values: dict[str, Any]) -> dict[str, Any]:
    """Turn NumPy's numbers into Python's, rounded to six figures, and NaN into None."""
    return {key: _to_builtin_value(value) for key, value in values.items()}


def _to_builtin_value(value: Any) -> Any:
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
    ordered = {system: metrics[system] for system in system_order(metrics)}
    parts = [
        {"system": system, "phase": part, "mean_s": _seconds(own[f"{part}_ms"])}
        for system, own in ordered.items()
        for part in PHASES_AND_OTHER
    ]
    times = [
        {
            "system": system,
            "timed_s": _seconds(own["step_ms"]),
            "timed_low_s": _seconds(own["step_low_ms"]),
            "timed_high_s": _seconds(own["step_high_ms"]),
            "level": own["level"],
            "reason": own["reason"],
        }
        for system, own in ordered.items()
    ]
    return pd.DataFrame(parts), pd.DataFrame(times)


def _seconds(value_ms: float | None) -> float:
    return float("nan") if value_ms is None else value_ms / 1e3

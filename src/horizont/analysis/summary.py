"""The whole experiment on a page: a row a system."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from horizont.analysis.frames import of_system
from horizont.analysis.phases import phases, step_times
from horizont.analysis.runs import NO_PROOF, ProofStatus, comparable
from horizont.analysis.throughput import throughput
from horizont.records import Record


def summary(records: Sequence[Record], proof: ProofStatus = NO_PROOF) -> pd.DataFrame:
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
    table = throughput(records).merge(_steps(records), on="system")
    table = table.merge(_shares(records), on="system")
    table["disturbed"] = [
        sum(record.result.disturbed for record in of_system(records, system))
        for system in table["system"]
    ]
    table["comparable"] = [
        comparable(of_system(records, system)[0], proof) for system in table["system"]
    ]
    return table


def _steps(records: Sequence[Record]) -> pd.DataFrame:
    times = step_times(records)[["system", "bare_s", "ratio"]]
    return times.rename(columns={"bare_s": "step_s", "ratio": "instrumented_ratio"})


def _shares(records: Sequence[Record]) -> pd.DataFrame:
    parts = phases(records)
    shares = parts.pivot(index="system", columns="part", values="share")
    return shares.add_suffix("_share").rename_axis(columns=None).reset_index()


def printable(table: pd.DataFrame) -> pd.DataFrame:
    """Write a summary out as text for a narrow place such as a terminal.

    Returns
    -------
    pandas.DataFrame
        Strings only: system, examples/s with interval and level, step, share of communication
        and waiting, runs, and in the note whatever is not as it should be; why times are not
        comparable is left to the proof. What is not known is a dash.
    """
    communication = table["waiting_share"].fillna(0) + table["communication_share"]
    return pd.DataFrame(
        {
            "system": table["system"],
            "examples/s": [_number(value, "{:,.0f}") for value in table["examples_per_s"]],
            "interval": [_interval(row) for _, row in table.iterrows()],
            "level": [_number(value, "{:.0%}") for value in table["level"]],
            "step, ms": [_number(value * 1e3, "{:.2f}") for value in table["step_s"]],
            "comm.": [_number(value, "{:.0%}") for value in communication],
            "runs": [
                f"{ok}/{planned}" for ok, planned in zip(table["ok"], table["planned"], strict=True)
            ],
            "note": [_note(row) for _, row in table.iterrows()],
        }
    )


def _number(value: float, form: str) -> str:
    return "–" if pd.isna(value) else form.format(value)


def _interval(row: pd.Series) -> str:
    if pd.isna(row["low"]):
        return "–"
    return f"{row['low']:,.0f} to {row['high']:,.0f}"


def _note(row: pd.Series) -> str:
    disturbed = f"{row['disturbed']} disturbed" if row["disturbed"] else ""
    comparable = "" if row["comparable"] == "proven" else "not comparable"
    return "; ".join(filter(None, [comparable, str(row["reason"]), disturbed]))

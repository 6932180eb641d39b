"""Advice for readers: a ranking with its reasons and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from horizont.analysis.advice import Advice
from horizont.report import words
from horizont.report.findings import Remark, verdict
from horizont.report.tables import Table, plain_table, shortened


def advice_rows(advice: Advice) -> list[dict[str, str]]:
    """Write the ranking in words, the best first."""
    return [
        {
            "system": words.system(str(row["system"])),
            advice.unit: _number(row["value"]),
            "interval": _interval(row),
            "beside the best": str(row["beside"]),
            "why": shortened(row["why"]),
            "runs": f"{row['runs']:.0f}",
        }
        for row in advice.ranking.to_dict("records")
    ]


def advice_table(advice: Advice) -> Table | Remark:
    """Show the ranking."""
    rows = advice_rows(advice)
    if not rows:
        return Remark(" ".join(advice.caveats))
    return plain_table(pd.DataFrame(rows), {advice.unit, "interval", "runs"})


def advice_sentence(advice: Advice) -> Any:
    """Say which system comes first, on what it rests, and what it cannot say."""
    if advice.ranking.empty:
        return verdict(" ".join(advice.caveats), False)
    first = advice.ranking.iloc[0]
    value = f"{_number(first['value'])} {advice.unit}"
    said = f"{words.system(str(first['system']))} comes first, with {value} ({advice.basis})."
    return verdict(" ".join([said, *advice.caveats]), True)


def advice_tables(answers: Mapping[str, Advice]) -> list[Any]:
    """Show a table for each of several wishes, below its name."""
    return [
        shown
        for wish, advice in answers.items()
        for shown in (Remark(f"What matters: {wish}."), advice_table(advice))
    ]


def _number(value: float) -> str:
    if pd.isna(value):
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _interval(row: dict[Any, Any]) -> str:
    if pd.isna(row["low"]) or pd.isna(row["high"]):
        return "–"
    return f"{_number(row['low'])} to {_number(row['high'])}"

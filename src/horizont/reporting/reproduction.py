"""Tables of a study beside the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from horizont.analysis.reproduction import OUTCOMES
from horizont.reporting import labels
from horizont.reporting.output import Message, TableOutput
from horizont.reporting.registry import table
from horizont.reporting.tables import format_interval, format_number, text_table

#: Of smaller values, the digits that are shown are too few for a ratio.
_LEAST_OF_A_RATIO = 0.05

NUMBERS = frozenset({"expected", "obtained", "ratio", "interval"})
NOTHING_COMPARABLE = "The reference has no runs with the settings of this study."
NO_VERDICT_CHANGES = "No verdict differs from that of the reference."
MACHINES_TITLE = "What differs between the machines and their software"


@table("reproduction", title="Expected and obtained")
def reproduction_table(comparison: pd.DataFrame) -> TableOutput | Message:
    """Build the table of expected and obtained speeds, grouped by experiment and system."""
    if comparison.empty:
        return Message(NOTHING_COMPARABLE)
    return text_table(reproduction_rows(comparison), NUMBERS, group_by="work")


def reproduction_rows(comparison: pd.DataFrame) -> pd.DataFrame:
    """Format the rows of :func:`horizont.analysis.reproduction.compare_with_reference`."""
    rows = []
    for row in comparison.to_dict("records"):
        system, quantity, scale = labels.system_label(row["system"]), "examples/s", 1.0
        if row["quantity"] != "examples_per_s":
            quantity, scale = row["quantity"].removesuffix("_s") + ", ms", 1e3
        ratio, low, high = (row[name] for name in ("ratio", "low", "high"))
        if min(row["expected"], row["obtained"]) * scale < _LEAST_OF_A_RATIO:
            ratio = low = high = None
        rows.append(
            {
                "work": f"{row['experiment']}, {row['workload']}, {system}: {row['point']}",
                "quantity": quantity,
                "expected": _with_interval(row, "expected", scale),
                "obtained": _with_interval(row, "obtained", scale),
                "ratio": format_number(ratio, ".2f"),
                "interval": format_interval(low, high, ".2f"),
                "outcome": row["outcome"],
            }
        )
    return pd.DataFrame(rows)


def _with_interval(row: Mapping[Any, Any], name: str, scale: float) -> str:
    value, low, high = (row[f"{name}{end}"] * scale for end in ("", "_low", "_high"))
    form = ",.0f" if value >= 100 else ".2f"
    interval = "" if pd.isna(low) else f" [{format_interval(low, high, form)}]"
    return format_number(value, form) + interval


@table("reproduction_summary")
def reproduction_summary(comparison: pd.DataFrame) -> Message:
    """Return how many quantities had each outcome, as a sentence."""
    if comparison.empty:
        return Message(NOTHING_COMPARABLE)
    counts = comparison["outcome"].value_counts()
    found = [f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if outcome in counts]
    return Message(f"Of {len(comparison)} quantities: {', '.join(found)}.")


@table("changed_verdicts", title="Verdicts that would change")
def changed_verdict_table(changes: pd.DataFrame) -> TableOutput | Message:
    """Build the table of the verdicts that differ from those of the reference."""
    return text_table(changes) if len(changes) else Message(NO_VERDICT_CHANGES)


@table("machine_comparison", title=MACHINES_TITLE)
def machine_table(machines: pd.DataFrame) -> TableOutput | Message:
    """Build the table of the facts of both machines that differ."""
    facts = changed_facts(machines)
    if facts.empty:
        return Message("Machines and software are equal.")
    if facts["reference"].eq("–").all() or facts["this study"].eq("–").all():
        return Message(NOTHING_COMPARABLE)
    return text_table(facts)


def changed_facts(machines: pd.DataFrame) -> pd.DataFrame:
    """Return the facts that differ, of :func:`horizont.analysis.changes.compare_machines`."""
    changed = machines[machines["changed"]].drop(columns="changed")
    return changed.rename(columns={"before": "reference", "after": "this study"})

"""Tables of all runs and of the outcomes of injected faults."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from horizont.analysis.faults import fault_outcomes
from horizont.analysis.runs import NO_CERTIFICATE_GIVEN, CertificateStatus, run_table
from horizont.records.record import Record
from horizont.reporting import labels
from horizont.reporting.output import TableOutput
from horizont.reporting.registry import table
from horizont.reporting.tables import format_number, format_table, shorten, text_table

_RUN_COLUMNS = ["status", "comparable", "disturbed", "background_cpu", "wall_s", "final_loss"]
_RUN_COLUMNS += ["test_accuracy", "test_perplexity", "reason", "record"]


@table("runs", title="All runs")
def all_runs(
    records: Sequence[Record], certificate: CertificateStatus = NO_CERTIFICATE_GIVEN
) -> TableOutput:
    """Build the table of all planned runs, with the settings in which they differ."""
    frame = run_table(records, certificate)
    if any(record.run.fault is not None for record in records):
        columns = ["system", "status", "wall_s", "disturbed", "reason", "record"]
        return format_table(frame, columns)
    settings = ("workers", "servers", "threads", "global_batch", "block")
    varied = [name for name in settings if len(frame) and frame[name].nunique() > 1]
    return format_table(frame, ["system", *varied, *_RUN_COLUMNS])


@table("faults", title="Outcomes of the faults")
def fault_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of the outcomes of injected faults, grouped by system."""
    rows = [_fault_row(row) for _, row in fault_outcomes(records).iterrows()]
    return text_table(rows, {"steps", "detected, s"}, group_by="system")


def _fault_row(row: pd.Series) -> dict[str, str]:
    columns = ("steps", "detected, s", "first error", "survivors", "weights on", "training")
    cells = {"system": labels.system_label(row["system"]), "fault": row["fault"]}
    cells |= dict.fromkeys(columns, "–")
    if row["reason"]:
        return {**cells, "first error": shorten(row["reason"])}
    rejoined = {True: ", with the restarted process", False: ", without the restarted process"}
    training = row["outcome"]
    if training == "completes":
        training += rejoined.get(row["rejoined"], "")
    return {
        **cells,
        "steps": f"{row['steps']:.0f} of {row['planned']}",
        "detected, s": format_number(row["detected_after_s"], ".1f"),
        "first error": shorten(row["first_error"]),
        "survivors": row["survivors"] or "none",
        "weights on": row["weight_holders"] or "none: lost",
        "training": training,
    }

"""`horizont compare`: two folders of records, in the terminal and in CI."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from horizont.analysis.changes import compare_machines, compare_quantities, unmatched_work
from horizont.errors import UserError
from horizont.records.pack import MANIFEST
from horizont.records.packed_record import Pack
from horizont.records.record import Record, read_record
from horizont.reporting.tables import format_interval
from horizont.workflow.blocks import ANCHORS_FOLDER, SUPERSEDED_FOLDER
from horizont.workflow.results import open_console, print_table


def compare_records(before: Path, after: Path, fail_above: float | None = None) -> int:
    """Print what changed between two folders of records; return 1 if there is a regression.

    That is a throughput whose whole interval is slower than before by more than the factor
    `fail_above`, if it is given.
    """
    if fail_above is not None and not fail_above >= 1:
        raise UserError("--fail-above", fail_above, "a factor of at least 1, such as 1.1")
    sides = [read_folder(before), read_folder(after)]
    changes = compare_quantities(*sides)
    if changes.empty:
        allowed = f"a folder with records of the same work as {before}"
        raise UserError("compare", str(after), allowed)
    console = open_console()
    facts = compare_machines(*sides)
    # A second column without a heading needs a name of its own.
    facts = facts.assign(changed=facts["changed"].map({True: "changed", False: ""}))
    facts = facts.rename(columns={"fact": "", "changed": " "})[["", "before", "after", " "]]
    print_table(console, facts, "The machines", wrapped=facts.columns)
    numbers = ("before", "after", "ratio", "interval", "runs")
    cells = pd.DataFrame([_changed_cells(row) for row in changes.to_dict("records")])
    print_table(console, cells, "What changed", numbers=numbers, group_by="work")
    for folder, points in zip((before, after), unmatched_work(*sides), strict=True):
        if points:
            names = sorted({f"{p.experiment}, {p.workload}, {p.system}" for p in points})
            console.print(f"only in {folder}: {'; '.join(names)}", soft_wrap=True)
    return 0 if fail_above is None else _report_regressions(console, changes, fail_above)


def read_folder(folder: Path) -> list[Record]:
    """Open all records below a folder, packed or not; refuse one without records."""
    if not folder.is_dir():
        raise UserError("folder of records", str(folder), "a folder that exists")
    beside = {ANCHORS_FOLDER, SUPERSEDED_FOLDER}
    records = [
        read_record(path)
        for path in sorted(path.parent for path in folder.rglob("result.json"))
        if path.parent.name not in beside and "/." not in f"/{path.relative_to(folder)}"
    ]
    for manifest in sorted(folder.rglob(MANIFEST)):
        records += Pack(manifest.parent).records()
    if not records:
        raise UserError("folder of records", str(folder), "a folder with records")
    return records


def _report_regressions(console: Console, changes: pd.DataFrame, fail_above: float) -> int:
    """Print the throughputs whose whole interval dropped by more than a factor; return 1 if any."""
    throughputs = changes[changes["quantity"] == "examples_per_s"]
    slower = throughputs[throughputs["high"] < 1 / fail_above]
    for row in slower.to_dict("records"):
        console.print(
            f"regression: {row['experiment']}, {row['workload']}, {row['system']}: "
            f"{1 / row['ratio']:.2f} times slower ({1 / row['high']:.2f} to {1 / row['low']:.2f})",
            soft_wrap=True,
        )
    if slower.empty:
        console.print(f"no throughput dropped by more than a factor of {fail_above:g}")
    return int(len(slower) > 0)


def _changed_cells(row: Mapping[Any, Any]) -> dict[str, str]:
    is_throughput = row["quantity"] == "examples_per_s"
    scale = 1 if is_throughput else 1e3
    return {
        "work": f"{row['experiment']}, {row['workload']}, {row['system']}: {row['point']}",
        "quantity": "examples/s" if is_throughput else f"{row['quantity'].removesuffix('_s')}, ms",
        "before": f"{row['before'] * scale:,.2f}",
        "after": f"{row['after'] * scale:,.2f}",
        "ratio": f"{row['ratio']:.2f}",
        "interval": format_interval(row["low"], row["high"], ".2f"),
        "runs": f"{row['n_before']}, {row['n_after']}",
        "change": str(row["change"]),
    }

"""`horizont compare`: two folders of records, in the terminal and in CI."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from horizont.analysis.changes import compare_machines, compare_quantities, unmatched_work
from horizont.errors import UserError
from horizont.records.record import Record, read_record
from horizont.workflow.results import open_console


def compare_records(before: Path, after: Path, fail_above: float | None = None) -> int:
    """Print what changed between two folders of records.

    Parameters
    ----------
    fail_above
        A factor above 1. A throughput whose whole interval is slower than before by more than
        that is a regression.

    Returns
    -------
    int
        1 if there is a regression and `fail_above` was given, else 0.

    Raises
    ------
    UserError
        If a folder has no records, the two have no work in common, or the factor is below 1.
    """
    if fail_above is not None and not fail_above >= 1:
        raise UserError("--fail-above", fail_above, "a factor of at least 1, such as 1.1")
    sides = [read_folder(before), read_folder(after)]
    changes = compare_quantities(*sides)
    if changes.empty:
        allowed = f"a folder with records of the same work as {before}"
        raise UserError("compare", str(after), allowed)
    console = open_console()
    console.print(_facts_table(compare_machines(*sides)))
    console.print(_changes_table(changes))
    _print_unmatched_work(console, before, after, sides)
    return _report_regressions(console, changes, fail_above)


def read_folder(folder: Path) -> list[Record]:
    """Open all records below a folder.

    Raises
    ------
    UserError
        If there are none, or one is damaged.
    """
    if not folder.is_dir():
        raise UserError("folder of records", str(folder), "a folder that exists")
    folders = sorted(path.parent for path in folder.rglob("result.json"))
    records = [read_record(path) for path in folders if not _is_unfinished(path, folder)]
    if not records:
        raise UserError("folder of records", str(folder), "a folder with records")
    return records


def _is_unfinished(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def regressions(changes: pd.DataFrame, fail_above: float) -> pd.DataFrame:
    """Return the throughputs whose whole interval dropped by more than a factor."""
    throughputs = changes[changes["quantity"] == "examples_per_s"]
    return throughputs[throughputs["high"] < 1 / fail_above]


def _report_regressions(console: Console, changes: pd.DataFrame, fail_above: float | None) -> int:
    if fail_above is None:
        return 0
    slower = regressions(changes, fail_above)
    for _, row in slower.iterrows():
        console.print(
            f"regression: {row['experiment']}, {row['workload']}, {row['system']}: "
            f"{1 / row['ratio']:.2f} times slower ({1 / row['high']:.2f} to {1 / row['low']:.2f})",
            soft_wrap=True,
        )
    if slower.empty:
        console.print(f"no throughput dropped by more than a factor of {fail_above:g}")
    return int(len(slower) > 0)


def _facts_table(facts: pd.DataFrame) -> Table:
    table = Table(title="The machines", title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    for column in ("", "before", "after", ""):
        table.add_column(column)
    for _, row in facts.iterrows():
        change = "changed" if row["changed"] else ""
        table.add_row(row["fact"], row["before"], row["after"], change)
    return table


def _changes_table(changes: pd.DataFrame) -> Table:
    table = Table(title="What changed", title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    for column in ("work", "quantity", "before", "after", "ratio", "interval", "runs", "change"):
        is_number = column in ("before", "after", "ratio", "interval", "runs")
        no_wrap = column != "work"
        table.add_column(column, justify="right" if is_number else "left", no_wrap=no_wrap)
    previous = ""
    for _, row in changes.iterrows():
        work = f"{row['experiment']}, {row['workload']}, {row['system']}: {row['point']}"
        table.add_row("" if work == previous else work, *_change_cells(row))
        previous = work
    return table


def _change_cells(row: pd.Series) -> list[str]:
    interval = "–" if pd.isna(row["low"]) else f"{row['low']:.2f} to {row['high']:.2f}"
    is_throughput = row["quantity"] == "examples_per_s"
    name = "examples/s" if is_throughput else f"{row['quantity'].removesuffix('_s')}, ms"
    scale = 1 if is_throughput else 1e3
    return [
        name,
        f"{row['before'] * scale:,.2f}",
        f"{row['after'] * scale:,.2f}",
        f"{row['ratio']:.2f}",
        interval,
        f"{row['n_before']}, {row['n_after']}",
        str(row["change"]),
    ]


def _print_unmatched_work(
    console: Console, before: Path, after: Path, sides: Sequence[list[Record]]
) -> None:
    for folder, points in zip((before, after), unmatched_work(*sides), strict=True):
        if points:
            names = sorted({f"{p.experiment}, {p.workload}, {p.system}" for p in points})
            console.print(f"only in {folder}: {'; '.join(names)}", soft_wrap=True)

"""`horizont compare`: two folders of records, in the terminal and in CI."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from rich.console import Console

from horizont.analysis.changes import (
    SAME_WITHIN,
    compare_machines,
    compare_quantities,
    unmatched_work,
)
from horizont.errors import UserError
from horizont.records.pack import MANIFEST
from horizont.records.packed_record import Pack
from horizont.records.record import Record, read_record
from horizont.reporting.tables import format_interval, format_ms
from horizont.workflow.blocks import ANCHORS_FOLDER, SUPERSEDED_FOLDER
from horizont.workflow.console import DEFAULT_CONSOLE_WIDTH, open_console, print_table, program
from horizont.workflow.results import MAX_LINES, TABLE_FRAME_LINES

_THROUGHPUT = "examples_per_s"

#: The columns that name the work of a row; rows of the same work share the point, too.
_NAMES = ["experiment", "workload", "system"]
_WORK = [*_NAMES, "point"]

#: The changes that are clear.
_CLEAR = ["worse", "better"]

_CHANGE_PHRASES = {
    "worse": "dropped",
    "better": "rose",
    "same": f"stayed the same within {SAME_WITHIN - 1:.0%}",
    "inconclusive": "cannot be decided",
}


def compare_records(
    before: Path, after: Path, fail_above: float | None = None, *, show_all: bool = False
) -> int:
    """Print what changed between two folders of records; return 1 if there is a regression.

    That is a throughput whose whole interval is slower than before by more than the factor
    `fail_above`, if it is given. At most `MAX_LINES` are printed unless `show_all` is set.
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
    different = facts.loc[facts["changed"], ["fact", "before", "after"]]
    closing = [_machine_line(different)]
    for folder, points in zip((before, after), unmatched_work(*sides), strict=True):
        if points:
            names = sorted({f"{p.experiment}, {p.workload}, {p.system}" for p in points})
            more = f" and {len(names) - 1} more" if len(names) > 1 and not show_all else ""
            listed = "; ".join(names if show_all else names[:1])
            closing.append(f"only in {folder}: {listed}{more}")
    throughputs = changes[changes["quantity"] == _THROUGHPUT]
    closing += _next_lines(throughputs)
    for line in _finding_lines(throughputs, changes):
        console.print(line, soft_wrap=True, highlight=False)
    if show_all:
        print_table(console, facts.drop(columns="changed"), "The machines", wrapped=facts.columns)
    # The sentences of the result may be wrapped, and the table has a title.
    lines = MAX_LINES - len(closing) - TABLE_FRAME_LINES - 5
    shown = changes if show_all else _most_changed(changes, lines)
    numbers = ("before", "after", "ratio", "interval", "runs")
    cells = pd.DataFrame([_changed_cells(row) for row in shown.to_dict("records")])
    print_table(console, cells, "What changed", numbers=numbers, group_by="work")
    if len(shown) < len(changes):
        closing.insert(0, f"and {len(changes) - len(shown)} more rows: --all")
    for line in closing:
        console.print(line, soft_wrap=True, highlight=False)
    return 0 if fail_above is None else _report_regressions(console, throughputs, fail_above)


def _finding_lines(throughputs: pd.DataFrame, changes: pd.DataFrame) -> list[str]:
    """Return how many throughputs changed, and the largest change that is clear."""
    counts = throughputs["change"].value_counts()
    parts = [
        f"{counts[name]} {phrase}" for name, phrase in _CHANGE_PHRASES.items() if name in counts
    ]
    lines = [f"Of {len(throughputs)} throughputs, {', '.join(parts)}."]
    clear = throughputs[throughputs["change"].isin(_CLEAR)]
    if len(clear):
        largest = clear.loc[np.log(clear["ratio"]).abs().idxmax()]
        cause = _phase_phrase(changes, largest)
        change = f"{_work_label(largest)} is {_factor_phrase(largest)}"
        lines.append(f"The largest change: {change}{cause}.")
    return lines


def _work_label(row: Mapping[Any, Any] | pd.Series) -> str:
    return ", ".join(row[name] for name in _NAMES)


def _factor_phrase(row: Mapping[Any, Any] | pd.Series) -> str:
    """Return by which factor a throughput changed, with its interval."""
    ratio, low, high, word = row["ratio"], row["low"], row["high"], "faster"
    if ratio < 1:
        ratio, low, high, word = 1 / ratio, 1 / high, 1 / low, "slower"
    return f"{ratio:.2f} times {word} ({low:.2f} to {high:.2f})"


def _phase_phrase(changes: pd.DataFrame, row: pd.Series) -> str:
    """Return the phase whose seconds changed most in the direction of the step; "" if none did."""
    same_work = (changes[_WORK] == row[_WORK]).all(axis=1)
    phases = changes[same_work & (changes["quantity"] != _THROUGHPUT)]
    longer_s = phases["after"] - phases["before"]
    changed_s = longer_s if row["ratio"] < 1 else -longer_s
    if phases.empty or changed_s.max() <= 0:
        return ""
    phase = phases.to_dict("records")[int(changed_s.to_numpy().argmax())]
    name = str(phase["quantity"]).removesuffix("_s")
    before, after = (format_ms(phase[side]) for side in ("before", "after"))
    return f"; most of it in {name}: {before} before, {after} after"


def _machine_line(different: pd.DataFrame) -> str:
    facts = [f"{fact} ({before} -> {after})" for fact, before, after in different.to_numpy()]
    differs = f"differ: {'; '.join(facts)}" if facts else "are the same in all that is recorded"
    text = f"The machines {differs}"
    return textwrap.shorten(text, 2 * DEFAULT_CONSOLE_WIDTH, placeholder=" …")


def _next_lines(throughputs: pd.DataFrame) -> list[str]:
    """Return the next step, if there is one: more runs, or the page with the operators."""
    inconclusive = throughputs[throughputs["change"] == "inconclusive"]
    changed = throughputs[throughputs["change"].isin(_CLEAR)]
    if len(inconclusive):
        name = inconclusive["experiment"].iloc[0]
        return [
            f"next: raise experiments.{name}.blocks in params.yaml, as {len(inconclusive)} "
            f"intervals are too wide; then {program()} run {name}"
        ]
    if len(changed):
        name = changed["experiment"].iloc[0]
        return [f"next: {program()} experiment {name}, for the operators of each step"]
    return []


def _most_changed(changes: pd.DataFrame, lines: int) -> pd.DataFrame:
    """Select what changed most and fits into some lines: throughputs, then phases.

    The names of the work are wrapped: its first row takes two lines.
    """
    is_phase = changes["quantity"] != _THROUGHPUT
    factor = np.log(changes["ratio"]).abs()
    size = (changes["after"] - changes["before"]).abs().where(is_phase, factor)
    ranked = changes.assign(is_phase=is_phase, size=size)
    ranked = ranked.sort_values(["is_phase", "size"], ascending=[True, False], kind="stable")
    chosen: list[int] = []
    works: set[tuple[Any, ...]] = set()
    for index, row in ranked.iterrows():
        work = tuple(row[_WORK])
        lines -= 1 if work in works else 2
        if lines < 0 and chosen:
            break
        chosen.append(cast(int, index))
        works.add(work)
    return changes.loc[sorted(chosen)]


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


def _report_regressions(console: Console, throughputs: pd.DataFrame, fail_above: float) -> int:
    """Print the throughputs whose whole interval dropped by more than a factor; return 1 if any."""
    slower = throughputs[throughputs["high"] < 1 / fail_above]
    for row in slower.to_dict("records"):
        console.print(f"regression: {_work_label(row)}: {_factor_phrase(row)}", soft_wrap=True)
    if slower.empty:
        console.print(f"no throughput dropped by more than a factor of {fail_above:g}")
    return int(len(slower) > 0)


def _changed_cells(row: Mapping[Any, Any]) -> dict[str, str]:
    is_throughput = row["quantity"] == _THROUGHPUT
    scale = 1 if is_throughput else 1e3
    return {
        "work": f"{_work_label(row)}: {row['point']}",
        "quantity": "examples/s" if is_throughput else f"{row['quantity'].removesuffix('_s')}, ms",
        "before": f"{row['before'] * scale:,.2f}",
        "after": f"{row['after'] * scale:,.2f}",
        "ratio": f"{row['ratio']:.2f}",
        "interval": format_interval(row["low"], row["high"], ".2f"),
        "runs": f"{row['n_before']}, {row['n_after']}",
        "change": str(row["change"]),
    }

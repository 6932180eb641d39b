"""Tables in the terminal, of any width: no number is cut."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection
from pathlib import Path

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

#: Width of the output where it is not a terminal, in characters.
DEFAULT_CONSOLE_WIDTH = 120

#: Between two columns, and the width below which a column is not worth its place, in characters.
_GAP = 3
_LEAST = 10


def program() -> str:
    """Return how this program can be started again: as it was, or by its name if that is enough."""
    started = Path(sys.argv[0])
    if started.name != "horizont" or shutil.which("horizont") == str(started):
        return "horizont"
    return str(started)


def open_console() -> Console:
    """Open standard output for tables, with a fixed width where it is not a terminal.

    Texts are printed as they are: errors of frameworks contain brackets, and numbers of a sentence
    get no colour.
    """
    width = None if sys.stdout.isatty() else DEFAULT_CONSOLE_WIDTH
    return Console(width=width, markup=False, highlight=False)


def print_table(
    console: Console,
    cells: pd.DataFrame,
    title: str = "",
    *,
    numbers: Collection[str] = (),
    wrapped: Collection[str] = (),
    group_by: str = "",
    cut: str = "",
) -> None:
    """Print a table of strings; columns of `numbers` are right-aligned.

    The column `group_by` is wrapped, too, and has its values in the first row of each group only.
    If it is too wide for the console, the column `cut` gets what the others leave. In a console
    that is too narrow for the others, all cells are wrapped between words, and `cut` is printed
    below; where not even the words fit side by side, a row is a list of lines.
    """
    between_words = {*wrapped, group_by}
    is_narrow = _width(cells, between_words, cut) >= console.width
    shown = cells.drop(columns=cut) if is_narrow and cut in cells else cells
    if is_narrow and _width(shown, set(shown.columns)) >= console.width:
        _print_rows(console, shown, title)
    else:
        every = set(shown.columns) if is_narrow else between_words
        console.print(_table(shown, title, numbers, every, group_by, "" if is_narrow else cut))
    if len(shown.columns) < len(cells.columns):
        _print_notes(console, cells, cut, numbers)


def _table(  # noqa: PLR0917 - of one caller
    cells: pd.DataFrame,
    title: str,
    numbers: Collection[str],
    wrapped: set[str],
    group_by: str,
    cut: str,
) -> Table:
    if group_by:
        column = cells[group_by]
        cells = cells.assign(**{group_by: column.mask(column == column.shift(), "")})
    is_narrow = wrapped >= set(cells.columns)

    def least(name: str) -> int | None:
        if is_narrow:
            return _longest(cells, name, words=True)
        return _longest(cells, name) if cut and name != cut else None

    table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    for name in cells.columns:
        table.add_column(
            str(name).strip(),
            justify="right" if name in numbers else "left",
            no_wrap=name not in wrapped,
            min_width=least(name),
        )
    for row in cells.itertuples(index=False):
        table.add_row(*row)
    return table


def _print_rows(console: Console, cells: pd.DataFrame, title: str) -> None:
    """Print each row as lines with the headings of its cells."""
    if title:
        console.print(title)
    for row in cells.to_dict("records"):
        console.print()
        for name, text in row.items():
            if text:
                console.print(f"{str(name).strip()}: {text}", soft_wrap=True)
    console.print()


def _print_notes(console: Console, cells: pd.DataFrame, cut: str, numbers: Collection[str]) -> None:
    """Print the cells of a column below the table, or once if they are all the same."""
    notes = cells[cut]
    if notes.nunique() == 1:
        console.print(f"{cut}: {notes.iloc[0]}" if notes.iloc[0] else "", soft_wrap=True)
        return
    names = [name for name in cells.columns if name not in {*numbers, cut}]
    for row in cells[notes != ""].to_dict("records"):
        label = ", ".join(row[name] for name in names if row[name])
        console.print(f"{label}: {row[cut]}", soft_wrap=True)


def _longest(cells: pd.DataFrame, name: str, *, words: bool = False) -> int:
    """Return the characters of the longest cell of a column, or of its longest word."""
    texts = [str(name), *cells[name]]
    parts = [part for text in texts for part in text.split()] if words else texts
    return max(map(len, parts), default=0)


def _width(cells: pd.DataFrame, wrapped: Collection[str], cut: str = "") -> int:
    """Return the width that a table needs, with columns that are wrapped between words."""
    widths = [
        _LEAST if name == cut else _longest(cells, name, words=name in wrapped)
        for name in cells.columns
    ]
    return sum(width + _GAP for width in widths)

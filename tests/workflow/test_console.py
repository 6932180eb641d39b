"""Tables in terminals of any width: nothing is cut but what is meant to be."""

from __future__ import annotations

import io

import pandas as pd
import pytest
from rich.console import Console

from horizont.workflow.console import open_console, print_table

CELLS = pd.DataFrame(
    {
        "system": ["MXNet, one process", "PyTorch, one process, compiled"],
        "examples/s": ["6,280", "14,492"],
        "interval": ["5,840 to 6,991 (95%)", "14,085 to 15,264 (95%)"],
        "note": ["no certificate", "recording its updates slows it down"],
    }
)


def printed(cells: pd.DataFrame, width: int, **options: object) -> str:
    out = io.StringIO()
    console = Console(width=width, file=out, markup=False, highlight=False)
    print_table(console, cells, "lenet5", **options)  # type: ignore[arg-type]
    return out.getvalue()


@pytest.mark.parametrize("width", [20, 30, 40, 50, 60, 70, 80, 100, 120])
@pytest.mark.parametrize("cut", ["", "note"])
def test_no_word_and_no_number_is_cut(width: int, cut: str) -> None:
    text = printed(CELLS, width, numbers=("examples/s", "interval"), cut=cut)
    shown = text.split()
    for name in ("system", "examples/s", "interval"):
        for cell in [name, *CELLS[name]]:
            assert all(any(word in part for part in shown) for word in cell.split()), (cell, text)
    if width < 80:  # a note is printed below
        assert "…" not in text
        assert "down" in text


def test_a_row_is_a_list_where_no_table_fits() -> None:
    lines = printed(CELLS, 30, cut="note").splitlines()
    assert lines[:5] == [
        "lenet5",
        "",
        "system: MXNet, one process",
        "examples/s: 6,280",
        "interval: 5,840 to 6,991 (95%)",
    ]
    assert lines[-1].endswith(
        "compiled, 14,492, 14,085 to 15,264 (95%): recording its updates slows it down"
    )


def test_a_note_of_all_rows_is_printed_once() -> None:
    same = CELLS.assign(note="no certificate")
    text = printed(same, 60, numbers=("examples/s", "interval"), cut="note")
    assert text.endswith("note: no certificate\n")
    assert text.count("no certificate") == 1


def test_numbers_of_a_sentence_have_no_colour() -> None:
    console = open_console()
    assert console.render_str("From 36 runs").spans == []

"""The printed book: what Typst is given, and that it sets it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pikepdf
import pytest

from horizont.errors import UserError
from horizont.reporting.pages import Page
from horizont.reporting.printed.book import print_book
from horizont.reporting.printed.cells import escaped, markdown_of
from horizont.reporting.tables import text_table


def markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def shown(page: str, caption: str = "") -> dict[str, Any]:
    metadata = {"figure": {"caption": caption, "said": "Figure 7"}} if caption else {}
    output = {"output_type": "display_data", "data": {"text/html": page}}
    return {"cell_type": "code", "metadata": metadata, "source": "", "outputs": [output]}


SVG = '<div><svg width="10" height="10"><style>p{}</style><rect width="5" height="5"/></svg></div>'

CELLS = [
    markdown("# A *page*\n\n$E = m c^2$, Größe, μέγεθος, [elsewhere](other.html), 5 $ and #1.\n"),
    markdown("$x \\odot y \\oplus z \\otimes u$"),
    markdown("```{toctree}\nall\n```"),
    shown(SVG, "What [it] shows, 100 % of #1."),
    shown(text_table(pd.DataFrame({"name": ["a_b", "c"], "none": ["", ""]})).html()),
]


def test_a_page_becomes_markdown_with_figures_and_tables(tmp_path: Path) -> None:
    text = markdown_of(CELLS, tmp_path)
    assert "toctree" not in text
    assert "other.html" not in text
    assert "<figure-7>" in text
    assert "caption: [*Figure 7.* What \\[it\\] shows, 100 % of \\#1.]" in text
    assert "<style>" not in (tmp_path / "3-0.svg").read_text()
    assert "[a\\_b]" in text
    assert "*none*" not in text  # a column without anything in it


def test_rows_between_the_rows_go_over_all_columns(tmp_path: Path) -> None:
    frame = pd.DataFrame({"title": ["one", "two"], "a": ["x", "y"], "b": ["1.5", "2"]})
    text = markdown_of([shown(text_table(frame, group_by="title").html())], tmp_path)
    assert "table.cell(colspan: 2)[*one*]" in text
    assert "align: (left, right,)" in text


def test_names_of_records_are_in_small_print(tmp_path: Path) -> None:
    names = "<code>run-a</code>, <code>run-b</code>"
    page = (
        "<p><strong>N1</strong> says</p>"
        "<details><summary>1 not tested</summary><ul><li>this</li></ul></details>"
        f"<details><summary>2 records</summary>{names}</details>"
    )
    text = markdown_of([shown(page)], tmp_path)
    assert text.startswith("**N1** says")
    assert "1 not tested: the site lists what" in text
    assert "this" not in text
    assert "luma(90), hyphenate: false)" in text
    assert "2 records: run-a, run-b]" in text


def test_a_book_is_set(tmp_path: Path) -> None:
    out = tmp_path / "book" / "book.pdf"
    print_book([Page("chapter", "page", "", CELLS)], out, "A #book [of] *mine*")
    assert out.read_bytes().startswith(b"%PDF")
    assert b"/ObjStm" in out.read_bytes(), "its objects are packed"
    with pikepdf.open(out) as book:
        assert len(book.pages) > 1
        assert "/StructTreeRoot" in book.Root, "it can be read aloud"


def test_what_cannot_be_set_is_told(tmp_path: Path) -> None:
    broken = [markdown("```{=typst}\n#nonsense()\n```")]
    with pytest.raises(UserError, match="printed book"):
        print_book([Page("chapter", "page", "", broken)], tmp_path / "book.pdf", "t")


def test_nothing_in_plain_text_means_anything() -> None:
    assert escaped("#a [b] $c$ *d* _e_ <f> @g") == r"\#a \[b\] \$c\$ \*d\* \_e\_ \<f\> \@g"

"""Tables sorted in a real browser, from the file system."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from tests.browser import BROWSER, open_browser

from horizont.reporting.tables import text_table

STATIC = Path(__file__).parents[2] / "docs" / "book" / "_static"

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium here to open a page with")

FRAME = pd.DataFrame(
    {
        "kind": ["one", "one", "one", "two", "two"],
        "name": ["step 10", "step 9", "Alpha", "b", "a"],
        "value": ["1,200", "−3.5", "–", "0.95 to 1.20 (75%)", "0.8 to 2.0 (75%)"],
        "size": ["2 KiB", "1 MiB", "512 B", "1e-3", "–"],
    }
)

#: Headings that are clicked on, one after the other, and the names in the order that follows.
CASES: list[tuple[list[int], list[str]]] = [
    ([], ["one", "step 10", "step 9", "Alpha", "two", "b", "a"]),
    ([0], ["one", "Alpha", "step 9", "step 10", "two", "a", "b"]),
    ([1], ["one", "step 9", "step 10", "Alpha", "two", "a", "b"]),
    ([1, 1], ["one", "step 10", "step 9", "Alpha", "two", "b", "a"]),
    ([2], ["one", "Alpha", "step 10", "step 9", "two", "b", "a"]),
    ([2, 2, 2], ["one", "step 10", "step 9", "Alpha", "two", "b", "a"]),
]

SCRIPT = """
[...document.querySelectorAll("table")].map((table, number) => {
  const heads = [...table.tHead.rows[0].cells];
  for (const n of CLICKS[number]) heads[n].querySelector("button").click();
  return [[...table.tBodies[0].rows].map((row) => row.cells[0].textContent),
          heads.map((head) => head.getAttribute("aria-sort"))];
})
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> list[tuple[list[str], list[str]]]:
    """Open a page with a table for each case, click, and read names and arrows."""
    folder = tmp_path_factory.mktemp("sorting")
    shown = text_table(FRAME, {"value", "size"}, group_by="kind")
    table = f'<figure class="hz-table">{shown.html()}</figure>'
    page_file = folder / "page.html"
    page_file.write_text(
        f'<meta charset="utf-8">{table * len(CASES)}'
        f'<script src="{(STATIC / "tables.js").as_uri()}"></script>'
    )
    with open_browser(folder / "profile") as page:
        page.open(page_file.as_uri())
        return list(
            page.evaluate(SCRIPT.replace("CLICKS", json.dumps([clicks for clicks, _ in CASES])))
        )


@pytest.mark.parametrize("number", range(len(CASES)))
def test_tables_are_sorted_by_their_headings(found, number: int) -> None:
    clicks, names = CASES[number]
    shown, arrows = found[number]
    assert shown == names
    wanted = ["none"] * 3
    if clicks:
        wanted[clicks[-1]] = ["none", "ascending", "descending"][len(clicks) % 3]
    assert arrows == wanted

"""Numbers, references, sources and terms: one count, and nothing leads nowhere."""

from __future__ import annotations

import pandas as pd
import pytest

from horizont.errors import UserError
from horizont.reporting.citations import add_addresses, with_sources
from horizont.reporting.crossing import with_pages, without_absent
from horizont.reporting.numbering import Counts, number_page
from horizont.reporting.tables import key_value_table, text_table
from horizont.reporting.termindex import index_cells


def text(source: str) -> dict:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def shown(html: str, figure: str = "") -> dict:
    metadata = {"figure": {"name": figure, "caption": "c"}} if figure else {}
    output = {"output_type": "display_data", "data": {"text/html": html}}
    return {"cell_type": "code", "metadata": metadata, "source": "", "outputs": [output]}


TABLE = text_table(pd.DataFrame({"a": ["1"], "b": ["2"]})).html()
FIGURE = '<figure class="hz-figure"><svg/><figcaption>c</figcaption></figure>'


def html_of(cell: dict) -> str:
    return cell["outputs"][0]["data"]["text/html"]


def test_figures_and_tables_are_counted_apart_over_all_pages() -> None:
    counts = Counts()
    one = [text("# One\n\n## Speed"), shown(FIGURE, "speed"), shown(TABLE), shown(TABLE)]
    two = [text("# Two\n\nSee [the figure](#figure-speed), [it](#table-why)."),
           shown(FIGURE, "speed"), text("## Why?"), shown(TABLE)]  # fmt: skip
    number_page(one, counts, "One")
    number_page(two, counts, "Two", "records/x")
    assert 'id="figure-speed"' in html_of(one[1])
    assert '<span class="caption-number">Figure 1.</span> c' in html_of(one[1])
    assert 'id="table-speed-2"' in html_of(one[3])
    assert "Table 2.</span> Speed.</caption>" in html_of(one[3])
    assert "Table 3.</span> Why? From <code>records/x</code>.</caption>" in html_of(two[3])
    assert 'href="#figure-speed">Figure 2</a>' in two[0]["source"]
    assert 'href="#table-why">Table 3</a>' in two[0]["source"]


def test_named_facts_have_no_number() -> None:
    cells = [text("# A"), shown(key_value_table({"a": 1}).html())]
    number_page(cells, Counts())
    assert "caption" not in html_of(cells[1])


def test_a_reference_to_nothing_is_refused() -> None:
    with pytest.raises(UserError, match="figure-gone"):
        number_page([text("See [it](#figure-gone).")], Counts())


def test_sources_are_linked_where_they_are_known() -> None:
    cells = [text("- Amdahl, G. M. (1967). Title.\n- Gers, F. A. and Cummins, F. (2000). T.")]
    known = add_addresses(cells)
    assert 'id="amdahl-1967"' in cells[0]["source"]
    said = with_sources("(Amdahl, 1967; Gers et al., 2000), Amdahl's (1967), Nobody (1967)", known)
    assert said.count('href="bibliography.html#amdahl-1967"') == 2
    assert '#gers-2000">Gers et al., 2000</a>' in said
    assert ">Amdahl's (1967)</a>, Nobody (1967)" in said


def test_links_to_pages_that_there_are_not_become_words() -> None:
    pages = {"overview": "index", "a": "a"}
    said = with_pages("[f](overview.ipynb) [d](../docs/a.md#x) [g](gone.ipynb#y)", pages)
    assert said == '<a href="index.html">f</a> <a href="a.html#x">d</a> g'
    assert without_absent('<a href="gone.html#x">w</a> <a href="a.html">a</a>', {"a"}) == (
        'w <a href="a.html">a</a>'
    )


def test_the_index_tells_where_a_term_stands_and_where_it_is_explained() -> None:
    explains = [text('<a class="hz-term" href="theory-glossary.html#learning-rate">rate</a>')]
    uses = [text("Two learning rates, and `stride` in code."), shown(TABLE)]
    pages = {"one": ("One", explains), "two": ("Two & three", uses)}
    body = index_cells(pages)[1]["source"]
    assert '**learning rate**: <strong><a href="one.html">One</a></strong> · ' in body
    assert '<a href="two.html">Two &amp; three</a>' in body
    assert "stride" not in body

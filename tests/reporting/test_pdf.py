"""The PDF: what Pandoc is given, and that Typst sets it."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path

import pytest
import typst

from horizont.errors import UserError
from horizont.reporting.pdf import _prepare, build_pdf
from horizont.reporting.pdf_tables import breakable, column_widths, text_em

TEMPLATE = Path(__file__).parents[2] / "docs" / "book" / "template.typ"

#: As Sphinx nests pages: inside the front page, with deeper headings.
PAGE = """
<nav>menu</nav><article><section id="front"><h1>Front<a class="headerlink">¶</a></h1>
<p>5 $ and #1, Größe, μέγεθος, <math><mi>E</mi></math>, <a href="#speed">Figure 1</a>,
<a href="index.html#document-x">page</a>, <a href="#gone">dead</a>, <a href="#term">term</a></p>
<section id="more"><h2>More</h2>
<div><span id="document-x"></span><section id="x"><h3>Second page</h3>
<div class="cell tag_site-only"><p>only on the site</p></div>
<div class="cell"><div class="cell_input"><pre>code()</pre></div></div>
<section id="sub"><h4>Below</h4><p class="rubric" id="output">In an output</p>
<figure id="speed" class="hz-figure"><svg width="10" height="10"><style>p{}</style>
<rect width="5" height="5"/></svg><figcaption><p><span class="caption-number">Figure 1 </span>
<span class="caption-text">What [it] shows. <a class="hz-data" href="a.csv">data</a></span></p>
</figcaption></figure>
<figure class="hz-table" id="t"><figcaption><span class="caption-number">Table 1 </span>Fast.
</figcaption><table><thead><tr><th>name</th><th>value</th><th>none</th></tr></thead><tbody>
<tr class="hz-group"><th colspan="3">group</th></tr>
<tr><td>a_very_long/name_of_a_record</td><td>1.5</td><td></td></tr>
<tr><td>c</td><td>2</td><td></td></tr></tbody></table></figure>
<dl><dt id="term">term</dt><dd>means</dd></dl>
<details><summary>1 not tested</summary><ul><li>this</li></ul></details>
<figure class="hz-table" id="long"><figcaption><span class="caption-number">Table 2 </span>Runs.
</figcaption><table><thead><tr><th>run</th></tr></thead><tbody>ROWS</tbody></table></figure>
<p><a href="#long">Table 2</a></p>
</section></section></div></section></section></article>
""".replace("ROWS", 401 * "<tr><td>run-a</td></tr>")


@pytest.fixture
def prepared(tmp_path: Path) -> str:
    return _prepare(PAGE, tmp_path)


def test_pages_follow_each_other_with_headings_of_their_own(prepared: str) -> None:
    front = prepared.index("<h1>Front</h1>")
    page = prepared.index('<h1 id="document-x">Second page</h1>')
    assert front < prepared.index("<h2>More</h2>") < page < prepared.index("<h2>Below</h2>")


def test_what_only_a_site_can_use_is_left_out(prepared: str) -> None:
    for text in ("menu", "¶", "only on the site", "code()", "data</a>", "<style>", "none"):
        assert text not in prepared


def test_links_lead_into_the_pdf_or_are_text(prepared: str) -> None:
    assert '<a href="#document-x">page</a>' in prepared
    assert "dead" in prepared
    assert "#gone" not in prepared
    assert '<dt><span id="term">term</span></dt>' in prepared


def test_figures_are_files_and_numbers_stand_out(prepared: str, tmp_path: Path) -> None:
    (figure,) = tmp_path.glob("*.svg")
    assert f'<img src="{figure.name}"/>' in prepared
    assert "xmlns" in figure.read_text()
    assert "<strong>Figure 1.</strong>" in prepared


def test_tables_are_aligned_and_lose_empty_columns(prepared: str) -> None:
    assert "<caption><strong>Table 1.</strong> Fast." in prepared
    assert '<th colspan="2"><strong>group</strong></th>' in prepared
    assert '<td style="text-align: right">1.5</td>' in prepared


def test_columns_that_do_not_fit_share_the_line() -> None:
    columns = [["system", "PyTorch (one process)"], ["runs", "3 of 3"], ["note", "a note"]]
    assert column_widths(columns, 7.5) == []
    columns[-1].append(30 * "a long note ")
    system, runs, note = column_widths(columns, 7.5)
    assert runs < system < note
    assert system + runs + note == pytest.approx(459)
    assert runs > 0.5 * 7.5 * len("3 of 3"), "a short column has no line break"
    unbreakable = column_widths([["a_name_that_cannot_break"]] * 9, 7.5)
    assert sum(unbreakable) == pytest.approx(459)


def test_bold_headings_are_words_that_cannot_break() -> None:
    headings = [["note"], ["waiting"], ["communication"]]
    note, waiting, communication = column_widths(
        [[40 * "a long note "], ["1.5"], ["2.5"]], 7.5, headings
    )
    plain = column_widths([[40 * "a long note "], ["waiting"], ["communication"]], 7.5)
    assert waiting > plain[1]
    assert communication > plain[2] > text_em("communication") * 7.5
    assert note + waiting + communication == pytest.approx(459)


def test_a_table_has_the_size_by_which_its_columns_are_measured(prepared: str) -> None:
    assert '<table data-typst:text:size="8.5pt"' in prepared
    assert not re.search(r"show table: set text\(size", TEMPLATE.read_text(encoding="utf-8"))


def test_a_table_that_does_not_fit_has_widths(tmp_path: Path) -> None:
    page = PAGE.replace("<td>c</td>", f"<td>{60 * 'long name '}</td>")
    assert "<colgroup>" not in _prepare(PAGE, tmp_path)
    prepared = _prepare(page, tmp_path)
    assert re.search(r"</caption><colgroup><col style=.width: \d+\.\d%./>", prepared)
    (tmp_path / "page.html").write_text(page)
    build_pdf(tmp_path / "page.html", TEMPLATE, tmp_path / "page.pdf")


def test_lists_and_long_tables_are_left_to_the_site(prepared: str) -> None:
    assert "1 not tested: listed on the site." in prepared
    assert "this" not in prepared
    assert '<span id="long">Table 2.</span>' in prepared
    assert "Its 401 rows are on the site." in prepared
    assert "run-a" not in prepared


def test_long_names_can_break() -> None:
    assert breakable("short/name") == "short/name"
    assert breakable("a_very_long/name_of_a_record").count("\u200b") == 6
    assert breakable("tensorflow-local-w1-b00-a87b").count("\u200b") == 4


def test_a_word_with_one_hyphen_cannot_break() -> None:
    assert breakable("synthetic stand-in") == "synthetic stand-\u2060in"
    assert breakable("-1.5") == "-1.5"


def test_headings_in_outputs_are_headings(prepared: str) -> None:
    assert "<h3>In an output</h3>" in prepared
    assert "rubric" not in prepared


def test_a_tall_figure_and_its_heading_fit_on_a_page(tmp_path: Path) -> None:
    for name, height in (("tall", 3000), ("small", 100)):
        svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="650" height="{height}"></svg>'
        (tmp_path / f"{name}.svg").write_text(svg)
    places = "#context [#metadata((here().page(), here().position().y.pt())) <place>]"
    pages = "".join(
        f"#pagebreak(weak: true)\n== Heading {places}\n"
        f'#figure(image("{name}.svg"), caption: [{500 * "word "} {places}])\n'
        for name in ("tall", "small")
    )
    source = tmp_path / "page.typ"
    source.write_text(TEMPLATE.read_text(encoding="utf-8") + pages, encoding="utf-8")
    found = json.loads(typst.query(str(source), "<place>", field="value"))
    for (heading_page, _), (caption_page, end_pt) in zip(found[::2], found[1::2], strict=True):
        assert heading_page == caption_page
        assert end_pt < 842 - 62, "the caption ends above the bottom margin"


def test_a_book_is_set(tmp_path: Path) -> None:
    html, out = tmp_path / "index.html", tmp_path / "book.pdf"
    html.write_text(PAGE, encoding="utf-8")
    build_pdf(html, TEMPLATE, out)
    assert out.read_bytes().startswith(b"%PDF")
    assert b"/StructTreeRoot" in out.read_bytes(), "screen readers find its structure"


def test_failures_of_typst_are_reported(tmp_path: Path) -> None:
    html, template = tmp_path / "index.html", tmp_path / "template.typ"
    html.write_text(PAGE, encoding="utf-8")
    template.write_text("#nonsense()")
    with pytest.raises(UserError, match="nonsense"):
        build_pdf(html, template, tmp_path / "book.pdf")


def test_the_same_book_of_the_same_day_is_the_same_file(tmp_path: Path) -> None:
    html = tmp_path / "index.html"
    html.write_text(PAGE, encoding="utf-8")
    files = [tmp_path / f"{number}.pdf" for number in range(2)]
    for file in files:
        build_pdf(html, TEMPLATE, file, date(2026, 11, 28))
    first, second = (file.read_bytes() for file in files)
    assert first == second
    assert b"/CreationDate(D:20261128" in first
    build_pdf(html, TEMPLATE, files[0])
    assert b"/CreationDate" not in files[0].read_bytes(), "without a day it has none"

"""The book from executed notebooks: complete, self-contained and strict."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import nbformat
import pandas as pd
import pytest
from matplotlib.figure import Figure
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from horizont.errors import UserError
from horizont.reporting.book import build_book, external_resources
from horizont.reporting.book_pages import REFERENCE, read_pages
from horizont.reporting.output import (
    FIGURE_MIME,
    STACK_MIME,
    TABLE_MIME,
    FigureOutput,
    PageTitle,
    Prose,
    Stack,
    TableOutput,
    key_value_table,
    python_code,
)
from horizont.reporting.sphinx_ext import mathml

PROJECT = Path(__file__).parents[2] / "docs" / "book"
NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))

DATA = pd.DataFrame({"x": [1.5, 2.0]})
CELLS = pd.DataFrame({"name": ["a_b", "c"], "value": ["1", "2"], "none": ["", ""]})
FIGURE = FigureOutput(Figure(), "speed", "What is [seen], 100 % of #1.", DATA)
TABLE = TableOutput(CELLS, frozenset({"name"}))
GIVEN = TableOutput(CELLS, frozenset({"name"}), measured=False)


def cell_showing(*items: Any, tags: tuple[str, ...] = ()) -> dict[str, Any]:
    outputs = []
    for item in items:
        bundle = item._repr_mimebundle_()
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        outputs.append(new_output("display_data", data=data, metadata=metadata))
    return new_code_cell("secret_code()", outputs=outputs, metadata={"tags": list(tags)})


def write_notebook(path: Path, *cells: dict[str, Any]) -> Path:
    """Write a notebook as papermill leaves it."""
    first = [
        new_markdown_cell(f"# {path.stem}\n\nWhy this page is here."),
        new_code_cell("workload = 'default'", metadata={"tags": ["parameters"]}),
        new_code_cell("workload = 'injected'", metadata={"tags": ["injected-parameters"]}),
    ]
    warning = new_output("stream", name="stderr", text="a warning")
    last = new_code_cell("warn()", outputs=[warning], metadata={"papermill": {"start": "2001-02"}})
    nbformat.write(new_notebook(cells=[*first, *cells, last]), path)
    return path


TEXT = """## Speed?

{numref}`figure-speed`, {numref}`table-speed-2`, [Losses](../docs/book/glossary.md#loss),
[Ring all-reduce](../docs/book/glossary.md), [time](../docs/book/glossary.md#hidden%20state),
[(Amdahl, 1967)](../docs/book/references.bib#amdahl-1967),
Hopfield's {cite:yearpar}`hopfield-1982`,
[Gers et al. (2000)](../docs/book/references.bib#gers-2000), [chapter](overview.ipynb),
[settings](../docs/settings.md), $\\varphi'(x) \\odot y$ and

$$
\\frac{a}{b}
$$
"""


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("book")
    related = Prose("- [Local](local-x.ipynb)")
    pages = [
        ("Overview", write_notebook(folder / "overview.ipynb", cell_showing(FIGURE))),
        ("Theory", PROJECT / "glossary.md"),
        (
            "Local training",
            write_notebook(
                folder / "local-x.ipynb",
                cell_showing(PageTitle("LeNet-5 on CIFAR-10", "with facts")),
                new_markdown_cell(TEXT),
                cell_showing(Stack((FIGURE, TABLE)), tags=("hide-input",)),
                cell_showing(GIVEN, key_value_table({"fact": 1}), tags=("hide-input",)),
                cell_showing(python_code("def f(): ..."), related),
            ),
        ),
        ("Bibliography", PROJECT / "bibliography.md"),
    ]
    return build_book(pages, PROJECT, folder / "site", {"local-x": "records/x"}).parent


@pytest.fixture(scope="module")
def page(book: Path) -> str:
    return (book / "local-x.html").read_text(encoding="utf-8")


def test_pages_have_titles_and_stand_in_the_order_of_the_book(book: Path, page: str) -> None:
    assert "<h1>Local training: LeNet-5 on CIFAR-10" in page
    assert "<em>With facts.</em>" in page
    assert "Why this page is here." in page
    contents = re.findall(r'toctree-l1.*?href="([^"]+)"', (book / "index.html").read_text())
    wanted = ["glossary.html", "local-x.html", "bibliography.html", "genindex.html"]
    assert contents[: len(wanted)] == wanted
    assert "Index of terms" in page


def test_figures_and_tables_are_numbered_through_the_whole_book(book: Path, page: str) -> None:
    number = r'caption-number">((?:Figure|Table) \d+)'
    assert re.findall(number, (book / "index.html").read_text()) == ["Figure 1"]
    assert re.findall(number, page) == ["Figure 2", "Table 1", "Table 2"]
    assert 'href="#local-x-figure-speed"><span class="std std-numref">Figure 2<' in page
    assert 'href="#local-x-table-speed-2"><span class="std std-numref">Table 2<' in page


def test_the_caption_of_a_table_names_its_source(page: str) -> None:
    captions = re.findall(r"<figcaption><span class=\"caption-number\">Table.*?</figcaption>", page)
    assert ["records/x" in caption for caption in captions] == [True, False]
    assert all("</span>Speed?" in caption for caption in captions)


def test_every_figure_links_to_its_data(book: Path, page: str) -> None:
    (link,) = re.findall(r'href="(_downloads/[^"]+\.csv)"', page)
    assert pd.read_csv(book / link).equals(DATA)


def test_drawings_and_cells_are_those_of_the_notebook(book: Path, page: str) -> None:
    assert page.count('<svg role="img" aria-label="What is [seen], 100 % of #1."') == 1
    assert page.count('<td class="hz-left">a_b</td><td>1</td>') == 2
    assert "<svg" not in page.partition("Table 1")[2]


def test_notebooks_of_earlier_versions_can_be_read(tmp_path: Path) -> None:
    """Their figures and tables have drawing, data and cells beside the HTML, and so have stacks."""
    figure = {"name": "old", "caption": "Old.", "svg": "<svg>1</svg>", "csv": "x\n1\n"}
    figure["csv_rows_per_row"] = 1
    table = {"html": "<table>2</table>", "measured": True}
    parts = [{FIGURE_MIME: figure, "text/html": "1"}, {TABLE_MIME: table, "text/html": "2"}]
    data = {STACK_MIME: parts, "text/html": "1\n\n2"}
    path = write_notebook(
        tmp_path / "overview.ipynb",
        new_code_cell("old()", outputs=[new_output("display_data", data=data)]),
    )
    (page,) = read_pages([("Overview", path)])
    outputs = json.loads(page.text)["cells"][1]["outputs"]
    assert [output["data"] for output in outputs] == [{FIGURE_MIME: figure}, {TABLE_MIME: table}]


def test_an_empty_page_is_named_where_it_would_have_been(tmp_path: Path) -> None:
    empty = FigureOutput(Figure(), "x", "Left out: X, because no run succeeded.", is_left_out=True)
    title = PageTitle("LeNet-5 on CIFAR-10")
    link = new_markdown_cell("[There](local-x.ipynb)")
    pages = [
        ("Overview", write_notebook(tmp_path / "overview.ipynb", cell_showing(FIGURE), link)),
        ("Glossary", PROJECT / "glossary.md"),
        ("Local", write_notebook(tmp_path / "local-x.ipynb", cell_showing(title, empty))),
        ("Local", write_notebook(tmp_path / "local-y.ipynb", cell_showing(title, Stack((TABLE,))))),
    ]
    front, glossary, full = read_pages(pages)
    assert glossary.text.endswith("*Left out: Local, LeNet-5 on CIFAR-10. No data.*\n")
    assert full.name == "local-y"
    assert "local-x" not in front.text


def test_a_view_of_the_reference_has_its_own_name(tmp_path: Path) -> None:
    name, title = "LeNet-5 on CIFAR-10", PageTitle("One process, LeNet-5 on CIFAR-10")
    chapter, table = f"{REFERENCE}One process", Stack((TABLE,))
    own, view = (
        write_notebook(tmp_path / f"{stem}.ipynb", cell_showing(each, table))
        for stem, each in (("reference-local-x", PageTitle(name)), ("reference-view-x", title))
    )
    front = write_notebook(tmp_path / "overview.ipynb", cell_showing(FIGURE))
    pages = read_pages([("Overview", front), (chapter, own), (chapter, view), ("Views", view)])
    heading = own_heading(view)
    assert [page.title for page in pages[1:]] == [name, f"{heading}, {name}", title.text]
    assert f"# {chapter}: {heading}, {name}" in pages[2].cells[0]["source"]


def own_heading(path: Path) -> str:
    first = json.loads(path.read_text())["cells"][0]["source"]
    return "".join(first).splitlines()[0].removeprefix("# ")


def test_terms_and_sources_are_linked(book: Path, page: str) -> None:
    for term in ("loss", "ring-all-reduce", "hidden-state"):
        assert f'href="glossary.html#term-{term}"' in page
    assert re.search(r'\(<a [^>]*href="bibliography.html#id\d+"[^>]*>Amdahl, 1967</a>\)', page)
    assert re.search(r"Hopfield’s <span [^>]*>\(<a [^>]*>1982</a>\)", page)
    assert re.search(r">Gers <em>et al.</em> \(<a [^>]*>2000</a>\)", page)
    assert re.search(r'href="local-x.html#use-\d+"', (book / "genindex.html").read_text())


def test_links_lead_to_pages_and_without_a_page_are_text(page: str) -> None:
    assert 'href="index.html"><span class="std std-doc">chapter' in page
    assert re.search(r'href="[^":]*#?"><span class="[^"]*">Local</span></a></p></li>', page)
    assert "settings" in page
    assert "settings.md" not in page


def test_formulas_are_mathml(page: str) -> None:
    assert 'display="block"><mrow><mfrac>' in page
    assert not re.search(r"<script[^>]*mathjax", page, re.IGNORECASE)


def test_parameters_and_warnings_stay_out(book: Path) -> None:
    for path in book.glob("*.html"):
        text = path.read_text(encoding="utf-8")
        for word in ("injected", "papermill", "2001-02", "a warning"):
            assert word not in text, (path.name, word)


def test_nothing_is_loaded_from_the_network(book: Path, tmp_path: Path) -> None:
    assert external_resources(book) == []
    for number, line in enumerate(
        [
            '<script src="https://x.org/a.js"></script>',
            '<img alt="" src="//x.org/a.png">',
            '<link rel="stylesheet" href="https://x.org/a.css">',
        ]
    ):
        (tmp_path / f"{number}.html").write_text(line + '<a href="https://x.org">fine</a>')
    (tmp_path / "a.css").write_text("@import 'https://x.org/a.css'; p { src: url(data:x) }")
    assert len(external_resources(tmp_path)) == 4


def test_the_site_can_be_searched_and_is_small(book: Path) -> None:
    assert "cifar" in (book / "searchindex.js").read_text()
    assert sum(path.stat().st_size for path in book.rglob("*")) < 5e6
    assert (book / "horizont.pdf").read_bytes().startswith(b"%PDF")


def test_an_old_site_is_replaced(tmp_path: Path) -> None:
    stale = tmp_path / "site" / "stale.html"
    stale.parent.mkdir()
    stale.touch()
    pages = [("overview", write_notebook(tmp_path / "overview.ipynb"))]
    assert build_book(pages, PROJECT, tmp_path / "site").exists()
    assert not stale.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{numref}`figure-gone`", "overview-figure-gone|index-figure-gone"),
        ("{term}`gone`", "gone"),
        ("{cite:p}`gone`", "gone"),
        ("[x](#gone)", "gone"),
        ("$\\nonsense$", "nonsense"),
    ],
)
def test_dead_references_and_bad_formulas_stop_the_build(
    tmp_path: Path, text: str, message: str
) -> None:
    notebook = write_notebook(tmp_path / "overview.ipynb", new_markdown_cell(text))
    with pytest.raises(UserError, match=message):
        build_book([("overview", notebook)], PROJECT, tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_bad_pages_are_refused(tmp_path: Path) -> None:
    page = write_notebook(tmp_path / "overview.ipynb")
    other = write_notebook(tmp_path / "other.ipynb")
    with pytest.raises(UserError, match=r"overview\.ipynb"):
        read_pages([("The data", other)])
    with pytest.raises(UserError, match=r"missing\.ipynb"):
        read_pages([("Overview", page), ("The data", tmp_path / "missing.ipynb")])
    error = new_output("error", ename="KeyError", evalue="gone", traceback=[])
    write_notebook(page, new_code_cell("fail()", outputs=[error]))
    with pytest.raises(UserError, match="KeyError: gone"):
        read_pages([("overview", page)])
    page.write_text("{}")
    with pytest.raises(UserError, match="damaged"):
        read_pages([("overview", page)])


def test_a_prime_is_no_tiny_superscript() -> None:
    assert "<msup>" not in mathml(r"\varphi'(x)")
    assert "<msup>" in mathml("x^2")


@pytest.mark.parametrize("bad", [r"\nonsense", r"\begin{eqnarray} a & b \end{eqnarray}", r"\frac"])
def test_unsupported_formulas_are_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="formula"):
        mathml(bad)


def markdown_of(path: Path) -> str:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def terms_of(path: Path) -> set[str]:
    """Return the terms of the glossary that a notebook links to."""
    links = re.findall(r"\[([^\]]+)\]\([\w./]+/glossary\.md(?:#([\w%-]+))?\)", markdown_of(path))
    return {unquote(term) or " ".join(words.lower().split()) for words, term in links}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_marks_of_a_notebook_exist(path: Path) -> None:
    """The build checks them, too; here they are checked of all notebooks, in a moment."""
    text = markdown_of(path)
    glossary = (PROJECT / "glossary.md").read_text(encoding="utf-8").splitlines()
    keys = re.findall(r"^@\w+\{([^,]+),", (PROJECT / "references.bib").read_text(), re.MULTILINE)
    assert terms_of(path) <= set(glossary)
    assert set(re.findall(r"references\.bib#([\w-]+)", text)) <= set(keys)
    assert not re.search(r"\{(?:term|cite:\w+|numref)\}`", text), "JupyterLab shows roles as source"
    for block in re.findall(r"\$\$(.*?)\$\$", text, re.DOTALL):
        mathml(block, block=True)
    for inline in re.findall(
        r"(?<![\\$])\$([^$]+)\$", re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL)
    ):
        mathml(inline)


def test_terms_are_translated_and_used() -> None:
    text = (PROJECT / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^(\S.*)\n  \S.*\n\n  German: .+\. Greek: .+\.$", text, re.MULTILINE)
    assert len(terms) > 60
    used = set().union(*map(terms_of, NOTEBOOKS))
    assert len(used & set(terms)) > 40

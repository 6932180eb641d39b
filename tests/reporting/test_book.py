"""The book from executed notebooks: whole, self-contained, and free of machinery."""

from __future__ import annotations

import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from horizont import reporting
from horizont.errors import UserError
from horizont.reporting.book import build_book
from horizont.reporting.linkcheck import check_links


def displayed(thing):
    data = thing._repr_mimebundle_()
    data, metadata = data if isinstance(data, tuple) else (data, {})
    return new_output("display_data", data=data, metadata=metadata)


def executed(path, title, *outputs, tags=()):
    """An executed notebook as the runner leaves it."""
    cells = [
        new_markdown_cell(f"# {path.stem}\n\nWhy this page is here."),
        new_code_cell("workload = 'default'", metadata={"tags": ["parameters"]}),
        new_code_cell("workload = 'injected'", metadata={"tags": ["injected-parameters"]}),
        new_code_cell("title()", outputs=[displayed(title)] if title else []),
        new_markdown_cell("## A section"),
        new_code_cell(
            "look()",
            outputs=[displayed(each) for each in outputs],
            metadata={"tags": list(tags), "papermill": {"start_time": "2001-02-03"}},
        ),
        new_code_cell("warn()", outputs=[new_output("stream", name="stderr", text="a warning")]),
    ]
    nbformat.write(new_notebook(cells=cells), path)
    return path


@pytest.fixture(scope="module")
def book(records, tmp_path_factory):
    folder = tmp_path_factory.mktemp("book")
    pictures = reporting.resource_figures(records)[:2]
    pages = [
        ("overview", executed(folder / "overview.ipynb", None, reporting.phase_figure(records))),
        (
            "local",
            executed(
                folder / "local-x.ipynb",
                reporting.PageTitle("LeNet-5 on CIFAR-10", "with facts"),
                *pictures,
                reporting.verdict("Findable finding.", True),
                tags=["hide-input"],
            ),
        ),
    ]
    return build_book(pages, folder / "site").parent


def test_every_page_is_there_with_its_title(book):
    page = (book / "local-x.html").read_text()
    assert "<h1>Local training: LeNet-5 on CIFAR-10" in page
    assert "With facts." in page
    assert "Why this page is here." in page
    assert "LeNet-5 on CIFAR-10" in (book / "index.html").read_text()  # in the contents


def test_figures_are_inline_numbered_and_captioned(book):
    page = (book / "local-x.html").read_text()
    assert page.count("<svg") >= 2
    numbers = re.findall(r'caption-number">Figure (\d+)\.', page)
    assert len(numbers) == 2
    assert len(set(numbers)) == 2


def test_machinery_and_noise_stay_out(book):
    for path in book.glob("*.html"):
        page = path.read_text()
        for word in ("injected", "papermill", "2001-02-03", "a warning"):
            assert word not in page, (path.name, word)


def test_nothing_is_fetched_from_anywhere(book):
    asset = re.compile(
        r"""<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=["'](?:https?:)?//"""
    )
    for path in book.rglob("*.html"):
        assert not asset.search(path.read_text()), path.name
    for path in book.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", path.read_text()), path


def test_all_links_lead_somewhere(book):
    report = check_links(book)
    assert reporting.faults == ()
    assert reporting.followed > 100


def test_every_figure_has_its_numbers_a_click_away(book):
    page = (book / "local-x.html").read_text()
    files = re.findall(r'class="hz-data" download="[^"]+" href="([^"]+)"', page)
    assert len(files) == page.count("<figure ") == 2
    for name in files:
        assert (book / name).read_text().startswith("time_s,")


def test_it_can_be_searched_and_is_small(book):
    assert "searchindex.js" in {path.name for path in book.iterdir()}
    assert "cifar" in (book / "searchindex.js").read_text()
    assert sum(path.stat().st_size for path in book.rglob("*")) < 5e6


def test_a_second_build_replaces_the_first(tmp_path):
    page = executed(tmp_path / "overview.ipynb", None)
    stale = tmp_path / "site" / "stale.html"
    stale.parent.mkdir()
    stale.touch()
    assert build_book([("overview", page)], tmp_path / "site").exists()
    assert not stale.exists()


def test_what_is_wrong_is_said(tmp_path):
    page = executed(tmp_path / "overview.ipynb", None)
    with pytest.raises(UserError, match="chapter"):
        build_book([("nonsense", page)], tmp_path / "site")
    with pytest.raises(UserError, match="overview"):
        build_book([("data", page)], tmp_path / "site")
    with pytest.raises(UserError, match=r"missing\.ipynb"):
        build_book([("overview", tmp_path / "missing.ipynb")], tmp_path / "site")
    notebook = nbformat.read(page, as_version=4)
    error = new_output("error", ename="KeyError", evalue="gone", traceback=[])
    notebook.cells[3]["outputs"] = [error]
    nbformat.write(notebook, page)
    with pytest.raises(UserError, match="KeyError: gone"):
        build_book([("overview", page)], tmp_path / "site")
    assert not (tmp_path / "site").exists()

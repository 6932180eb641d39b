"""Formulas in the book: MathML from the build, nothing from a network; terms that are explained."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from horizont.errors import UserError
from horizont.reporting.glossary import MARK, terms, with_terms
from horizont.reporting.mathml import mathml
from horizont.reporting.site import build_site

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def texts(path: Path) -> str:
    cells = nbformat.read(path, as_version=4).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def test_formulas_become_mathml(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "index.md").write_text(
        "# Page\n\nInline $x^2$ here.\n\n$$\n\\frac{a}{b}\n$$\n\nBad: $\\nonsense$.\n"
    )
    faults = build_site(source, tmp_path / "site", tmp_path / "doctrees")
    page = (tmp_path / "site" / "index.html").read_text()
    assert "<msup><mi>x</mi><mn>2</mn></msup>" in page
    assert 'display="block"><mrow><mfrac>' in page
    assert not re.search(r"<script[^>]*mathjax", page, re.I)
    assert "<code>\\nonsense</code>" in page
    assert [fault for fault in faults if "nonsense" in fault]


def test_a_prime_is_no_tiny_superscript() -> None:
    assert "<msup>" not in mathml(r"\varphi'(x)")
    assert "<msup>" in mathml("x^2")


@pytest.mark.parametrize("bad", [r"\nonsense", r"\begin{eqnarray} a & b \end{eqnarray}", r"\frac"])
def test_what_is_not_understood_is_said(bad: str) -> None:
    with pytest.raises(ValueError, match="formula"):
        mathml(bad)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_all_formulas_and_terms_of_a_notebook_are_understood(path: Path) -> None:
    text = texts(path)
    for block in re.findall(r"\$\$(.*?)\$\$", text, re.DOTALL):
        mathml(block, block=True)
    for inline in re.findall(
        r"(?<![\\$])\$([^$]+)\$", re.sub(r"\$\$.*?\$\$", "", text, flags=re.S)
    ):
        mathml(inline)
    assert not MARK.search(with_terms(text))


def test_all_terms_are_used_and_translated() -> None:
    marked = {mark for path in NOTEBOOKS for _, mark in MARK.findall(texts(path))}
    assert len(marked) > 40
    for entry in terms().values():
        assert all((entry.german, entry.greek, entry.meaning))


def test_an_unknown_term_is_named() -> None:
    with pytest.raises(UserError, match="nonsense"):
        with_terms("[what](theory-glossary.ipynb#nonsense)")
    shown = with_terms("[saturated](theory-glossary.ipynb#saturation)")
    assert 'href="theory-glossary.html#saturation"' in shown
    assert "Sättigung · κορεσμός" in shown

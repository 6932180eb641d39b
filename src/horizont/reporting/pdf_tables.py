"""Tables of the PDF: alignment, line breaks and widths of columns, which Typst does not balance."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

#: Tables with more columns than this are set in smaller type.
_WIDE_TABLE = 6

#: Sizes of text in tables.
_TABLE_PT, _WIDE_TABLE_PT = 8.5, 7.5

#: Width of a page without its margins, and of the insets of a column.
_LINE_PT, _INSETS_PT = 459.0, 6.0

#: Characters of Libertinus Serif by their width, relative to the size of the text; and of others.
_WIDTHS_EM = {
    0.00: "\u200b\u2060",
    0.25: " .,:;'|",
    0.31: "ijlI()°",
    0.38: '-/"ftrsJ“”',
    0.46: "acez0123456789",
    0.51: "bdgkopqvxy_F",
    0.62: "ELPSTYB%",
    0.71: "ACDGKNOQRUVXZ",
    0.82: "HMmw",
    1.00: "W→",
}
_CHARACTER_EM = {text: em for em, texts in _WIDTHS_EM.items() for text in texts}
_OTHER_EM = 0.54

#: Headings are bold, which is wider.
_BOLD = 1.12

_WORD_ENDS = re.compile(r"[\s\u200b]+")
_NUMBER = re.compile(r"^[-−+]?[\d.,]+([eE]-?\d+)?\s?%?$")

#: A word with this many hyphens is a name, such as that of a record, and breaks after them.
_HYPHENS_OF_A_NAME = 3


def set_table(table: Any) -> None:
    """Remove empty columns, align numbers, make long names breakable, and shrink wide tables."""
    rows = [row for row in table.select("tr") if not row.select("[colspan]")]
    width = 0
    for column in zip(*(row.find_all(["td", "th"]) for row in rows), strict=True):
        texts = [cell.get_text().strip() for cell in column if cell.name == "td"]
        if texts and not any(texts):
            for cell in column:
                cell.extract()
            continue
        width += 1
        known = [text for text in texts if text not in ("", "–")]
        is_number = bool(known) and all(_NUMBER.match(text) for text in known)
        for cell in column:
            cell["style"] = f"text-align: {'right' if is_number else 'left'}"
    for cell in table.select("[colspan]"):
        cell["colspan"] = width
    for cell in table.select("th"):
        cell.string = re.sub(r"(?<=_)(?=\w)", "\u200b", cell.get_text())
        cell.string.wrap(new_tag("strong"))
    for text in table.find_all(string=True):
        text.replace_with(breakable(str(text)))
    text_pt = _WIDE_TABLE_PT if width > _WIDE_TABLE else _TABLE_PT
    table["data-typst:text:size"] = f"{text_pt}pt"
    columns = list(zip(*(row.find_all(["td", "th"]) for row in rows), strict=True))
    headings = [[_text(cell) for cell in column if cell.name == "th"] for column in columns]
    texts = [[_text(cell) for cell in column if cell.name == "td"] for column in columns]
    _set_widths(table, column_widths(texts, text_pt, headings))


def _text(cell: Any) -> str:
    return str(cell.get_text().strip())


def _set_widths(table: Any, widths_pt: Sequence[float]) -> None:
    if widths_pt:
        group = new_tag("colgroup")
        for width_pt in widths_pt:
            group.append(new_tag("col", style=f"width: {100 * width_pt / _LINE_PT:.1f}%"))
        table.insert(1 if table.caption else 0, group)


def column_widths(
    columns: Sequence[Sequence[str]], text_pt: float, headings: Sequence[Sequence[str]] = ()
) -> list[float]:
    """Return the widths of the columns of a table in points; none if no line must break.

    Typst divides the space equally among the columns that do not fit, so that a long note beside
    short names would be set word by word. Here a column that is longer has more lines and is wider:
    by the root of its length, up to that length, and not narrower than its longest word.
    """
    headings = headings or [[] for _ in columns]
    longest = _widths_pt(headings, columns, text_pt, lambda text: [text])
    words = _widths_pt(headings, columns, text_pt, _WORD_ENDS.split)
    if sum(longest) <= _LINE_PT:
        return []

    def widths(scale: float) -> list[float]:
        return [
            min(whole, max(word, scale * whole**0.5))
            for whole, word in zip(longest, words, strict=True)
        ]

    low, high = 0.0, _LINE_PT
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(widths(middle)) <= _LINE_PT else (low, middle)
    found = widths(low)
    return [width * _LINE_PT / sum(found) for width in found]


def _widths_pt(
    headings: Sequence[Sequence[str]],
    columns: Sequence[Sequence[str]],
    text_pt: float,
    split: Callable[[str], Sequence[str]],
) -> list[float]:
    """Return the width of the widest part of each column, its bold heading included."""

    def widest_em(texts: Sequence[str]) -> float:
        return max((text_em(part) for text in texts for part in split(text)), default=0.0)

    return [
        _INSETS_PT + text_pt * max(_BOLD * widest_em(heading), widest_em(texts))
        for heading, texts in zip(headings, columns, strict=True)
    ]


def text_em(text: str) -> float:
    """Return the estimated width of a text, relative to its size."""
    return sum(_CHARACTER_EM.get(character, _OTHER_EM) for character in text)


def breakable(text: str) -> str:
    """Return a text in which long names can break, and words with one or two hyphens cannot.

    Names break after slashes, underscores, colons and dots, and after hyphens if they have several.
    """
    if len(text) > 18:
        text = re.sub(r"(?<=[/_:.])(?=\w)", "\u200b", text)
    return re.sub(r"[^\s\u200b]+", _with_bound_hyphens, text)


def _with_bound_hyphens(word: re.Match[str]) -> str:
    parts = re.split(r"(?<=\w-)(?=\w)", word[0])
    return ("\u200b" if len(parts) > _HYPHENS_OF_A_NAME else "\u2060").join(parts)


def new_tag(name: str, **attributes: str) -> Any:
    """Return a new element of HTML."""
    from bs4 import BeautifulSoup

    return BeautifulSoup("", "html.parser").new_tag(name, attrs=attributes)

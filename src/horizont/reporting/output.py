"""What a notebook cell displays: figures, tables, page titles, values and source listings.

JupyterLab shows the HTML. Figures and tables carry a second representation, of the mime types
below: what the book needs besides the HTML to number them and to write their captions. It takes
drawing, data and cells from the HTML, so that an executed notebook has each of them once.
"""

from __future__ import annotations

import html
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
from matplotlib.figure import Figure

from horizont.reporting.svg import inline_svg, standalone_svg

#: A figure: ``name``, ``caption``, and how many rows of its data each row of the CSV stands for.
FIGURE_MIME = "application/vnd.horizont.figure+json"

#: A table with column headings: whether it is ``measured``, and its ``title``, if any.
TABLE_MIME = "application/vnd.horizont.table+json"

#: Several outputs in one: of each, the representations other than HTML.
STACK_MIME = "application/vnd.horizont.stack+json"

#: Stands in the HTML of a stack between its outputs.
STACK_SEPARATOR = "\n\n<!-- next output -->\n\n"

#: CSV files are thinned to these numbers: a figure is a few hundred pixels wide, and a page with
#: a figure for each system must stay small enough for the web view of a repository.
MAX_CSV_ROWS = 1500
MAX_CSV_CELLS = 6000

#: Texts in a table up to this length are abbreviations, and longer ones names; beyond the second
#: length they have several lines.
SHORT_TEXT, LONG_TEXT = 8, 60

#: A docstring of more than one paragraph, and its first paragraph.
_LONG_DOCSTRING = re.compile(r'("""[^"]*?)\n\n[^"]*?"""')

Bundle = dict[str, Any]


@dataclass(frozen=True)
class FigureOutput:
    """A figure with its caption and the data that it was drawn from.

    The name is unique on its page: the figure's anchor, and the name of its CSV file.
    """

    figure: Figure
    name: str
    caption: str
    data: pd.DataFrame | None = None
    is_left_out: bool = False  # there is nothing to see; a page has the caption, which says why

    def svg(self) -> str:
        """Return the figure as a standalone SVG document."""
        return standalone_svg(self.figure, self.caption)

    def save(self, path: Path) -> None:
        """Write the figure as an SVG file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.svg(), encoding="utf-8")

    def csv(self) -> tuple[str, int]:
        """Return the data as CSV with six significant digits, and the thinning factor."""
        if self.data is None or self.data.empty:
            return "", 1
        rows, columns = self.data.shape
        every = math.ceil(max(rows / MAX_CSV_ROWS, rows * columns / MAX_CSV_CELLS))
        thinned = self.data.iloc[::every]
        return str(thinned.to_csv(index=False, float_format="%.6g", lineterminator="\n")), every

    def _repr_mimebundle_(self, **_: Any) -> Bundle:
        if self.is_left_out:
            return Message(self.caption)._repr_mimebundle_()
        csv, every = self.csv()
        address = f"data:text/csv;charset=utf-8,{quote(csv, safe=',')}"
        link = f' <a download="{self.name}.csv" href="{address}">data (CSV)</a>' if csv else ""
        caption = f"<figcaption>{html.escape(self.caption)}{link}</figcaption>"
        svg = inline_svg(self.figure, self.caption)
        return {
            FIGURE_MIME: {"name": self.name, "caption": self.caption, "csv_rows_per_row": every},
            "text/html": f'<figure class="hz-figure">{svg}{caption}</figure>',
            "text/plain": self.caption,
        }


@dataclass(frozen=True)
class TableOutput:
    """A table of formatted cells, which are strings.

    Columns are right-aligned unless they are of text. The values are measured if they come from the
    records of the page, which the caption then names.
    """

    cells: pd.DataFrame
    text_columns: frozenset[str]
    header: bool = True  # a table without headings of columns is not numbered
    groups: Mapping[int, str] = field(default_factory=dict)  # headings by the row below each
    measured: bool = True
    title: str = ""  # the caption in the book; by default the heading of the section

    def html(self) -> str:
        """Return the table as HTML."""
        classes = [
            self._class_attribute(name, self.cells.iloc[:, number])
            for number, name in enumerate(self.cells.columns)
        ]

        def row(tag: str, cells: Iterable[str]) -> str:
            parts = zip(cells, classes, strict=True)
            return "".join(f"<{tag}{kind}>{html.escape(cell)}</{tag}>" for cell, kind in parts)

        head = f"<tr>{row('th', self.cells.columns)}</tr>" if self.header else ""
        rows = []
        for number, cells in enumerate(self.cells.itertuples(index=False)):
            if number in self.groups:
                group = f'<th colspan="{len(classes)}">{html.escape(self.groups[number])}</th>'
                rows.append(f'<tr class="hz-group">{group}</tr>')
            rows.append(f"<tr>{row('td', cells)}</tr>")
        body = "\n".join(rows)
        return f"<table>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"

    def _class_attribute(self, name: str, column: pd.Series) -> str:
        """Return the alignment of a column, and how wide a column of its texts has to be."""
        if name not in self.text_columns:
            return ""
        longest = max(map(len, column), default=0)
        kind = " hz-long" if longest > LONG_TEXT else " hz-names" if longest > SHORT_TEXT else ""
        return f' class="hz-left{kind}"'

    def _repr_mimebundle_(self, **_: Any) -> Bundle:
        texts = self.cells
        if self.groups:
            headings = pd.Series(dict(self.groups)).reindex(range(len(texts))).fillna("")
            texts = pd.concat([headings.rename(""), texts], axis="columns")
        bundle: Bundle = {
            "text/html": f'<div class="hz-table">{self.html()}</div>',
            "text/plain": texts.to_string(index=False, header=self.header),
        }
        if self.header:
            title = {"title": self.title} if self.title else {}
            bundle[TABLE_MIME] = {"measured": self.measured, **title}
        return bundle


@dataclass(frozen=True)
class PageTitle:
    """The title of a page, which the book takes from the metadata of the output."""

    text: str
    facts: str = ""  # a line of conditions: optimizer, source of the data
    finding: str = ""  # what the page found

    def _repr_mimebundle_(self, **_: Any) -> tuple[Bundle, Bundle]:
        text = f"**{self.text}**" + (f" · {self.facts}" if self.facts else "")
        text += f"\n\n{self.finding}" if self.finding else ""
        bundle = {"text/markdown": text, "text/plain": text.replace("*", "")}
        metadata = {"title": self.text, "facts": self.facts, "finding": self.finding}
        return bundle, {"horizont": metadata}


@dataclass(frozen=True)
class NamedValues:
    """Named results of a notebook: a table, and metadata that the tests read."""

    values: Mapping[str, float]

    def _repr_mimebundle_(self, **_: Any) -> tuple[Bundle, Bundle]:
        table = key_value_table({name: _format(value) for name, value in self.values.items()})
        return table._repr_mimebundle_(), {"horizont": {"numbers": dict(self.values)}}


def _format(value: float) -> str:
    is_whole = value.is_integer() and abs(value) < 1e15
    return f"{value:,.0f}" if is_whole else f"{value:,.4g}"


@dataclass(frozen=True)
class Message:
    """A sentence, for example the reason why there is no table, or a quotation."""

    text: str
    element: str = "p"

    def _repr_mimebundle_(self, **_: Any) -> Bundle:
        text = f"<{self.element}>{html.escape(self.text)}</{self.element}>"
        return {"text/html": text, "text/plain": self.text}


@dataclass(frozen=True)
class Prose:
    """Markdown: an optional section, links to pages, a source listing."""

    text: str

    def _repr_mimebundle_(self, **_: Any) -> Bundle:
        return {"text/markdown": self.text, "text/plain": self.text}


@dataclass(frozen=True)
class Verdict:
    """The result of a check in a sentence, with a mark for its outcome."""

    text: str
    is_good: bool

    def _repr_mimebundle_(self, **_: Any) -> Bundle:
        kind, mark = ("good", "✓") if self.is_good else ("bad", "✗")
        text = f'<p class="hz-verdict hz-{kind}">{mark} {html.escape(self.text)}</p>'
        return {"text/html": text, "text/plain": f"{mark} {self.text}"}


@dataclass(frozen=True)
class Stack:
    """Several outputs as one, below each other, where a cell can show only one."""

    items: tuple[Any, ...]

    def _repr_mimebundle_(self, **_: Any) -> Bundle:
        bundles = [mime_bundle(item) for item in self.items]
        return {
            "text/html": STACK_SEPARATOR.join(bundle.pop("text/html") for bundle in bundles),
            "text/plain": "\n\n".join(bundle["text/plain"] for bundle in bundles),
            STACK_MIME: bundles,
        }


def mime_bundle(item: Any) -> Bundle:
    """Return the representations of an object by mime type, without metadata."""
    bundle = item._repr_mimebundle_()
    return dict(bundle[0] if isinstance(bundle, tuple) else bundle)


def key_value_table(values: Mapping[str, object]) -> TableOutput:
    """Build a two-column table without headings; None becomes a dash."""
    cells = {"fact": list(values), "value": ["–" if v is None else str(v) for v in values.values()]}
    return TableOutput(pd.DataFrame(cells), frozenset({"fact", "value"}), header=False)


def source_listing(*functions: Callable[..., Any]) -> Prose:
    """Build a listing of functions; only the first paragraph of a docstring is shown."""
    texts = (inspect.getsource(function).rstrip() for function in functions)
    return python_code("\n\n\n".join(_LONG_DOCSTRING.sub(r'\1"""', text) for text in texts))


def python_code(text: str) -> Prose:
    """Build a listing of Python source code."""
    return Prose(f"```python\n{text}\n```")


def named_values(**values: float) -> NamedValues:
    """Build a table of named numbers; an underscore in a name becomes a space."""
    return NamedValues({name.replace("_", " "): float(value) for name, value in values.items()})

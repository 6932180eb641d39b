"""What a notebook cell shows: a figure with its caption, or the title of a page."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from horizont.report import sheet
from horizont.report.svg import inline_svg, standalone_svg


@dataclass(frozen=True)
class Picture:
    """A figure with its caption.

    Shown in a notebook as an inline SVG. The book takes name and caption from the metadata of
    the output and numbers the figure.

    Attributes
    ----------
    name
        Unique on its page; becomes the address of the figure.
    caption
        A sentence or two that say what is seen and how it was measured.
    data
        The table that the figure was drawn from; without it, what the figure shows is read back.
    """

    figure: Figure
    name: str
    caption: str
    data: pd.DataFrame | None = None

    def svg(self) -> str:
        """Write the figure as a file of its own."""
        return standalone_svg(self.figure, self.caption)

    def save(self, path: Path) -> None:
        """Write the figure as an SVG file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.svg(), encoding="utf-8")

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        picture = inline_svg(self.figure, self.caption)
        data = sheet.drawn(self.figure) if self.data is None else self.data
        said = f"{html.escape(self.caption)} {sheet.link(self.name, data)}"
        caption = f"<figcaption>{said}</figcaption>"
        page = f'<figure class="hz-figure">{picture}{caption}</figure>'
        metadata = {"figure": {"name": self.name, "caption": self.caption}}
        return {"text/html": page, "text/plain": self.caption}, {"horizont": metadata}


@dataclass(frozen=True)
class Title:
    """The title of a page and the facts below it.

    Attributes
    ----------
    text
        What the page is about, in human words: `LeNet-5 on CIFAR-10`.
    facts
        A line about how it was done.
    """

    text: str
    facts: str = ""

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        text = f"**{self.text}**" + (f" · {self.facts}" if self.facts else "")
        bundle = {"text/markdown": text, "text/plain": text.replace("*", "")}
        return bundle, {"horizont": {"title": self.text, "facts": self.facts}}


@dataclass(frozen=True)
class Quote:
    """A passage of text from a data set."""

    text: str

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        quoted = f"<blockquote>{html.escape(self.text)} …</blockquote>"
        return {"text/html": quoted, "text/plain": self.text}

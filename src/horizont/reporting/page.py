"""What a notebook cell shows: a figure with its caption, or the title of a page."""

from __future__ import annotations

import html
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from horizont.config.workload import OptimizerConfig, Workload
from horizont.reporting import labels, sheet
from horizont.reporting.style import inline_svg, standalone_svg
from horizont.reporting.tables import key_value_table


@dataclass(frozen=True)
class FigureOutput:
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
class PageTitle:
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
class TextSample:
    """A passage of text from a data set."""

    text: str

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        quoted = f"<blockquote>{html.escape(self.text)} …</blockquote>"
        return {"text/html": quoted, "text/plain": self.text}


def workload_title(workload: Workload, source: str) -> PageTitle:
    """Title a page about a workload.

    Parameters
    ----------
    source
        ``real`` or ``synthetic``: where the prepared data come from.
    """
    text = labels.workload_label(workload.network, workload.dataset) + _synthetic_note(source)
    return PageTitle(text, f"{_optimizer_label(workload.optimizer)}; {_data_note(source)}")


def dataset_title(name: str, source: str) -> PageTitle:
    """Title a page about a data set."""
    return PageTitle(labels.dataset_label(name) + _synthetic_note(source), _data_note(source))


def _optimizer_label(optimizer: OptimizerConfig) -> str:
    """Describe an update rule: `SGD, momentum 0.9, learning rate 0.01`."""
    name = {"sgd": "SGD", "adam": "Adam"}[optimizer.name]
    kind = " (Nesterov)" if optimizer.nesterov else ""
    momentum = f"momentum {optimizer.momentum:g}{kind}" if optimizer.momentum else ""
    decay = f"weight decay {optimizer.weight_decay:g}" if optimizer.weight_decay else ""
    rate = f"learning rate {optimizer.learning_rate:g}"
    return ", ".join(filter(None, [name, momentum, rate, decay]))


def _synthetic_note(source: str) -> str:
    return "" if source == "real" else " (synthetic stand-in)"


def _data_note(source: str) -> str:
    if source == "real":
        return "the real data"
    return "synthetic data of the same shape, not the real set"


#: A docstring of more than one paragraph, with its first.
LONG_DOCSTRING = re.compile(r'("""[^"]*?)\n\n[^"]*?"""')


@dataclass(frozen=True)
class SourceListing:
    """Functions of the package, as they are written."""

    text: str

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/markdown": f"```python\n{self.text}\n```", "text/plain": self.text}


@dataclass(frozen=True)
class NamedValues:
    """Named results of a notebook, shown as a table and kept in its metadata for tests."""

    values: dict[str, float]
    digits: int = 4

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        shown = key_value_table({name: self._format(value) for name, value in self.values.items()})
        return shown._repr_mimebundle_(), {"horizont": {"numbers": self.values}}

    def _format(self, value: float) -> str:
        whole = float(value).is_integer() and abs(value) < 1e15
        return f"{value:,.0f}" if whole else f"{value:,.{self.digits}g}"


@dataclass(frozen=True)
class Stack:
    """Several things of this package as one, the first on top."""

    outputs: tuple[Any, ...]

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        shown = [thing._repr_mimebundle_() for thing in self.outputs]
        bundles = [each[0] if isinstance(each, tuple) else each for each in shown]
        return {kind: "\n\n".join(b[kind] for b in bundles) for kind in ("text/html", "text/plain")}


def stack(*outputs: Any) -> Stack:
    """Show pictures and tables below each other where only one thing can be shown."""
    return Stack(outputs)


def source_listing(*functions: Callable[..., Any]) -> SourceListing:
    """Show functions of the package, which the tests hold against the frameworks.

    Of what they say about themselves the first sentence is shown.
    """
    texts = (inspect.getsource(function).rstrip() for function in functions)
    return SourceListing("\n\n\n".join(LONG_DOCSTRING.sub(r'\1"""', text) for text in texts))


def named_values(**values: float) -> NamedValues:
    """Show named numbers; a low line in a name becomes a space."""
    return NamedValues({name.replace("_", " "): float(value) for name, value in values.items()})


@dataclass(frozen=True)
class RelatedPages:
    """Where to read on: text and address of each page."""

    pages: tuple[tuple[str, str], ...]

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        if not self.pages:
            text = "This study measures nothing of it; another profile does."
            return {"text/html": f"<p>{text}</p>", "text/plain": text}
        rows = "".join(
            f'<li><a href="{html.escape(address)}">{html.escape(text)}</a></li>'
            for text, address in self.pages
        )
        return {
            "text/html": f'<ul class="hz-links">{rows}</ul>',
            "text/plain": "; ".join(text for text, _ in self.pages),
        }


def page_links(pages: Sequence[tuple[str, str]]) -> RelatedPages:
    """Link to pages."""
    return RelatedPages(tuple(pages))

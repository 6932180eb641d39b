"""Figures and tables by name: a decorated function, and one call on a page.

A figure is a function that returns a `Drawing`, made in the style of the book; its docstring is the
caption. Values of the drawing replace the fields in braces of caption and name. A table is a
function that returns a `TableOutput`, or a `Message` in its place. Called directly, the decorated
function returns what a notebook cell displays.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

import pandas as pd
from matplotlib.figure import Figure

from horizont.errors import UserError
from horizont.records.record import Record
from horizont.reporting.output import FigureOutput, TableOutput
from horizont.reporting.style import book_style, message_figure

Condition = Callable[[Sequence[Record]], bool]
#: The same on all pages, or by the records of a page.
Text = str | Callable[[Sequence[Record]], str]
P = ParamSpec("P")
Output = TypeVar("Output")

#: The modules that register figures and tables, besides those of `horizont.reporting.figures`.
_MODULES = (
    *("answer", "claims", "explanations", "frameworks", "overview"),
    *("reproduction", "setup_tables", "verdicts"),
)


@dataclass(frozen=True)
class Drawing:
    """A figure, the data that it was drawn from, and values for its name and caption."""

    figure: Figure
    data: pd.DataFrame
    values: Mapping[str, object] = field(default_factory=dict)
    reason: str = ""  # why there is nothing to draw


def no_drawing(reason: str) -> Drawing:
    """Return what stands for a figure that has nothing to show; a page only names it."""
    return Drawing(message_figure(reason), pd.DataFrame(), reason=reason)


@dataclass(frozen=True)
class Entry:
    """A registered figure or table; its title and text are above it in an optional section."""

    function: Callable[..., Any]
    title: str
    text: Text
    needs: Condition  # whether records have what it shows

    def text_on(self, records: Sequence[Record]) -> str:
        """Return the text above it on a page about some records."""
        return self.text if isinstance(self.text, str) else self.text(records)

    def __call__(self, available: Mapping[str, Any]) -> Any:
        """Call the function with those of the values that its parameters name."""
        parameters = inspect.signature(self.function).parameters
        return self.function(**{name: available[name] for name in parameters if name in available})


_ENTRIES: dict[str, Entry] = {}


def figure(
    name: str, *, title: str = "", text: Text = "", needs: Condition = bool
) -> Callable[[Callable[P, Drawing]], Callable[P, FigureOutput]]:
    """Register a figure."""

    def register(draw: Callable[P, Drawing]) -> Callable[P, FigureOutput]:
        caption = " ".join((draw.__doc__ or title).split())

        @wraps(draw)
        def output(*args: P.args, **kwargs: P.kwargs) -> FigureOutput:
            with book_style():
                drawing = draw(*args, **kwargs)
            fields = drawing.values
            if drawing.reason:
                sentence = f"Left out: {title or name}, because {drawing.reason}."
                return FigureOutput(drawing.figure, name, sentence, is_left_out=True)
            return FigureOutput(
                drawing.figure, name.format(**fields), caption.format(**fields), drawing.data
            )

        _register(name, Entry(output, title, text, needs))
        return output

    return register


def table(
    name: str, *, title: str = "", text: Text = "", needs: Condition = bool
) -> Callable[[Callable[P, Output]], Callable[P, Output]]:
    """Register a table, or several outputs in a `Stack`; the title is the table's caption."""

    def register(build: Callable[P, Output]) -> Callable[P, Output]:
        @wraps(build)
        def output(*args: P.args, **kwargs: P.kwargs) -> Output:
            built = build(*args, **kwargs)
            if isinstance(built, TableOutput) and title:
                return replace(built, title=title)
            return built

        _register(name, Entry(output, title, text, needs))
        return output

    return register


def _register(name: str, entry: Entry) -> None:
    new, known = entry.function, _ENTRIES.get(name, entry).function
    # A notebook cell that is run again defines the same function again.
    if (known.__module__, known.__qualname__) != (new.__module__, new.__qualname__):
        raise UserError("figure or table", name, "a name that is not taken")
    _ENTRIES[name] = entry


def find_entry(name: str) -> Entry:
    """Return the figure or table with a name; raise a `UserError` if there is none."""
    if name not in _ENTRIES:
        from horizont.reporting import figures

        modules = [f"figures.{module.name}" for module in pkgutil.iter_modules(figures.__path__)]
        for module in [*modules, *_MODULES]:
            import_module(f"horizont.reporting.{module}")
    if name not in _ENTRIES:
        raise UserError("figure or table", name, sorted(_ENTRIES))
    return _ENTRIES[name]


def has_capability(capability: str) -> Condition:
    """Return the condition that the launcher of some run had a capability."""
    return lambda records: any(record.has(capability) for record in records)

"""A sentence that is built from numbers, each of which leads to the records it rests on."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Number:
    """A measured number inside a sentence.

    Attributes
    ----------
    text
        The number as it is read, with its unit.
    records
        The names of the records that it rests on, at least one.

    Raises
    ------
    ValueError
        If it rests on nothing.
    """

    text: str
    records: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.records:
            raise ValueError(f"the number {self.text} rests on no record")

    @property
    def address(self) -> str:
        """The place on the page where its records are listed."""
        return "records-" + hashlib.sha256("\n".join(self.records).encode()).hexdigest()[:10]


@dataclass(frozen=True)
class Sentence:
    """One or more sentences of words and numbers.

    Shown in a notebook as a paragraph; a click on a number opens the list of its records. The
    metadata of the output hold the numbers with their records as data.

    Attributes
    ----------
    place
        The folder that the records are in.
    """

    pieces: tuple[str | Number, ...]
    place: str = "records"

    @property
    def numbers(self) -> list[Number]:
        """The numbers in their order."""
        return [piece for piece in self.pieces if isinstance(piece, Number)]

    @property
    def text(self) -> str:
        """The words as they are read."""
        return "".join(p.text if isinstance(p, Number) else p for p in self.pieces)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        words = "".join(_linked(p) if isinstance(p, Number) else _plain(p) for p in self.pieces)
        page = f'<p class="hz-sentence">{words}</p>{self._evidence()}'
        numbers = [{"text": each.text, "records": list(each.records)} for each in self.numbers]
        metadata = {"horizont": {"numbers": numbers, "place": self.place}}
        return {"text/html": page, "text/plain": self.text}, metadata

    def _evidence(self) -> str:
        """List the records, each set once, folded away."""
        sets = {number.address: number.records for number in self.numbers}
        if not sets:
            return ""
        count = len({name for names in sets.values() for name in names})
        said = f"{count} record{'s' if count > 1 else ''} in {self.place}"
        lists = "".join(_listed(address, names) for address, names in sets.items())
        return (
            f'<details class="hz-evidence"><summary>{html.escape(said)}</summary>{lists}</details>'
        )


def _linked(number: Number) -> str:
    names = html.escape("\n".join(number.records))
    link = f'<a class="hz-number" href="#{number.address}" title="{names}">'
    return f"{link}{_plain(number.text)}</a>"


def _plain(text: str) -> str:
    """Escape a text and keep numbers and their units on one line."""
    return (
        html.escape(text)
        .replace(" %", "\N{NO-BREAK SPACE}%")
        .replace(" ms", "\N{NO-BREAK SPACE}ms")
    )


def _listed(address: str, names: Sequence[str]) -> str:
    rows = "".join(f"<li><code>{html.escape(name)}</code></li>" for name in names)
    return f'<ul id="{address}">{rows}</ul>'

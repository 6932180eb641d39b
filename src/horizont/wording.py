"""Wording that messages, pages and the terminal have in common."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

#: Why the numbers of a run do not count.
DISTURBED = "disturbed by other programs or by a clock that was set"

#: Shorter texts are not compared with the beginnings of names.
_LEAST_BEGINNING = 4


def counted(number: int | str, noun: str) -> str:
    """Return a number of things: `1 worker`, `2 workers`, `3 processes`."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def suggestion(value: object, names: Iterable[str]) -> str:
    """Return a question about the name that is spelled nearly like the value, if there is one.

    Without one, the name that begins nearly like it.
    """
    text, names = str(value), list(names)
    found = get_close_matches(text, names, n=1)
    if not found and len(text) >= _LEAST_BEGINNING:
        beginnings = {name[: len(text)]: name for name in reversed(names)}
        close = get_close_matches(text, beginnings, n=1, cutoff=0.8)
        found = [beginnings[beginning] for beginning in close]
    return f" (did you mean {found[0]!r}?)" if found else ""


def shorten(reason: object) -> str:
    """Format a reason on one line; the record of the run has it in full."""
    return textwrap.shorten(str(reason), 110, placeholder=" …")


def in_yaml(value: object) -> str:
    """Return a value as it is written in a file of settings, with text in quotes."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {in_yaml(item)}' for key, item in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(in_yaml, value))}]"
    return repr(value)

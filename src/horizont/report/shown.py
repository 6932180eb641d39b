"""Source code beside what it computes, and the numbers that a notebook came to."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from horizont.report.tables import facts

#: A docstring of more than one paragraph, with its first.
LONG_SAYING = re.compile(r'("""[^"]*?)\n\n[^"]*?"""')


@dataclass(frozen=True)
class Source:
    """Functions of the package, as they are written."""

    text: str

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/markdown": f"```python\n{self.text}\n```", "text/plain": self.text}


@dataclass(frozen=True)
class Numbers:
    """Named results of a notebook, shown as a table and kept in its metadata for tests."""

    values: dict[str, float]
    digits: int = 4

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        shown = facts({name: self._written(value) for name, value in self.values.items()})
        return shown._repr_mimebundle_(), {"horizont": {"numbers": self.values}}

    def _written(self, value: float) -> str:
        whole = float(value).is_integer() and abs(value) < 1e15
        return f"{value:,.0f}" if whole else f"{value:,.{self.digits}g}"


@dataclass(frozen=True)
class Column:
    """Several things of this package as one, the first on top."""

    things: tuple[Any, ...]

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        shown = [thing._repr_mimebundle_() for thing in self.things]
        bundles = [each[0] if isinstance(each, tuple) else each for each in shown]
        return {kind: "\n\n".join(b[kind] for b in bundles) for kind in ("text/html", "text/plain")}


def column(*things: Any) -> Column:
    """Show pictures and tables below each other where only one thing can be shown."""
    return Column(things)


def source(*functions: Callable[..., Any]) -> Source:
    """Show functions of the package, which the tests hold against the frameworks.

    Of what they say about themselves the first sentence is shown.
    """
    texts = (inspect.getsource(function).rstrip() for function in functions)
    return Source("\n\n\n".join(LONG_SAYING.sub(r'\1"""', text) for text in texts))


def numbers(**values: float) -> Numbers:
    """Show named numbers; a low line in a name becomes a space."""
    return Numbers({name.replace("_", " "): float(value) for name, value in values.items()})

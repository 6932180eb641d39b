"""Links from a page to others of the book."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Links:
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


def links(pages: Sequence[tuple[str, str]]) -> Links:
    """Link to pages."""
    return Links(tuple(pages))

"""How long work tells what it is doing."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, float], None]  # what is being done; the share of it that is done, 0..1


def silent(_step: str, _share: float) -> None:
    """Tell nobody."""

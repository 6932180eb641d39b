"""Keeping the sampler small."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Refusal(MetaPathFinder):
    """Finds nothing under one name, and lets no other finder look."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == self._name:
            raise ModuleNotFoundError(f"{fullname} is kept out of this process", name=fullname)
        return None


def keep_out_pandas() -> None:
    """Make pandas look absent to this process.

    pyarrow imports it, if it is there, at the first list it is given: 0.2 s of processor time
    in the middle of the sampling and 50 MB, to find out whether the list is a pandas object.
    """
    sys.meta_path.insert(0, _Refusal("pandas"))

"""Keeping processes small that are measured, or that measure."""

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


def keep_out_what_reports_need() -> None:
    """Make pandas and Matplotlib look absent to this process.

    They are installed for the report, and are imported by others if they are there. pyarrow
    imports pandas at the first list it is given, in the middle of the sampling, to find out
    whether the list is a pandas object; Keras imports both, a third of TensorFlow's start-up and
    more than a hundred megabytes that have nothing to do with training.
    """
    for name in ("pandas", "matplotlib"):
        sys.meta_path.insert(0, _Refusal(name))

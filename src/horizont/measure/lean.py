"""Keeping processes small that are measured, or that measure."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

KEPT_OUT = frozenset({"pandas", "matplotlib"})


class _Selective(PathFinder):
    """Python's own finder, which finds all but what is kept out."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return None if fullname in KEPT_OUT else PathFinder.find_spec(fullname, path, target)


def keep_out_what_reports_need() -> None:
    """Make pandas and Matplotlib look absent to this process.

    They are installed for the report, and are imported by others if they are there. pyarrow
    imports pandas at the first list it is given, in the middle of the sampling, to find out
    whether the list is a pandas object; Keras imports both, a fifth of TensorFlow's start-up and
    fifty megabytes that have nothing to do with training.

    They are not found, rather than refused: some, like PyTorch's compiler, only ask.
    """
    sys.meta_path[:] = [_Selective if each is PathFinder else each for each in sys.meta_path]

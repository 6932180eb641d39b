"""Which line of code creates a layer.

Imported by the program of a side: it needs the standard library only.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
from collections.abc import Iterator
from typing import Any

#: The package of the recorders, one of which calls the function that creates the model.
_RECORDERS = "_recorders."

#: The attribute of a layer with the line that created it.
_CREATED_AT = "_horizont_created_at"


@contextlib.contextmanager
def recording_lines(base: type | None) -> Iterator[None]:
    """Record in each object of a class of layers the line that creates it.

    It is the innermost line that is neither in the framework nor in a constructor of the object. A
    copy of a layer has the line of its original.
    """
    if base is None:
        yield
        return
    package = sys.modules[base.__module__.partition(".")[0]].__file__ or ""
    framework = os.path.dirname(package) + os.sep  # other packages may begin with its name
    create = base.__init__  # type: ignore[misc]

    @functools.wraps(create)
    def recorded(self: Any, *args: Any, **kwargs: Any) -> None:
        vars(self).setdefault(_CREATED_AT, _calling_line(self, framework))
        create(self, *args, **kwargs)

    # A framework may read it without following `wraps` to the original.
    recorded.__signature__ = inspect.signature(create)  # type: ignore[attr-defined]
    base.__init__ = recorded  # type: ignore[misc]
    try:
        yield
    finally:
        base.__init__ = create  # type: ignore[misc]


def _calling_line(created: Any, framework: str) -> str:
    frame = sys._getframe(2)
    while frame and not frame.f_globals.get("__name__", "").startswith(_RECORDERS):
        name = frame.f_code.co_filename
        if not name.startswith((framework, "<")) and frame.f_locals.get("self") is not created:
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""


def code_of(layer: Any) -> str:
    """Return file and line that created a layer, or of its class; empty if none is known."""
    try:
        if line := vars(layer).get(_CREATED_AT, ""):
            return str(line)
        cls = type(layer)
        return f"{inspect.getsourcefile(cls)}:{inspect.getsourcelines(cls)[1]}"
    except (OSError, TypeError):
        return ""

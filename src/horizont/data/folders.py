"""Folders that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from horizont.errors import UserError


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """Give a temporary folder; move it to ``target`` if the block ends well, else remove it.

    An older ``target`` stays untouched until the new one is whole.

    Raises
    ------
    UserError
        If the place cannot be written, or the disk is full.
    """
    try:
        temporary = _sibling(target)
        try:
            yield temporary
            _move(temporary, target)
        finally:  # also on an interrupt; after the move there is nothing left to remove
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        allowed = "a place that can be written, with enough space"
        raise UserError(str(target), error.strerror or str(error), allowed) from error


def _sibling(target: Path) -> Path:
    """Make a folder beside the target: a move within one file system is one step."""
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    folder.chmod(0o755)  # mkdtemp makes it private, but it becomes the prepared set
    return folder


def _move(temporary: Path, target: Path) -> None:
    if not target.exists():
        temporary.rename(target)
        return
    aside = _sibling(target)
    try:
        target.rename(aside / "old")
        _move_or_restore(temporary, target, aside / "old")
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _move_or_restore(temporary: Path, target: Path, old: Path) -> None:
    try:
        temporary.rename(target)
    except BaseException:
        if not target.exists():
            os.rename(old, target)
        raise

"""Pages of files come and go as asked, and are counted."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from horizont.measure.memory import tree_bytes
from horizont.measure.pagecache import drop_pages, read_pages, resident_share


def test_pages_are_dropped(tmp_path: Path) -> None:
    path, empty = tmp_path / "content", tmp_path / "empty"
    path.write_bytes(os.urandom(2**22))
    empty.touch()
    assert resident_share([path, empty]) == 1.0
    drop_pages([path, empty])
    share = resident_share([path, empty])
    if share == 1.0:
        pytest.skip("this file system keeps its pages")
    assert share is not None
    assert share < 0.1
    read_pages([path, empty])
    assert resident_share([path]) == 1.0


def test_memory_of_this_process_is_seen() -> None:
    before = tree_bytes()
    held = bytearray(os.urandom(1)) * 2**26
    grown = tree_bytes() - before
    assert 0.9 * len(held) < grown < 1.5 * len(held)
    assert before < psutil.virtual_memory().total

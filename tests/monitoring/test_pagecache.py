"""Pages of files come and go as asked, and are counted."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from horizont.training.input import (
    evict_from_page_cache,
    load_into_page_cache,
    page_cache_fraction,
    process_tree_pss_bytes,
)


def test_pages_are_dropped(tmp_path: Path) -> None:
    path, empty = tmp_path / "content", tmp_path / "empty"
    path.write_bytes(os.urandom(2**22))
    empty.touch()
    assert page_cache_fraction([path, empty]) == 1.0
    evict_from_page_cache([path, empty])
    share = page_cache_fraction([path, empty])
    if share == 1.0:
        pytest.skip("this file system keeps its pages")
    assert share is not None
    assert share < 0.1
    load_into_page_cache([path, empty])
    assert page_cache_fraction([path]) == 1.0


def test_memory_of_this_process_is_seen() -> None:
    before = process_tree_pss_bytes()
    held = bytearray(os.urandom(1)) * 2**26
    grown = process_tree_pss_bytes() - before
    assert 0.9 * len(held) < grown < 1.5 * len(held)
    assert before < psutil.virtual_memory().total

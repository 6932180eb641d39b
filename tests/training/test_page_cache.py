"""Files are loaded into and evicted from the page cache; memory of a process tree."""

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


def test_pages_are_evicted_and_loaded(tmp_path: Path) -> None:
    path, empty = tmp_path / "content", tmp_path / "empty"
    path.write_bytes(os.urandom(2**22))
    empty.touch()
    assert page_cache_fraction([path, empty]) == 1.0
    evict_from_page_cache([path, empty])
    fraction = page_cache_fraction([path, empty])
    if fraction == 1.0:
        pytest.skip("this file system is in memory")
    assert fraction is not None
    assert fraction < 0.1
    load_into_page_cache([path, empty])
    assert page_cache_fraction([path]) == 1.0


def test_allocated_memory_is_measured() -> None:
    before = process_tree_pss_bytes()
    allocated = bytearray(os.urandom(1)) * 2**26
    growth = process_tree_pss_bytes() - before
    assert 0.9 * len(allocated) < growth < 1.5 * len(allocated)
    assert before < psutil.virtual_memory().total

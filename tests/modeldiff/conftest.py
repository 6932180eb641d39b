"""All tests of comparisons start their sides by warm interpreters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import use_interpreters


@pytest.fixture(scope="module", autouse=True)
def _warm_sides(warm_interpreters: dict[str, Path]) -> Iterator[None]:
    with use_interpreters(warm_interpreters):
        yield

"""All tests of comparisons start their sides by warm interpreters."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _warm_sides(warm: None) -> None: ...

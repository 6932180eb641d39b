"""Generated records for figures and tables."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "analysis"))

from record_maker import make_records

FAILED = "mxnet/async/parameter_server"


@pytest.fixture(scope="session")
def records(tmp_path_factory):
    return make_records(tmp_path_factory.mktemp("store"), blocks=3, failed=(FAILED,))


@pytest.fixture(scope="session")
def failed_records(tmp_path_factory):
    """An experiment without a successful run."""
    systems = ("tensorflow/local", "pytorch/local", "mxnet/local")
    return make_records(tmp_path_factory.mktemp("store"), "local", blocks=1, failed=systems)

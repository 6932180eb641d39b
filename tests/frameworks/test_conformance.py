"""One suite over all adapters and builds: each, in float64, does what NumPy does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from horizont.config.system import (
    DEFAULT,
    all_systems,
    has_compiler,
    installed_version,
    parse_system,
)

pytestmark = pytest.mark.framework

ROOT = Path(__file__).parents[2]
PATH = os.pathsep.join([str(ROOT / "src"), str(ROOT)])


ALONE = [name for name in all_systems() if "/local" in name]


@pytest.fixture(scope="module", params=ALONE)
def told(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    system = parse_system(request.param)
    if installed_version(system.framework) is None:
        pytest.skip(f"{system.framework} is not installed")
    if system.variant_info.needs_compiler and not has_compiler():
        pytest.skip("no C++ compiler is here")
    done = subprocess.run(
        [sys.executable, "-m", "tests.frameworks.conformance", system.framework, system.variant],
        # A folder of its own: what is compiled is left there.
        cwd=tmp_path_factory.mktemp("alone"), env={**os.environ, "PYTHONPATH": PATH},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def test_weights_come_back_as_they_went_in(told: dict[str, Any]) -> None:
    assert told["round_trip"] == 0
    assert told["unmoved"] == 0, "a probe must not learn"


def test_scores_and_loss_are_numpys(told: dict[str, Any]) -> None:
    assert told["logits"] < 1e-12
    assert told["predict"] < 1e-12
    assert told["loss"] < 1e-12


def test_windows_over_the_edge_see_nothing_there(told: dict[str, Any]) -> None:
    if "padded" not in told:
        pytest.skip("compiled code is tried on one network alone, for it takes long")
    assert told["padded"] < 1e-12


def test_the_gradient_is_the_slope_of_the_loss(told: dict[str, Any]) -> None:
    assert told["slope"] < 1e-6  # a difference quotient of that step is no better


def test_a_step_is_gradient_descent(told: dict[str, Any]) -> None:
    assert told["update"] < 1e-14


def test_an_instrumented_step_is_the_same_step(told: dict[str, Any]) -> None:
    assert told["timed"] < 1e-14
    assert told["losses"] < 1e-14
    assert told["marks"] == ["forward", "backward", "update"]


def test_an_uneven_last_batch_is_trained_on(told: dict[str, Any]) -> None:
    assert told["sizes"] == [6, 6, 6, 3]

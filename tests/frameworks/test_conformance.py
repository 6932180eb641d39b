"""The conformance suite: every adapter and variant computes in float64 what NumPy computes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import cases

from horizont.config.system import (
    all_systems,
    framework_python,
    has_compiler,
    installed_version,
    parse_system,
)

pytestmark = pytest.mark.framework

ROOT = Path(__file__).parents[2]
PATH = os.pathsep.join([str(ROOT / "src"), str(ROOT)])


LOCAL_SYSTEMS = [
    name for name in all_systems() if "/local" in name and "cpu" in parse_system(name).devices
]

#: The plain build of each framework.
BUILDS = [name for name in LOCAL_SYSTEMS if "+" not in name]


@pytest.fixture(scope="module", params=cases(LOCAL_SYSTEMS, *BUILDS))
def results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    system = parse_system(request.param)
    if installed_version(system.framework) is None:
        pytest.skip(f"{system.framework} is not installed")
    if system.variant_info.needs_compiler and not has_compiler():
        pytest.skip("no C++ compiler is installed")
    done = subprocess.run(
        [framework_python(system.framework), "-m", "tests.frameworks.conformance",
         system.framework, system.variant],
        # Compiled code is written to the working directory.
        cwd=tmp_path_factory.mktemp("alone"), env={**os.environ, "PYTHONPATH": PATH},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def test_weights_are_read_as_they_were_set(results: dict[str, Any]) -> None:
    assert results["round_trip"] == 0
    assert results["unmoved"] == 0, "forward_backward must not update"


def test_scores_and_loss_match_numpy(results: dict[str, Any]) -> None:
    assert results["logits"] < 1e-12
    assert results["predict"] < 1e-12
    assert results["loss"] < 1e-12


def test_pooling_ignores_the_padding(results: dict[str, Any]) -> None:
    if "padded" not in results:
        pytest.skip("compiling a second network takes too long")
    assert results["padded"] < 1e-12


def test_the_gradient_matches_a_difference_quotient(results: dict[str, Any]) -> None:
    assert results["slope"] < 1e-6  # the accuracy of a difference quotient with that step


def test_a_step_is_gradient_descent(results: dict[str, Any]) -> None:
    assert results["update"] < 1e-14


def test_an_instrumented_step_is_the_same_step(results: dict[str, Any]) -> None:
    assert results["timed"] < 1e-14
    assert results["losses"] < 1e-14
    assert results["marks"] == ["forward", "backward", "update"]


def test_a_smaller_last_batch_is_trained_on(results: dict[str, Any]) -> None:
    assert results["sizes"] == [6, 6, 6, 3]

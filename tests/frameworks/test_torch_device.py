"""What can be tested of training on a GPU without one; see `tests.frameworks.torch_device`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.conftest import run_in_framework

from horizont.config.system import installed_version

pytestmark = pytest.mark.framework


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if installed_version("pytorch") is None:
        pytest.skip("pytorch is not installed")
    folder = tmp_path_factory.mktemp("device")
    printed = run_in_framework("pytorch", "-m", "tests.frameworks.torch_device", folder)
    return dict(json.loads(printed.splitlines()[-1]))


@pytest.mark.parametrize("network", ["lenet5", "resnet18", "text"])
def test_all_tensors_are_on_the_device(results: dict[str, Any], network: str) -> None:
    assert set(results["placement"][network]) == {"meta"}


def test_queued_steps_train_as_those_of_a_cpu(results: dict[str, Any]) -> None:
    assert results["queued"]["losses"] == 0
    assert results["queued"]["weights"] == 0


def test_phases_are_consecutive_and_add_up_to_the_step(results: dict[str, Any]) -> None:
    queued = results["queued"]
    assert queued["marks"] == ["load", "forward", "backward", "update"]
    assert queued["in_order"]
    assert queued["smallest_phase_s"] >= 0
    assert queued["rest_s"] < 1e-9
    assert queued["gap_s"] < 1e-9, "a step begins where the previous one has ended"


def test_a_kernel_has_the_class_and_the_phase_of_its_operator(results: dict[str, Any]) -> None:
    found = {tuple(call) for call in results["classes"]}
    assert found == {
        ("kernel of aten::convolution", "convolution", "forward"),
        ("kernel of aten::convolution_backward", "convolution backward", "backward"),
        ("kernel of aten::add_", "weight update", "update"),
        # Without an operator; the annotation of a range is no kernel.
        ("Memset (Device)", "other", "update"),
    }


def test_float32_is_rounded_to_tf32_in_its_variant_only(results: dict[str, Any]) -> None:
    assert results["precision"] == {
        "default": [False, False, "highest"],
        "tf32": [True, True, "high"],
        "channels_last": [False, False, "highest"],
    }

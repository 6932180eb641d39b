"""Training on real GPUs; each test is skipped, with the reason, where there is none."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import run_in_framework, small_run

from horizont.config.system import (
    all_systems,
    framework_devices,
    installed_version,
    parse_system,
)
from horizont.launchers.execute import RunPaths, execute
from horizont.records.record import Record
from horizont.records.schema import OPERATOR_CLASSES
from horizont.workflow.check import skip_reason

pytestmark = [pytest.mark.framework, pytest.mark.usefixtures("nothing_left")]

SYSTEMS = [name for name in all_systems() if "cuda" in parse_system(name).devices]
STEPS = {"warmup": 3, "timed": 10, "instrumented": 10}


def execute_on_gpu(system: str, store: Path, dataset: Path, **changes: Any) -> Record:
    """Execute a small run on GPUs; skip the test if it cannot be executed."""
    workers = 1 if "local" in system else 2
    topology = {"workers": workers, "device": "cuda"}
    values = {"topology": topology, "steps": STEPS, "sampler_hz": 10, **changes}
    run = small_run(system, **values)
    if reason := skip_reason(run):
        pytest.skip(reason)
    record = execute(run, "gpu", RunPaths(store, dataset, {}), lambda done, planned: None)
    assert record.ok, record.result.reason
    return record


@pytest.mark.parametrize("system", [name for name in SYSTEMS if "/local" in name])
def test_a_gpu_computes_in_float64_what_numpy_computes(system: str) -> None:
    parsed = parse_system(system)
    framework = parsed.framework
    if installed_version(framework) is None:
        pytest.skip(f"{framework} is not installed")
    if not framework_devices(framework).names:
        pytest.skip(f"{framework}: no CUDA device in its environment")
    words = ("-m", "tests.frameworks.conformance", framework, parsed.variant, "cuda")
    results = json.loads(run_in_framework(framework, *words, timeout_s=600).splitlines()[-1])
    for name in ("logits", "predict", "loss", "update", "timed", "losses"):
        assert results[name] < 1e-12, name
    assert results["round_trip"] == results["unmoved"] == 0
    assert results["slope"] < 1e-6
    assert results["marks"] == ["forward", "backward", "update"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_device_times_all_phases(system: str, tmp_path: Path, small_cifar: Path) -> None:
    record = execute_on_gpu(system, tmp_path, small_cifar)
    steps = record.steps().to_pandas()
    instrumented = steps[steps["kind"] == "instrumented"]
    phases = instrumented[[f"{phase}_s" for phase in record.run.system.info.phases]]
    assert phases.notna().all(axis=None)
    assert (phases >= 0).all(axis=None)
    rest_s = instrumented["step_s"] - phases.sum(axis=1)
    assert (rest_s > -1e-6).all()
    assert rest_s.median() < 0.1 * instrumented["step_s"].median(), "memory is released at the end"
    assert steps["loss"].notna().all()


def test_a_gpu_is_sampled(tmp_path: Path, small_cifar: Path) -> None:
    if find_spec("pynvml") is None:
        pytest.skip("nvidia-ml-py is not installed")
    system = next(name for name in SYSTEMS if "/local" in name)
    record = execute_on_gpu(system, tmp_path, small_cifar, steps={"warmup": 3, "timed": 3000})
    samples = record.samples().to_pandas()
    rows = samples[samples["scope"] == "device"]
    assert set(rows["name"]) == {"worker-0"}
    assert rows["device_memory_bytes"].max() > 1 << 20
    assert rows["device_busy"].between(0, 1).all()


@pytest.mark.parametrize("system", ["pytorch/local", "jax/local"])
def test_kernels_are_classified(system: str, tmp_path: Path, small_cifar: Path) -> None:
    steps = {"warmup": 3, "timed": 3, "profiled": 3}
    record = execute_on_gpu(system, tmp_path, small_cifar, steps=steps)
    table = record.operators()
    assert table is not None
    frame = table.to_pandas()
    assert set(frame["operator_class"]) <= set(OPERATOR_CLASSES)
    sums = frame.groupby("operator_class")["self_s"].sum()
    for name in ("convolution", "convolution backward", "weight update", "loss"):
        assert sums[name] > 0
    assert sums.get("other", 0.0) < 0.05 * sums.sum()

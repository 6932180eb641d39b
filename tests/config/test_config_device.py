"""The device of a run: which systems have one, who gets which GPU, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.conftest import small_run

from horizont.config.experiment import Experiment
from horizont.config.interpreters import CudaDevices, query_devices, visible_device
from horizont.config.system import (
    FRAMEWORKS,
    framework_devices,
    framework_info,
    installed_version,
    parse_trainer_name,
    trainer_name,
)
from horizont.config.topology import Topology
from horizont.errors import UserError
from horizont.launchers.base import check_run
from horizont.records.provenance import run_key
from horizont.workflow.check import skip_reason
from horizont.workflow.provenance import run_files

CUDA = {"device": "cuda"}


def on_cuda(system: str, **topology: Any) -> Any:
    workers = 1 if "local" in system else 2
    servers = 1 if "parameter_server" in system else 0
    return small_run(system, topology={"workers": workers, "servers": servers, **CUDA, **topology})


@pytest.mark.parametrize(
    ("system", "allowed"),
    [
        ("mxnet/local", "cpu for mxnet/local"),
        ("tensorflow/sync/allreduce", "cpu for tensorflow/sync/allreduce"),
        ("pytorch/sync/parameter_server", "cpu for pytorch/sync/parameter_server"),
        ("pytorch/async/parameter_server", "cpu for pytorch/async/parameter_server"),
    ],
)
def test_a_system_without_a_device_is_refused(system: str, allowed: str) -> None:
    with pytest.raises(ValidationError, match=f"device.*{allowed}"):
        on_cuda(system)
    assert small_run(system).topology.device == "cpu"


def test_an_experiment_with_such_a_system_is_refused_before_anything_starts() -> None:
    values = {
        "kind": "training", "workloads": ["lenet5-cifar10"], "global_batch": 16,
        "steps": {"warmup": 1, "timed": 1}, "topology": CUDA,
    }  # fmt: skip
    assert Experiment.model_validate({**values, "systems": ["pytorch/local"]})
    with pytest.raises(ValidationError, match="cpu for mxnet/local"):
        Experiment.model_validate({**values, "systems": ["pytorch/local", "mxnet/local"]})


def test_a_variant_of_the_gpu_is_refused_on_the_cpu() -> None:
    assert on_cuda("pytorch/local+tf32").system.variant == "tf32"
    with pytest.raises(ValidationError, match=r"device.*cuda for pytorch/local\+tf32"):
        small_run("pytorch/local+tf32")


def test_emulated_hosts_have_no_device() -> None:
    run = on_cuda("pytorch/sync/allreduce", launcher="emulated")
    with pytest.raises(UserError, match=r"topology\.device.*local"):
        check_run(run)
    check_run(on_cuda("pytorch/sync/allreduce"))


def test_frameworks_with_a_device_can_be_asked_for_it() -> None:
    for name in FRAMEWORKS:
        info = framework_info(name)
        has_device = any("cuda" in system.devices for system in info.systems.values())
        assert bool(info.device_query) == has_device, name


def test_the_devices_are_those_that_the_interpreter_prints(tmp_path: Path) -> None:
    answer = json.dumps({"names": ["NVIDIA H200"], "cuda": "13.0"})
    warning = "print('a warning of a library')"
    program = f"{warning}\nimport os\nassert os.environ['CUDA_DEVICE_ORDER']\nprint('{answer}')"
    devices = CudaDevices(names=("NVIDIA H200",), cuda="13.0")
    assert query_devices(sys.executable, program) == devices
    none = CudaDevices()
    assert query_devices("/no/such/python", program) == none
    assert query_devices(sys.executable, "raise SystemExit(1)") == none
    assert query_devices(sys.executable, "pass") == none
    assert query_devices(sys.executable, "print('[]')") == none


def test_a_framework_without_a_query_has_no_device() -> None:
    assert framework_devices("mxnet") == CudaDevices()


@pytest.mark.framework
def test_a_build_for_cpus_finds_no_device() -> None:
    if installed_version("pytorch") is None:
        pytest.skip("pytorch is not installed")
    found = framework_devices("pytorch")
    has_driver = Path("/proc/driver/nvidia/version").exists()
    assert bool(found.names) <= has_driver
    if not found.names:
        reason = "pytorch: no CUDA device in its environment"
        assert skip_reason(on_cuda("pytorch/local")) == reason


def test_a_run_needs_a_gpu_for_each_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    program = 'print(\'{"names": ["one", "other"], "cuda": "13.0"}\')'
    info = framework_info("pytorch").model_copy(
        update={"device_query": program, "python": sys.executable, "distributions": ("numpy",)}
    )
    monkeypatch.setattr("horizont.frameworks.torch.info.INFO", info)
    assert skip_reason(on_cuda("pytorch/sync/allreduce", workers=2)) == ""
    run = small_run("pytorch/sync/allreduce", topology={"workers": 4, **CUDA})
    expected = "pytorch: 4 workers, but 2 CUDA devices in its environment"
    assert skip_reason(run) == expected
    assert skip_reason(small_run("pytorch/sync/allreduce", topology={"workers": 4})) == ""


def test_workers_get_the_devices_that_the_launcher_may_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert [visible_device(rank) for rank in range(2)] == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-5c1f")
    assert [visible_device(rank) for rank in range(2)] == ["3", "GPU-5c1f"]


def test_a_key_depends_on_the_device() -> None:
    run = small_run("pytorch/local")
    assert run_key(run, {}) != run_key(on_cuda("pytorch/local"), {})
    assert Topology.model_validate({"device": "cpu"}) == Topology()


def test_the_code_of_a_gpu_counts_for_a_run_on_one_only() -> None:
    def code_of(device: str) -> set[str]:
        run = small_run("pytorch/local", topology={"device": device}, sampler_hz=5)
        return {"/".join(path.parts[-2:]) for path in run_files(run)}

    assert code_of("cuda") - code_of("cpu") == {"monitoring/gpu.py", "torch/cuda.py"}


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("pytorch", ("pytorch", "default", "cpu")),
        ("pytorch+compiled", ("pytorch", "compiled", "cpu")),
        ("pytorch+cuda", ("pytorch", "default", "cuda")),
        ("pytorch+tf32+cuda", ("pytorch", "tf32", "cuda")),
    ],
)
def test_a_certificate_names_the_device(name: str, parts: tuple[str, str, Any]) -> None:
    assert trainer_name(*parts) == name
    assert parse_trainer_name(name) == parts


def test_a_run_on_a_device_needs_a_certificate_of_it() -> None:
    assert small_run("pytorch/local").trainer_name == "pytorch"
    assert on_cuda("pytorch/local").trainer_name == "pytorch+cuda"
    assert on_cuda("pytorch/local+tf32").trainer_name == "pytorch+tf32+cuda"


def test_the_cpu_asks_for_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*command: object, **options: object) -> None:
        raise AssertionError(command)

    run = small_run("pytorch/local")
    skip_reason(run)  # its interpreter is queried once
    monkeypatch.setattr(subprocess, "run", refuse)
    skip_reason(run)

"""Memory and load of GPUs among the samples; NVML itself is needed for the last test only."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest

from horizont.config.interpreters import CudaDevices
from horizont.monitoring.client import start_sampler
from horizont.monitoring.environment import describe_devices
from horizont.monitoring.gpu import GpuCounters, GpuUnavailableError
from horizont.monitoring.samples import DEVICE_COLUMNS, DEVICE_SCHEMA, SCHEMA, read_samples

QUICK = {"scan_interval_s": 0.05, "flush_interval_s": 0.05}

#: NVML's functions with the signatures of nvidia-ml-py, for a machine with two GPUs, of which the
#: second one does not report its load.
NVML = """
from collections import namedtuple

class NVMLError(Exception):
    pass

def nvmlInit():
    pass

def nvmlDeviceGetHandleByIndex(index):
    if index != 1:
        raise NVMLError("Invalid Argument")
    return "second"

def nvmlDeviceGetHandleByUUID(uuid):
    return {"GPU-5c1f": "first"}[uuid]

def nvmlDeviceGetMemoryInfo(handle):
    used = {"first": 3 << 30, "second": 5 << 30}[handle]
    return namedtuple("Memory", "total free used")(8 << 30, 0, used)

def nvmlDeviceGetUtilizationRates(handle):
    if handle == "second":
        raise NVMLError("Not Supported")
    return namedtuple("Rates", "gpu memory")(87, 12)
"""


@pytest.fixture
def nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pynvml.py").write_text(NVML)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def sample_devices(folder: Path, until, *devices: tuple[str, str]) -> tuple[pd.DataFrame, dict]:
    folder.mkdir()
    with start_sampler(folder, 0.02, **QUICK, device="cuda") as sampler:
        for name, device in devices:
            sampler.add_device(name, device)
        first = read_samples(folder)["sample"].to_numpy().max(initial=0)
        until(lambda: read_samples(folder)["sample"].to_numpy().max(initial=0) > first + 10)
        report = sampler.stop().report
    return read_samples(folder).to_pandas(), report


def test_only_the_table_of_a_run_on_a_gpu_has_columns_for_it(tmp_path, until) -> None:
    with start_sampler(tmp_path, 0.02, **QUICK) as sampler:
        until(lambda: read_samples(tmp_path).num_rows > 0)
        report = sampler.stop().report
    assert read_samples(tmp_path).schema == SCHEMA
    assert "device_problem" not in report
    assert set(DEVICE_SCHEMA.names) - set(SCHEMA.names) == set(DEVICE_COLUMNS)


def test_each_gpu_is_a_row_with_the_name_of_its_worker(tmp_path, until, nvml) -> None:
    devices = ("worker-0", "GPU-5c1f"), ("worker-1", "1")
    samples, report = sample_devices(tmp_path / "run", until, *devices)
    assert list(samples.columns) == DEVICE_SCHEMA.names
    rows = samples[samples["scope"] == "device"].groupby("name")
    first, second = rows.get_group("worker-0"), rows.get_group("worker-1")
    assert set(first["device_memory_bytes"]) == {3 << 30}
    assert set(first["device_busy"]) == {0.87}
    assert set(second["device_memory_bytes"]) == {5 << 30}
    assert second["device_busy"].isna().all(), "what was not measured is empty"
    assert samples[samples["scope"] != "device"][list(DEVICE_COLUMNS)].isna().all(axis=None)
    assert "device_problem" not in report


def test_a_device_that_nvml_does_not_know_is_named(tmp_path, until, nvml) -> None:
    samples, report = sample_devices(tmp_path / "run", until, ("worker-0", "7"))
    assert not (samples["scope"] == "device").any()
    assert report["device_problem"] == "GPU 7 is not sampled: Invalid Argument"


@pytest.mark.skipif(find_spec("pynvml") is not None, reason="nvidia-ml-py is installed")
def test_without_nvml_a_sentence_says_so_and_the_rest_is_sampled(tmp_path, until) -> None:
    samples, report = sample_devices(tmp_path / "run", until, ("worker-0", "0"))
    assert (samples["scope"] == "host").any()
    assert report["device_problem"] == (
        "nvidia-ml-py is not installed, so memory and load of the GPU are not sampled"
    )


@pytest.mark.parametrize(
    ("text", "driver"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 2024\n"
         "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n", "550.54.15"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build\n",
         "580.82.07"),
        ("", None),
    ],
)  # fmt: skip
def test_the_version_of_the_driver_is_read(tmp_path, monkeypatch, text, driver) -> None:
    file = tmp_path / "version"
    file.write_text(text)
    monkeypatch.setattr("horizont.monitoring.environment.DRIVER_FILE", str(file))
    facts = describe_devices(CudaDevices(names=("NVIDIA H200",), cuda="13.0"))
    assert facts == {"names": ["NVIDIA H200"], "cuda": "13.0", "driver": driver}


def test_a_real_gpu_reports_its_memory(tmp_path, until) -> None:
    try:
        counters = GpuCounters()
    except GpuUnavailableError as reason:
        pytest.skip(str(reason))
    counters.add("worker-0", "0")
    memory_bytes = counters.usage()["worker-0"].device_memory_bytes
    assert memory_bytes is not None
    assert memory_bytes > 0
    samples, report = sample_devices(tmp_path / "run", until, ("worker-0", "0"))
    rows = samples[samples["scope"] == "device"]
    assert (rows["device_memory_bytes"] > 0).all()
    assert "device_problem" not in report

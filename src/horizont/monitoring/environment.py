"""Facts about the machine that affect its speed; none that identifies it or its owner."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from horizont.config.interpreters import COMMON_PACKAGES, CudaDevices

#: The version of the driver, with its build, as its kernel module prints it.
DRIVER_FILE = "/proc/driver/nvidia/version"


def describe_environment(
    python: str | None = None, packages: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the facts for ``environment.json``, as plain values.

    Host names, user names and paths are omitted, because records are shared. None stands for what
    this machine does not report.

    Parameters
    ----------
    python, packages
        Versions in the environment of the training processes; by default those of this process.
    """
    flags = _cpuinfo_field("flags")
    return {
        "cpu": describe_cpu(),
        "memory_bytes": psutil.virtual_memory().total,
        "memory_available_bytes": psutil.virtual_memory().available,
        "swap_bytes": psutil.swap_memory().total,
        "system": platform.system(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()).strip() or None,
        "python": python or platform.python_version(),
        "python_implementation": sys.implementation.name,
        "packages": _installed_versions() if packages is None else dict(packages),
        "load_average": list(psutil.getloadavg()),
        "virtualised": None if flags is None else "hypervisor" in flags.split(),
    }


def describe_cpu() -> dict[str, Any]:
    """Return model, counts, frequency limits in MHz, governor, affinity and quota."""
    frequency = psutil.cpu_freq()
    flags = (_cpuinfo_field("flags") or "").split()
    return {
        "model": _cpuinfo_field("model name"),
        # Virtual machines on unlike processors may report the same name.
        "revision": _cpu_revision(),
        "physical_cores": psutil.cpu_count(logical=False),
        "logical_cores": psutil.cpu_count(),
        "affinity": sorted(os.sched_getaffinity(0)),
        "quota_cores": _cpu_quota_cores(),
        "max_mhz": (frequency.max or None) if frequency else None,
        "governor": _read_text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        # The vector instruction sets, by which the frameworks select their kernels.
        "features": [flag for flag in flags if flag.startswith(("avx", "amx", "fma", "sse4"))],
    }


@cache  # the machine of a running process does not change
def machine_type() -> str:
    """Return what decides the speed of this machine, in one line: runs of two are never mixed.

    Processor with its vector instructions, usable cores, memory and kernel.
    """
    cpu = describe_cpu()
    parts = (
        f"{cpu['model']}, {cpu['revision']}",
        " ".join(sorted(cpu["features"])),
        f"{len(cpu['affinity'])} cores",
        f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        f"{platform.system()} {platform.release()}",
    )
    return "; ".join(parts)


def describe_devices(devices: CudaDevices) -> dict[str, Any]:
    """Return the GPUs and the versions of CUDA and of the driver, by which they compute."""
    driver = re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)", _read_text(DRIVER_FILE) or "")
    return {
        "names": list(devices.names),
        "cuda": devices.cuda,
        "driver": driver[1] if driver else None,
    }


def _installed_versions() -> dict[str, str]:
    """Return the versions of the packages below every framework, without importing them."""
    versions = {}
    for package in COMMON_PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions


def _cpu_quota_cores() -> float | None:
    """Return the CPU quota of this process's control group in CPUs; None if it is unlimited.

    Reads the file of cgroup version 2, or those of version 1, of the innermost visible group.
    """
    text = _read_text("/sys/fs/cgroup/cpu.max")
    if text is None:
        parts = [
            _read_text(f"/sys/fs/cgroup/cpu/cpu.cfs_{part}_us") for part in ("quota", "period")
        ]
        text = " ".join(part or "max" for part in parts)
    quota, _, period = text.partition(" ")
    return float(quota) / float(period) if quota.isdigit() and period.isdigit() else None


def _cpu_revision() -> str | None:
    fields = {"family": "cpu family", "model": "model", "stepping": "stepping"}
    values = {name: _cpuinfo_field(field) for name, field in fields.items()}
    return ", ".join(f"{name} {value}" for name, value in values.items() if value) or None


def _cpuinfo_field(key: str) -> str | None:
    for line in (_read_text("/proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return None


def _read_text(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return None

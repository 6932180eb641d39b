"""Memory and load of GPUs by NVML, through the optional package nvidia-ml-py.

The sampler imports this module only for a run on a GPU.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

#: The module of the package nvidia-ml-py.
_MODULE = "pynvml"


class GpuUnavailableError(RuntimeError):
    """NVML, or one of its devices, is unavailable; the message is a sentence for the report."""


class GpuUsage(NamedTuple):
    """Memory and load of a GPU; see `horizont.monitoring.samples.Sample`."""

    device_memory_bytes: int | None
    device_busy: float | None


def unavailable_reason() -> str:
    """Return why no GPU can be sampled; empty if NVML is installed."""
    if find_spec(_MODULE) is None:
        return "nvidia-ml-py is not installed, so memory and load of the GPU are not sampled"
    return ""


class GpuCounters:
    """The GPUs of a run, by the name of the worker that each belongs to.

    Without NVML, or a driver that it finds, the error is a `GpuUnavailableError`.
    """

    def __init__(self) -> None:
        if reason := unavailable_reason():
            raise GpuUnavailableError(reason)
        self._nvml: Any = import_module(_MODULE)
        self._handles: dict[str, Any] = {}
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            raise GpuUnavailableError(f"the GPU is not sampled: {error}") from None

    def add(self, name: str, device: str) -> None:
        """Add a GPU, an entry of ``CUDA_VISIBLE_DEVICES``: a number by PCI bus, or a UUID.

        If NVML has no such device, the error is a `GpuUnavailableError`.
        """
        nvml = self._nvml
        try:
            self._handles[name] = (
                nvml.nvmlDeviceGetHandleByIndex(int(device))
                if device.isdigit()
                else nvml.nvmlDeviceGetHandleByUUID(device)
            )
        except nvml.NVMLError as error:
            raise GpuUnavailableError(f"GPU {device} is not sampled: {error}") from None

    def usage(self) -> dict[str, GpuUsage]:
        """Read all GPUs; a value that one does not report is None."""
        return {name: self._usage(handle) for name, handle in self._handles.items()}

    def _usage(self, handle: Any) -> GpuUsage:
        memory_bytes = busy = None
        with suppress(self._nvml.NVMLError):
            memory_bytes = int(self._nvml.nvmlDeviceGetMemoryInfo(handle).used)
        with suppress(self._nvml.NVMLError):
            busy = self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
        return GpuUsage(memory_bytes, busy)

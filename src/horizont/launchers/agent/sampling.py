"""The sampler of a host, for as long as a run is sampled."""

from __future__ import annotations

from pathlib import Path

from horizont.launchers.process import ProcessGroup
from horizont.monitoring.client import SamplerClient, SamplerResult, start_sampler


class HostSampling:
    """The sampler of a host, if there is one."""

    def __init__(self) -> None:
        self._client: SamplerClient | None = None

    def start(self, folder: Path, interval_s: float, device: str) -> None:
        """Start a sampler without waiting for its first sample."""
        self._client = start_sampler(folder, interval_s, ready_timeout_s=0, device=device)

    def add(self, process: ProcessGroup) -> None:
        """Sample a process, if the host is sampled."""
        if self._client is not None:
            process.attach_sampler(self._client)

    def stop(self) -> SamplerResult:
        """Stop the sampler and return its result."""
        if self._client is None:
            return SamplerResult(None, "the host was not sampled", {})
        client, self._client = self._client, None
        return client.stop()

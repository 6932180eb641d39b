"""The samplers of all hosts as one: started together, their tables merged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from horizont.errors import HostLost, UserError
from horizont.launchers.agent.clock import ClockOffset, shift_columns
from horizont.launchers.agent.connections import AgentConnection
from horizont.monitoring.client import SamplerResult
from horizont.monitoring.samples import FORMAT, SampleFiles
from horizont.records.files import read_table, write_json, write_table

#: Folder of a host's samples, below that of the session; each host has one of its own.
SAMPLES_FOLDER = "samples"


class HostSamplers:
    """A sampler on each host; the merged table has the hosts' names and the launcher's time."""

    def __init__(
        self,
        agents: Mapping[str, AgentConnection],
        offsets: Mapping[str, ClockOffset],
        folder: Path,
    ) -> None:
        self._agents = agents
        self._offsets = offsets
        self._files = SampleFiles(folder)
        self._result: SamplerResult | None = None

    def start(self, interval_s: float, device: str) -> None:
        """Start the samplers."""
        for host, agent in self._agents.items():
            folder = f"{SAMPLES_FOLDER}/{host}"
            agent.request("sample", folder=folder, interval_s=interval_s, device=device)

    def wait_ready(self, timeout_s: float) -> bool:
        """Return at once: an agent is not asked again and again while its host trains."""
        del timeout_s
        return True

    def stop(self) -> SamplerResult:
        """Stop the samplers and merge their tables; the same result when called again."""
        if self._result is None:
            self._result = self._collect()
        return self._result

    def _collect(self) -> SamplerResult:
        tables: list[pa.Table] = []
        reasons: list[str] = []
        reports: dict[str, Any] = {}
        for host in self._agents:
            try:
                table, reason, reports[host] = self._collect_from(host)
            except (HostLost, UserError) as error:
                reasons.append(f"{host}: {error}")
                continue
            tables += [] if table is None else [table]
            reasons += [f"{host}: {reason}"] if reason else []
        reason = "; ".join(reasons)
        report = {
            "format": FORMAT,
            "ended": reason,
            "rows": sum(map(len, tables)),
            "hosts": reports,
        }
        write_json(self._files.report, report)
        if tables:
            write_table(self._files.table, pa.concat_tables(tables).sort_by("time_s"))
        return SamplerResult(self._files.table if tables else None, reason, report)

    def _collect_from(self, host: str) -> tuple[pa.Table | None, str, dict[str, Any]]:
        """Stop the sampler of a host; return its table, why it ended and its report."""
        path = self._files.folder / f".{host}.samples"
        reply: dict[str, Any] = {}
        try:
            with path.open("wb") as file:
                for message, body in self._agents[host].exchange("samples"):
                    file.write(body)
                    reply = message
            table = read_table(path) if path.stat().st_size else None
        finally:
            path.unlink(missing_ok=True)
        if table is not None:
            names = pa.array([host] * len(table), pa.string())
            table = table.set_column(table.column_names.index("host"), "host", names)
            table = shift_columns(table, ("time_s",), self._offsets[host].monotonic_s)
        return table, str(reply["reason"]), dict(reply["report"])

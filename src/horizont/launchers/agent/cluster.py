"""Hosts that are served by agents: no file system, no clock and no CPU is shared with them."""

from __future__ import annotations

import contextlib
import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from horizont.config.jobs import WorkerJob
from horizont.config.topology import Capability, Topology
from horizont.errors import HostLost
from horizont.launchers.agent.clock import (
    MAX_DRIFT_S,
    ClockOffset,
    drift_s,
    measure_offset,
)
from horizont.launchers.agent.connections import AgentConnection
from horizont.launchers.agent.facts import differing_facts
from horizont.launchers.agent.files import chunks, file_digest, files_below
from horizont.launchers.agent.host_samplers import HostSamplers
from horizont.launchers.agent.remote_process import RemoteProcess
from horizont.launchers.agent.session import Session
from horizont.launchers.base import Cluster
from horizont.launchers.plan import JOB_FILE, ProcessPlan
from horizont.monitoring.background import BackgroundLoad, CpuUsage

#: Folders on each host, below that of the session.
RUN_FOLDER, DATA_FOLDER = "run", "data"


class AgentCluster(Cluster):
    """The hosts of a run, each with an agent.

    Files get other paths on the hosts: those of the record and of the data lie below the folder of
    the session, which is the same on all hosts.
    """

    def __init__(self, topology: Topology, session: Session, record: Path) -> None:
        self._session = session
        self._record = record
        self._has_quotas = topology.cpus_per_host is not None
        self._agents = dict(zip(topology.all_hosts, session.agents, strict=False))
        self._processes: dict[AgentConnection, dict[str, RemoteProcess]] = defaultdict(dict)
        self._offsets: dict[str, ClockOffset] = {}
        self._released: set[Path] = set()
        for agent in self._agents.values():
            agent.on_frame = self._receiver(agent)
            agent.on_lost = self._loser(agent)

    def facts(self) -> dict[str, Any]:
        """Return what is known of the hosts, for the record; nothing that names a machine."""
        boot_ids = [agent.facts["boot_id"] for agent in self._agents.values()]
        machines = list(dict.fromkeys(boot_ids))
        return {
            host: {
                "machine_number": machines.index(agent.facts["boot_id"]),
                "interface": agent.facts["interface"],
                "machine_type": agent.facts["machine_type"],
                **agent.facts["environment"],
            }
            for host, agent in self._agents.items()
        }

    def further_capabilities(self) -> frozenset[Capability]:
        """Return `byte_counters` if no two hosts have the same network interfaces."""
        networks = {agent.facts["network"] for agent in self._agents.values()}
        return frozenset({"byte_counters"} if len(networks) == len(self._agents) > 1 else ())

    def has_exclusive_hosts(self) -> bool | None:
        """Whether the scheduler of the hosts allocated them to this job alone."""
        return self._session.exclusive_hosts

    def endpoints(self, hosts: Sequence[str]) -> list[str]:
        """Reserve a port on its host for each process, and measure the clocks of the hosts."""
        ports = {
            host: list(
                agent.request("begin", ports=hosts.count(host), lease_s=self._session.lease_s)[
                    "ports"
                ]
            )
            for host, agent in self._agents.items()
        }
        self._offsets = {host: _offset(agent) for host, agent in self._agents.items()}
        addresses = {host: agent.facts["address"] for host, agent in self._agents.items()}
        return [f"{addresses[host]}:{ports[host].pop(0)}" for host in hosts]

    def host_events(self) -> list[dict[str, Any]]:
        """Measure the clocks again; return their offsets, and in what the hosts differ."""
        differences = differing_facts([agent.facts for agent in self._agents.values()])
        events: list[dict[str, Any]] = []
        if differences:
            events.append({"event": "hosts_differ", "in": differences})
        for host, first in self._offsets.items():
            with contextlib.suppress(HostLost):
                last = _offset(self._agents[host])
                drift = drift_s(first, last)
                values = {"offset_s": first.monotonic_s, "error_s": first.error_s}
                kind = "clock_drift" if drift > MAX_DRIFT_S else "clock"
                events.append({"event": kind, "host": host, **values, "drift_s": drift})
        return events

    def start(self, plan: ProcessPlan, log: Path) -> RemoteProcess:
        """Send the inputs that the host lacks, and start a process there."""
        agent = self._agents[plan.host]
        assert isinstance(plan.job, WorkerJob)
        paths = {self._record: RUN_FOLDER}
        for source in plan.inputs:
            if source.name != JOB_FILE:
                paths[source] = self._send_input(agent, source)
        job = self._relocate(plan.job.model_dump_json(), paths).encode()
        folder = f"{RUN_FOLDER}/{plan.folder.relative_to(self._record)}"
        agent.post("write", job, name=f"{folder}/{JOB_FILE}", offset=0, size=len(job))
        process = RemoteProcess(plan, log, agent, self._shift(plan))
        self._processes[agent][plan.name] = process
        process.pid = agent.request(
            "start",
            name=plan.name,
            host=plan.host,
            argv=[self._relocate(word, paths) for word in plan.argv],
            environment={n: self._relocate(value, paths) for n, value in plan.environment.items()},
            folder=folder,
        )["pid"]
        return process

    def release(self, barrier: Path) -> None:
        """Create the start barrier on all hosts."""
        if barrier in self._released:  # the launcher repeats it while the hosts are timed
            return
        self._released.add(barrier)
        name = f"{RUN_FOLDER}/{barrier.relative_to(self._record)}"
        for agent in self._agents.values():
            agent.request("release", name=name)

    def start_sampler(self, folder: Path, interval_s: float, device: str) -> HostSamplers:
        """Sample all hosts, each by a sampler of its own."""
        samplers = HostSamplers(self._agents, self._offsets, folder)
        samplers.start(interval_s, device)
        return samplers

    def background_load(self) -> BackgroundLoad | None:
        """Return the load by other programs of the machine that had most of it.

        Agents on one machine do not count each other's processes as those of others.
        """
        usages: defaultdict[str, list[CpuUsage]] = defaultdict(list)
        for agent in self._agents.values():
            with contextlib.suppress(HostLost):
                reply = agent.request("background", with_quotas=self._has_quotas)
                fields = {name: float(reply[name]) for name in CpuUsage._fields}
                usages[agent.facts["boot_id"]].append(CpuUsage(**fields))
        loads = []
        for on_machine in usages.values():
            others_s = min(u.others_s + u.own_s for u in on_machine)
            others_s -= sum(usage.own_s for usage in on_machine)
            loads.append(on_machine[0]._replace(others_s=others_s).load)
        return max(loads, key=lambda load: (load.disturbed, load.cpu_fraction), default=None)

    def close(self) -> None:
        """Stop everything of the run on all hosts and remove its files there."""
        for agent in self._agents.values():
            with contextlib.suppress(HostLost):
                agent.request("end", folder=RUN_FOLDER)
            agent.on_frame = lambda message: None
            agent.on_lost = lambda: None
        for processes in self._processes.values():
            for process in processes.values():
                process.close()

    def disconnect(self, host: str) -> None:
        """Raise an error: an agent cannot take the network from its host."""
        raise NotImplementedError(f"the network of {host} is not the launcher's")

    reconnect = disconnect

    def _receiver(self, agent: AgentConnection) -> Any:
        def receive(message: Mapping[str, Any]) -> None:
            processes = self._processes[agent]
            if message["kind"] == "states":
                for name, state in message["states"].items():
                    if name in processes:
                        processes[name].update(state)
            elif message["kind"] == "ended" and message["name"] in processes:
                processes[message["name"]].end(message["last_error"])

        return receive

    def _loser(self, agent: AgentConnection) -> Any:
        def lose() -> None:
            for process in list(self._processes[agent].values()):
                process.end(agent.lost)

        return lose

    def _shift(self, plan: ProcessPlan) -> tuple[ClockOffset, dict[int, float]]:
        """Return the offset of a process's clock; for a coordinator, those of the workers, too."""
        own = self._offsets[plan.host]
        assert isinstance(plan.job, WorkerJob)
        if plan.job.role != "chief":
            return own, {}
        hosts = plan.job.run.topology.worker_hosts
        workers = range(plan.job.run.topology.workers)
        return own, {
            rank: self._offsets[hosts[rank % len(hosts)]].unix_s - own.unix_s for rank in workers
        }

    def _relocate(self, text: str, paths: Mapping[Path, str]) -> str:
        """Replace paths of this machine by those on the hosts, the longest first."""
        for path in sorted(paths, key=lambda path: -len(str(path))):
            text = text.replace(str(path), str(self._session.folder / paths[path]))
        return text

    def _send_input(self, agent: AgentConnection, source: Path) -> str:
        """Send a folder or file unless the host has its content; return its name there."""
        key = hashlib.sha256(str(source).encode()).hexdigest()[:8]
        root = f"{DATA_FOLDER}/{key}/{source.name}"
        names = {
            root if path == source else f"{root}/{path.relative_to(source)}": path
            for path in files_below(source)
        }
        digests = {name: file_digest(path) for name, path in names.items()}
        for name in agent.request("missing", digests=digests)["names"]:
            size = names[name].stat().st_size
            for offset, content in chunks(names[name]):
                agent.post("write", content, name=name, offset=offset, size=size)
        return root


def _offset(agent: AgentConnection) -> ClockOffset:
    def read() -> tuple[float, float]:
        reply = agent.request("clock")
        return reply["time_s"], reply["unix_s"]

    return measure_offset(read)

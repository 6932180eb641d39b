"""A topology: how many processes of which role, with how many threads, where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from horizont.config.base import ConfigModel
from horizont.config.framework import Device
from horizont.errors import UserError

Sharding = Literal["global_batches", "static_shards"]
Placement = Literal["colocated", "dedicated"]

DEFAULT_LAUNCHER = "local"

MAX_SERVERS = 64

#: What only some launchers can do; recorded in ``environment.json``. `byte_counters`: each host has
#: network interfaces of its own. `link_limits` and `cpu_quota`: `Topology.link` and
#: `Topology.cpus_per_host`. `disconnect`: a host can lose its network. `shared_clock`: all hosts
#: share a kernel, and with it the monotonic clock and the CPUs. `aligned_clocks`: they have clocks
#: of their own, and all times in a record are converted to that of the launcher.
Capability = Literal[
    "byte_counters", "link_limits", "cpu_quota", "disconnect", "shared_clock", "aligned_clocks"
]


class Link(ConfigModel):
    """The link between a host and the switch.

    Attributes
    ----------
    rate_mbit, uplink_mbit
        10^6 bits per second, in each direction, and of what the host sends if that differs;
        unlimited by default.
    latency_ms
        One-way delay of a packet from host to host, in addition to its transmission time.
    """

    RENAMED: ClassVar[Mapping[str, str]] = {"up_mbit": "uplink_mbit"}

    rate_mbit: float | None = Field(default=None, ge=1, le=100_000)
    uplink_mbit: float | None = Field(default=None, ge=1, le=100_000)
    latency_ms: float = Field(default=0.0, ge=0, le=1000)

    @property
    def effective_uplink_mbit(self) -> float | None:
        """Rate of what a host sends, in 10^6 bits per second."""
        return self.uplink_mbit or self.rate_mbit

    @property
    def is_unlimited(self) -> bool:
        """Whether neither rate nor latency is set."""
        return self == Link()


class Topology(ConfigModel):
    """The processes of a run and the hosts that run them; see ``docs/settings.md``.

    Which of the settings after `sharding` a launcher supports is checked by
    `horizont.launchers.base.check_topology`.

    Attributes
    ----------
    launcher
        A name in `horizont.launchers.LAUNCHERS`.
    addresses
        Names or addresses of this machine on which the processes listen, assigned in turn.
    base_port
        First of consecutive ports; 0 picks free ones.
    hosts
        Number of hosts for the workers, assigned in turn; 0 for one host per worker.
    placement
        Servers, scheduler and chief `colocated` with workers, or on `dedicated` hosts.
    """

    RENAMED: ClassVar[Mapping[str, str]] = {
        "engine": "launcher",
        "machines": "hosts",
        "host_cpus": "cpus_per_host",
    }

    launcher: str = DEFAULT_LAUNCHER
    workers: int = Field(default=1, ge=1, le=64)
    servers: int = Field(default=0, ge=0, le=MAX_SERVERS)
    threads: int = Field(default=1, ge=1, le=256)
    device: Device = "cpu"
    addresses: tuple[str, ...] = Field(default=("127.0.0.1",), min_length=1)
    sharding: Sharding = "global_batches"
    base_port: int = Field(default=0, ge=0, le=65000)
    hosts: int = Field(default=0, ge=0, le=64)
    placement: Placement = "colocated"
    link: Link = Link()
    cpus_per_host: float | None = Field(default=None, ge=0.05, le=256)
    pin_hosts: bool = False
    options: dict[str, Any] = Field(default_factory=dict)

    @property
    def worker_hosts(self) -> tuple[str, ...]:
        """Hosts of the workers, by the names that a launcher maps to machines."""
        return tuple(f"host-{number}" for number in range(self.hosts or self.workers))

    @property
    def server_hosts(self) -> tuple[str, ...]:
        """Hosts of the servers."""
        first = len(self.worker_hosts)
        if self.placement == "colocated" or not self.servers:
            return self.worker_hosts
        return tuple(f"host-{first + number}" for number in range(self.servers))

    @property
    def all_hosts(self) -> tuple[str, ...]:
        """All hosts, each once."""
        return tuple(dict.fromkeys(self.worker_hosts + self.server_hosts))

    @model_validator(mode="after")
    def _check_hosts(self) -> Topology:
        if self.hosts > self.workers:
            raise UserError("hosts", self.hosts, f"at most the {self.workers} workers")
        if self.pin_hosts and self.cpus_per_host is None:
            raise UserError("pin_hosts", True, "false without cpus_per_host")
        return self

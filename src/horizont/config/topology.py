"""A topology: how many processes of which role, with how many threads, where."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from horizont.config.base import ConfigModel
from horizont.errors import UserError

Sharding = Literal["global_batches", "static_shards"]
LauncherName = Literal["local", "emulated"]
Placement = Literal["colocated", "dedicated"]

#: The settings that an engine does not have.
INAPPLICABLE_FIELDS: dict[LauncherName, tuple[str, ...]] = {
    "local": ("hosts", "placement", "link", "cpus_per_host"),
    "emulated": ("addresses", "base_port"),
}


class Link(ConfigModel):
    """The cable between an emulated host and the switch.

    Attributes
    ----------
    rate_mbit
        10^6 bits a second, each way; None for as fast as the machine can.
    up_mbit
        What a host may send, if it is another rate than what it may receive.
    latency_ms
        How long a packet is under way from one host to another, beside what the rate makes of it.
    """

    rate_mbit: float | None = Field(default=None, ge=1, le=100_000)
    uplink_mbit: float | None = Field(default=None, ge=1, le=100_000)
    latency_ms: float = Field(default=0.0, ge=0, le=1000)

    @property
    def effective_uplink_mbit(self) -> float | None:
        """What a host may send."""
        return self.uplink_mbit or self.rate_mbit

    @property
    def is_unlimited(self) -> bool:
        """Whether nothing holds a packet up."""
        return self == Link()


class Topology(ConfigModel):
    """The processes of a run and the hosts that carry them.

    Attributes
    ----------
    engine
        `local`: processes of this machine, on addresses of its own. `emulated`: each host is a
        network namespace with an address, a name, a link and a share of the processors.
    workers, servers
        Processes that train, and processes that keep the weights (parameter server only).
    threads
        Compute threads of each process.
    hosts
        Of the local engine: names or addresses; workers are dealt to them in turn. Everything
        listens there.
    sharding
        `by_batch`: together the workers see exactly the batches of a single process.
        `by_shard`: each worker sees only its own n-th of the data.
    base_port
        First of the ports to be used; 0 takes free ones. Emulated hosts have all to themselves.
    machines
        Of the emulated engine: how many hosts the workers are dealt to; 0 for one each.
    placement
        Of the emulated engine: servers `together` with workers, dealt to the same hosts, or
        `apart`, each on a host of its own.
    link
        Of the emulated engine: the cable of each host.
    host_cpus
        Of the emulated engine: processors' time that a host may use once all have started, in
        processors; None for all that there are.
    """

    launcher: LauncherName = "local"
    workers: int = Field(default=1, ge=1, le=64)
    servers: int = Field(default=0, ge=0, le=16)
    threads: int = Field(default=1, ge=1, le=256)
    addresses: tuple[str, ...] = Field(default=("127.0.0.1",), min_length=1)
    sharding: Sharding = "global_batches"
    base_port: int = Field(default=0, ge=0, le=65000)
    hosts: int = Field(default=0, ge=0, le=64)
    placement: Placement = "colocated"
    link: Link = Link()
    cpus_per_host: float | None = Field(default=None, ge=0.05, le=256)

    @property
    def is_emulated(self) -> bool:
        """Whether the hosts are network namespaces."""
        return self.launcher == "emulated"

    @property
    def worker_hosts(self) -> tuple[str, ...]:
        """The hosts that workers are dealt to."""
        if not self.is_emulated:
            return self.addresses
        return tuple(f"host-{place}" for place in range(self.hosts or self.workers))

    @property
    def server_hosts(self) -> tuple[str, ...]:
        """The hosts that servers are dealt to."""
        first = len(self.worker_hosts)
        if self.placement == "colocated" or not self.servers:
            return self.worker_hosts
        return tuple(f"host-{first + place}" for place in range(self.servers))

    @property
    def all_hosts(self) -> tuple[str, ...]:
        """All hosts, each once."""
        return tuple(dict.fromkeys(self.worker_hosts + self.server_hosts))

    @model_validator(mode="after")
    def _check_launcher_fields(self) -> Topology:
        for field in INAPPLICABLE_FIELDS[self.launcher]:
            value, usual = getattr(self, field), Topology.model_fields[field].default
            if value != usual:
                shown = value.model_dump(exclude_defaults=True) if field == "link" else value
                other = "emulated" if self.launcher == "local" else "local"
                raise UserError(field, shown, f"nothing, or launcher: {other}")
        if self.hosts > self.workers:
            raise UserError("hosts", self.hosts, f"at most the {self.workers} workers")
        return self

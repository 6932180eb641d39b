"""A topology: how many processes of which role, with how many threads, where."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from horizont.spec.base import Frozen

Sharding = Literal["by_batch", "by_shard"]


class Topology(Frozen):
    """The processes of a run and the hosts that carry them.

    Attributes
    ----------
    workers, servers
        Processes that train, and processes that keep the weights (parameter server only).
    threads
        Compute threads of each process.
    hosts
        Host names or addresses; workers are dealt to them in turn. Everything listens there.
    sharding
        `by_batch`: together the workers see exactly the batches of a single process.
        `by_shard`: each worker sees only its own n-th of the data.
    base_port
        First of the ports to be used; 0 takes free ones.
    """

    engine: Literal["local"] = "local"
    workers: int = Field(default=1, ge=1, le=64)
    servers: int = Field(default=0, ge=0, le=16)
    threads: int = Field(default=1, ge=1, le=256)
    hosts: tuple[str, ...] = Field(default=("127.0.0.1",), min_length=1)
    sharding: Sharding = "by_batch"
    base_port: int = Field(default=0, ge=0, le=65000)

"""What has to cross the wire in theory: bytes of each host and step, and how long they take.

Volumes: Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in
MPICH" (2005), for the ring; for a parameter server each worker sends the gradient of every
weight and receives every weight. Headers, acknowledgements and everything beside the numbers are
left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

from horizont.spec import Run, Topology

#: Bytes of a number on its way.
NUMBER_BYTES = {"none": 4, "float16": 2}


#: Frameworks whose servers each keep an equally long slice of all weights.
EQUAL_SLICES = ("pytorch",)


@dataclass(frozen=True)
class Volume:
    """Bytes that a host sends and receives; NaN if unknown."""

    sent_bytes: float
    received_bytes: float


def volumes(run: Run, parameters: int, steps: Sequence[float]) -> dict[str, Volume]:
    """Tell what each host has to send and receive for some steps of the workers.

    What stays on a host is not counted.

    Parameters
    ----------
    parameters
        Numbers that the network learns.
    steps
        Of each worker, by rank.
    """
    topology = run.topology
    size = float(parameters * NUMBER_BYTES[run.exchange.compression])
    if run.system.is_local:
        return {host: Volume(0.0, 0.0) for host in topology.all_hosts}
    if run.system.architecture == "allreduce":
        return _ring(topology, size * min(steps) / run.exchange.average_every)
    return _servers(topology, size, steps, equal=run.system.framework in EQUAL_SLICES)


def _ring(topology: Topology, size: float) -> dict[str, Volume]:
    """Each worker sends 2 (n - 1) / n of the gradients to its neighbour in the ring."""
    n = topology.workers
    seats = _dealt(topology.worker_hosts, n)
    # The ring may turn either way round: a host's neighbours are the same, and so are the bytes.
    going = Counter(seat for rank, seat in enumerate(seats) if seats[(rank + 1) % n] != seat)
    coming = Counter(seat for rank, seat in enumerate(seats) if seats[rank - 1] != seat)
    share = 2 * (n - 1) / n * size
    return {host: Volume(going[host] * share, coming[host] * share) for host in topology.all_hosts}


def _servers(
    topology: Topology, size: float, steps: Sequence[float], *, equal: bool
) -> dict[str, Volume]:
    """Each worker sends its gradient to the servers and receives the weights.

    How the weights are dealt to several servers is the framework's affair: unless they are
    `equal` slices, what a host with one of several servers sends and receives is not known.
    """
    by_host: dict[str, float] = dict.fromkeys(topology.all_hosts, 0.0)
    for host, made in zip(_dealt(topology.worker_hosts, topology.workers), steps, strict=True):
        by_host[host] += made
    servers = Counter(_dealt(topology.server_hosts, topology.servers))
    found = {}
    for host, own in by_host.items():
        here = servers[host] / topology.servers
        # Its workers with the servers elsewhere, its servers with the workers elsewhere.
        exchanges = own * (1 - here) + (sum(steps) - own) * here
        if 0 < here < 1 and not equal:
            exchanges = nan
        found[host] = Volume(exchanges * size, exchanges * size)
    return found


def _dealt(hosts: Sequence[str], count: int) -> list[str]:
    return [hosts[place % len(hosts)] for place in range(count)]


def wire_s(run: Run, parameters: int) -> float:
    """Tell how long the busiest direction of any link needs for a step of each worker, in seconds.

    Zero on links without a limit; NaN if it is not known. Latency is left out.
    """
    link = run.topology.link
    each = volumes(run, parameters, [1.0] * run.topology.workers).values()
    longest = 0.0
    for rate, sizes in (
        (link.sent_mbit, [volume.sent_bytes for volume in each]),
        (link.rate_mbit, [volume.received_bytes for volume in each]),
    ):
        if rate is not None:
            longest = max(longest, *(8 * size / (rate * 1e6) for size in sizes))
    return longest

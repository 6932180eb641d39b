"""Chapter 9: the ring and the server in processes of a gloo group, with counted bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from horizont_textbook import Array
from horizont_textbook.framework_call import Results

if TYPE_CHECKING:
    from horizont_textbook.group import Group

#: Workers of the exercises; a server is one process more.
WORKERS = (2, 3, 4)
GROUP_SIZE = 5

#: The ring whose states are recorded after each step.
RECORDED_RING = 4

#: How many numbers are summed; they split into equal chunks for 2, 3 and 4 processes.
NUMBERS = 12_000


class RingStep(NamedTuple):
    """Chunks sent and received in a step; a received one is added to the own one or replaces it."""

    send: int
    receive: int
    add: bool


def ring_steps(rank: int, size: int) -> list[RingStep]:
    """Return the steps of one process: reduce-scatter, then all-gather, n - 1 steps each.

    Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations,
    2009.
    """
    scatter = [RingStep((rank - t) % size, (rank - t - 1) % size, True) for t in range(size - 1)]
    gather = [RingStep((rank - t + 1) % size, (rank - t) % size, False) for t in range(size - 1)]
    return scatter + gather


def ring_all_reduce(
    values: Array, group: Group, record: Callable[[Array], None] = lambda state: None
) -> Array:
    """Sum the one-dimensional arrays of all processes, so that each process has the sum.

    `record` is called with the state of this process at the beginning and after each step.
    """
    state = values.copy()
    chunks = np.array_split(state, group.size)  # views of the state
    following, previous = (group.rank + 1) % group.size, (group.rank - 1) % group.size
    record(state)
    for step in ring_steps(group.rank, group.size):
        target = chunks[step.receive]
        received = group.exchange(chunks[step.send], following, target.shape, previous)
        target[:] = target + received if step.add else received
        record(state)
    return state


def server_all_reduce(values: Array, group: Group) -> Array:
    """Sum the arrays of all workers at a server, which is the last process of the group."""
    server = group.size - 1
    if group.rank != server:
        group.send(values, server)
        return group.receive(values.shape, server)
    total = np.asarray(sum(group.receive(values.shape, worker) for worker in range(server)))
    for worker in range(server):
        group.send(total, worker)
    return total


def summands(workers: int) -> Array:
    """Draw the arrays of some workers, (workers, numbers)."""
    return np.random.default_rng(91).normal(size=(workers, NUMBERS))


def run_exercises(rank: int, size: int) -> Results:
    """Run all exercises in one process of a gloo group."""
    import torch
    import torch.distributed as dist

    from horizont_textbook.group import Group

    gloo = {n: dist.new_group(list(range(n))) for n in WORKERS}
    results: Results = {}
    for n in WORKERS:
        values = summands(n)[rank] if rank < n else np.zeros(NUMBERS)
        exchanges = {"ring": (ring_all_reduce, n), "server": (server_all_reduce, n + 1)}
        for name, (algorithm, members) in exchanges.items():
            if rank < members:
                group = Group(rank, members)
                results[f"{name} of {n}|sum"] = algorithm(values, group)
                results[f"{name} of {n}|sent bytes"] = np.array(group.sent_bytes)
                results[f"{name} of {n}|received bytes"] = np.array(group.received_bytes)
        if rank < n:
            own = torch.tensor(values)
            dist.all_reduce(own, group=gloo[n])
            results[f"gloo all_reduce of {n}|sum"] = own.numpy()
    if rank < RECORDED_RING:
        states: list[Array] = []
        digits = np.full(RECORDED_RING, 10.0**rank)
        ring_all_reduce(digits, Group(rank, RECORDED_RING), lambda s: states.append(s.copy()))
        results["recorded ring|states"] = np.array(states)
    return results

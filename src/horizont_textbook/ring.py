"""Chapter 9: the algorithms of a ring and of a parameter server, their bytes and their time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from horizont_textbook import Array

if TYPE_CHECKING:
    from horizont_textbook.group import Group


#: How many numbers are summed; they split into equal chunks for 2, 3 and 4 processes.
NUMBERS = 12_000


@dataclass(frozen=True)
class RingStep:
    """What a process does in one step of the ring.

    Attributes
    ----------
    send, receive
        The chunk sent to the next process, and the one received from the previous process.
    add
        Whether the received chunk is added to the own one; otherwise it replaces it.
    """

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
    """Sum the arrays of all processes, so that each process has the sum.

    Parameters
    ----------
    values
        One-dimensional.
    record
        Called with the state of this process at the beginning and after each step.
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


def ring_states(size: int) -> Array:
    """Compute the states of all processes of a ring after each step, without any process.

    Process r begins with 10^r in every chunk, so that the digits of a sum name its summands.
    """
    states = [np.tile(10.0 ** np.arange(size)[:, None], (1, size))]
    for steps in zip(*(ring_steps(rank, size) for rank in range(size)), strict=True):
        state = states[-1].copy()
        for rank, step in enumerate(steps):
            received = states[-1][rank - 1, step.receive]
            state[rank, step.receive] = received + (state[rank, step.receive] if step.add else 0)
        states.append(state)
    return np.array(states)


def ring_bytes(size: int, total_bytes: float) -> float:
    """Return what each of n processes sends and receives for N bytes: 2 (n - 1) / n N.

    It meets the lower bound of the communication (Patarasuk and Yuan, 2009).
    """
    return 2 * (size - 1) / size * total_bytes


def server_bytes(workers: int, total_bytes: float) -> float:
    """Return what a server of n workers sends and receives: n N. Each worker sends N."""
    return workers * total_bytes


def ring_time(workers: Any, total_bytes: float, bytes_per_s: float, latency_s: float) -> Array:
    """Return a lower bound of the time of a ring: its bytes and 2 (n - 1) sequential messages."""
    n = np.asarray(workers, dtype=np.float64)
    return np.asarray(2 * (n - 1) * (latency_s + total_bytes / n / bytes_per_s))


def server_time(workers: Any, total_bytes: float, bytes_per_s: float, latency_s: float) -> Array:
    """Return a lower bound of the time of a server that sums everything before it answers.

    The bytes of all workers share its link, in both directions.
    """
    n = np.asarray(workers, dtype=np.float64)
    return np.asarray(2 * (latency_s + n * total_bytes / bytes_per_s))


def summands(workers: int) -> Array:
    """Draw the arrays of some workers, (workers, numbers)."""
    return np.random.default_rng(91).normal(size=(workers, NUMBERS))

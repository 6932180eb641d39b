"""Chapter 9: a sum that everybody gets, by a ring and by a server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.theory.questions import Question
from horizont.theory.together.peers import Peers

Array = NDArray[Any]

#: How many numbers are summed: chunks of 2, 3 and 4 processes are equally long.
NUMBERS = 12_000


@dataclass(frozen=True)
class Step:
    """What a process does in one step of the ring.

    Attributes
    ----------
    out, into
        The chunk that it sends to the next process, and the one that the chunk from the process
        before belongs to.
    adds
        Whether what comes is added to what is there; otherwise it takes its place.
    """

    out: int
    into: int
    adds: bool


def ring_steps(rank: int, size: int) -> list[Step]:
    """Plan the ring for one process: reduce-scatter, then all-gather, n - 1 steps each.

    Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations,
    2009.
    """
    scatter = [Step((rank - t) % size, (rank - t - 1) % size, adds=True) for t in range(size - 1)]
    gather = [Step((rank - t + 1) % size, (rank - t) % size, adds=False) for t in range(size - 1)]
    return scatter + gather


def ring_all_reduce(
    values: Array, peers: Peers, seen: Callable[[Array], None] | None = None
) -> Array:
    """Sum the arrays of all processes, so that each of them has the sum.

    Parameters
    ----------
    values
        In a row, (numbers,).
    seen
        Called with what this process holds, at the beginning and after each step.
    """
    held = values.copy()
    chunks = np.array_split(held, peers.size)  # views of it
    after, before = (peers.rank + 1) % peers.size, (peers.rank - 1) % peers.size
    show = seen or (lambda _: None)
    show(held)
    for step in ring_steps(peers.rank, peers.size):
        into = chunks[step.into]
        came = peers.exchange(chunks[step.out], after, into.shape, before)
        into[:] = into + came if step.adds else came
        show(held)
    return held


def server_all_reduce(values: Array, peers: Peers) -> Array:
    """Do the same with a server, which is the last of the processes and adds nothing itself."""
    server = peers.size - 1
    if peers.rank != server:
        peers.send(values, server)
        return peers.receive(values.shape, server)
    total = sum(peers.receive(values.shape, worker) for worker in range(server))
    for worker in range(server):
        peers.send(np.asarray(total), worker)
    return np.asarray(total)


def ring_states(size: int) -> Array:
    """Tell what each process of a ring holds, step by step, without any process.

    Process r begins with 10^r in every chunk, so that the digits of a number tell whose parts
    it is the sum of.

    Returns
    -------
    Array
        (2 (n - 1) + 1 moments, processes, chunks).
    """
    held = np.tile(10.0 ** np.arange(size)[:, None], (1, size))
    states = [held]
    for steps in zip(*(ring_steps(rank, size) for rank in range(size)), strict=True):
        held = states[-1].copy()
        for rank, step in enumerate(steps):
            came = states[-1][rank - 1, step.into]
            held[rank, step.into] = came + (held[rank, step.into] if step.adds else 0)
        states.append(held)
    return np.array(states)


def ring_bytes(size: int, total_bytes: float) -> float:
    """Tell what each of n processes sends, and receives, for an array of N bytes.

    2 (n - 1) / n N, which meets the lower bound of what has to be communicated (Patarasuk and
    Yuan, 2009).
    """
    return 2 * (size - 1) / size * total_bytes


def server_bytes(workers: int, total_bytes: float) -> float:
    """Tell what a server of n workers sends, and receives: n N. Each worker sends N."""
    return workers * total_bytes


def ring_time(workers: Array, total_bytes: float, bytes_per_s: float, latency_s: float) -> Array:
    """Tell how long a ring takes at least: its bytes, and 2 (n - 1) messages one after another."""
    n = np.asarray(workers, dtype=np.float64)
    return np.asarray(2 * (n - 1) * (latency_s + total_bytes / n / bytes_per_s))


def server_time(workers: Array, total_bytes: float, bytes_per_s: float, latency_s: float) -> Array:
    """Tell how long a server takes at least that adds all up before it answers.

    All workers' bytes come through one link, and all answers leave through it.
    """
    n = np.asarray(workers, dtype=np.float64)
    return np.asarray(2 * (latency_s + n * total_bytes / bytes_per_s))


def summands(workers: int) -> Array:
    """Make what each of some workers has to add, (workers, numbers)."""
    return np.random.default_rng(91).normal(size=(workers, NUMBERS))


def questions() -> list[Question]:
    """Ask for a sum in three orders, and for a batch's gradient as the mean of its parts'."""
    random = np.random.default_rng(92)
    a, b, c = random.normal(size=(3, 5))
    orders = "l = (a + b) + c\nm = (b + c) + a\nr = (c + a) + b\ny = sum((l + m + r) / 3)"
    several: dict[str, Array] = {f"x{k}": random.normal(size=(2, 3)) for k in range(3)}
    several |= {f"l{k}": random.integers(0, 4, 2) for k in range(3)}
    parts = "\n".join(f"p{k} = cross_entropy(x{k} @ W, l{k})" for k in range(3))
    given: dict[str, Array] = several | {"W": random.normal(size=(3, 4))}
    return [
        Question("sum in three orders", orders, {"a": a, "b": b, "c": c}, ("a",), ("l", "m", "r")),
        Question(
            "mean of three workers' losses", f"{parts}\nloss = (p0 + p1 + p2) / 3", given, ("W",)
        ),
    ]

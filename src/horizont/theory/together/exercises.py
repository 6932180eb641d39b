"""What groups of processes are to do, in NumPy and in a framework that can."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from horizont.theory.cuts import MEMBERS, WAYS, Array, Arrays
from horizont.theory.parallelism import trained_together
from horizont.theory.ring import NUMBERS, ring_all_reduce, server_all_reduce, summands
from horizont.theory.together.peers import Peers

RINGS = (2, 3, 4)

#: The ring that tells what it holds after each step.
SHOWN = 4


@dataclass(frozen=True)
class Exercise:
    """Something that the first members of a group do together.

    Attributes
    ----------
    name
        Unique among all.
    kind
        `way`, `ring`, `steps` of a ring, or `server`.
    perform
        What a member does, in NumPy; returns its arrays by name.
    """

    name: str
    kind: str
    members: int
    perform: Callable[[Peers], Arrays]


def named_training(first: Arrays, after: Arrays) -> Arrays:
    """Name what came of training: gradients of the first step, weights after the last."""
    named = {f"gradient {name}": value for name, value in first.items()}
    return named | {f"weight {name}": value for name, value in after.items()}


def every_exercise() -> list[Exercise]:
    """List all exercises, in the order in which they are done."""
    ways = [Exercise(name, "way", MEMBERS, _training(name)) for name in WAYS]
    rings = [Exercise(f"ring of {n}", "ring", n, _ring) for n in RINGS]
    servers = [Exercise(f"server of {n}", "server", n + 1, _server) for n in RINGS]
    return [*ways, *rings, *servers, Exercise("ring, step by step", "steps", SHOWN, _steps)]


def largest_group() -> int:
    """Tell how many processes it takes."""
    return max(exercise.members for exercise in every_exercise())


def _training(name: str) -> Callable[[Peers], Arrays]:
    return lambda peers: named_training(*trained_together(name, peers))


def _ring(peers: Peers) -> Arrays:
    return {"sum": ring_all_reduce(summands(peers.size)[peers.rank], peers)}


def _server(peers: Peers) -> Arrays:
    workers = summands(peers.size - 1)
    own = workers[peers.rank] if peers.rank < len(workers) else np.zeros(NUMBERS)
    return {"sum": server_all_reduce(own, peers)}


def _steps(peers: Peers) -> Arrays:
    """Let each process begin with a digit of its own in every chunk."""
    seen: list[Array] = []
    own = np.full(peers.size, 10.0**peers.rank)
    ring_all_reduce(own, peers, lambda held: seen.append(held.copy()))
    return {"held": np.array(seen)}

"""One process of a group: it takes part in the exercises and keeps what they came to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from horizont.theory.cuts import Arrays
from horizont.theory.together.exercises import Exercise, every_exercise
from horizont.theory.together.kernel import Counted, counted_by_kernel, difference
from horizont.theory.together.peers import PATIENCE_S, meet

ANSWERS = "answers.npz"


def take_part_in_all(folder: Path, rank: int, addresses: Sequence[str]) -> None:
    """Do all exercises that this member has a part in, in NumPy.

    Parameters
    ----------
    folder
        Its own; all members' lie side by side.
    """
    told: Arrays = {}
    everyone = meet(rank, addresses)
    for exercise in every_exercise():
        if rank < exercise.members:
            peers = everyone.among(exercise.members)
            told |= counted(exercise, rank, folder.parent, partial(exercise.perform, peers))
            handed = Counted(peers.sent_bytes, peers.received_bytes)
            told |= bytes_told(f"{exercise.name}/{rank}/socket", handed)
    keep(told, folder, rank, len(addresses))


def counted(
    exercise: Exercise,
    rank: int,
    shared: Path,
    perform: Callable[[], Arrays],
    beside: int | None = None,
) -> Arrays:
    """Do an exercise and have the kernel count, leaving out what goes through one port.

    Returns
    -------
    dict
        Arrays named `<exercise>/<rank>/<what>`; `kernel` are the bytes that the kernel counted,
        sent and received, if it tells.
    """
    before = counted_by_kernel(beside)
    wait_for_members(shared, exercise.name, rank, exercise.members)
    done = perform()
    name = f"{exercise.name}/{rank}"
    told = {f"{name}/{what}": value for what, value in done.items()}
    return told | bytes_told(f"{name}/kernel", difference(before, counted_by_kernel(beside)))


def wait_for_members(shared: Path, what: str, rank: int, members: int) -> None:
    """Wait until all members are ready: who began early would be counted too early.

    They tell each other by files, since a message would be counted, too.
    """
    marks = [shared / f"{what}.{member}" for member in range(members)]
    marks[rank].touch()
    end_s = time.monotonic() + PATIENCE_S
    while not all(mark.exists() for mark in marks):
        if time.monotonic() > end_s:
            raise TimeoutError(f"not all members came to {what!r}")
        time.sleep(0.002)


def keep(told: Arrays, folder: Path, rank: int, members: int) -> None:
    """Write down what a member says, and stay until all are here: to leave is a byte, too."""
    np.savez(folder / ANSWERS, **told)
    wait_for_members(folder.parent, "the end", rank, members)


def bytes_told(name: str, found: Counted | None) -> Arrays:
    """Write bytes sent and received as an array; nothing if they are not known."""
    return {} if found is None else {name: np.array(found)}

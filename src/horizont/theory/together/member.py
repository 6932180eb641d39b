"""One process of a group: it takes part in the exercises and keeps what they came to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from horizont.theory.parallelism import Arrays
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
    told = {}
    everyone = meet(rank, addresses)
    for exercise in every_exercise():
        if rank < exercise.members:
            peers = everyone.among(exercise.members)
            told |= counted(exercise, rank, folder.parent, partial(exercise.perform, peers))
            handed = Counted(peers.sent_bytes, peers.received_bytes)
            told |= bytes_told(f"{exercise.name}/{rank}/socket", handed)
    np.savez(folder / ANSWERS, **told)


def counted(
    exercise: Exercise, rank: int, shared: Path, perform: Callable[[], Arrays]
) -> dict[str, np.ndarray]:
    """Do an exercise and have the kernel count.

    Returns
    -------
    dict
        Arrays named `<exercise>/<rank>/<what>`; `kernel` are the bytes that the kernel counted,
        sent and received, if it tells.
    """
    before = counted_by_kernel()
    wait_for_members(shared, exercise, rank)
    done = perform()
    name = f"{exercise.name}/{rank}"
    told = {f"{name}/{what}": value for what, value in done.items()}
    return told | bytes_told(f"{name}/kernel", difference(before, counted_by_kernel()))


def wait_for_members(shared: Path, exercise: Exercise, rank: int) -> None:
    """Wait until all members are ready: who began early would be counted too early.

    They tell each other by files, since a message would be counted, too.
    """
    marks = [shared / f"{exercise.name}.{member}" for member in range(exercise.members)]
    marks[rank].touch()
    end_s = time.monotonic() + PATIENCE_S
    while not all(mark.exists() for mark in marks):
        if time.monotonic() > end_s:
            raise TimeoutError(f"not all members came to {exercise.name!r}")
        time.sleep(0.002)


def bytes_told(name: str, found: Counted | None) -> dict[str, np.ndarray]:
    """Write bytes sent and received as an array; nothing if they are not known."""
    return {} if found is None else {name: np.array(found)}

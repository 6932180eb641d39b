"""One PyTorch process of a group: the same exercises over gloo, with PyTorch's own gradients."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist

from horizont.frameworks.calculus.together.ways import GRADIENTS, Tensors
from horizont.theory.backpropagation import WEIGHTS
from horizont.theory.cuts import WAYS, Arrays
from horizont.theory.parallelism import RATE, STEPS, start
from horizont.theory.ring import summands
from horizont.theory.together.exercises import Exercise, every_exercise, named_training
from horizont.theory.together.member import counted, keep
from horizont.theory.together.peers import PATIENCE_S


def take_part_in_all(folder: Path, rank: int, addresses: Sequence[str]) -> None:
    """Do the exercises that this group is large enough for and that PyTorch has a call for."""
    torch.set_num_threads(1)
    store = _join(rank, addresses)
    groups = {size: dist.new_group(list(range(size))) for size in range(2, len(addresses) + 1)}
    dist.barrier()  # all groups are made, and nothing of that is under way
    told: Arrays = {}
    for exercise in every_exercise():
        if exercise.kind in PERFORM and exercise.members in groups and rank < exercise.members:
            perform = partial(PERFORM[exercise.kind], exercise, rank, groups[exercise.members])
            told |= counted(exercise, rank, folder.parent, perform, beside=store)
    keep(told, folder, rank, len(addresses))
    dist.destroy_process_group()


def _join(rank: int, addresses: Sequence[str]) -> int:
    """Meet the others at the first address, which nobody beyond this machine can reach.

    Returns
    -------
    int
        The port of the meeting place, where nothing of the exercises is sent.
    """
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    host, port = addresses[0].rsplit(":", 1)
    listening = socket.create_server((host, int(port))).detach() if rank == 0 else None
    timeout = timedelta(seconds=PATIENCE_S)
    store = dist.TCPStore(  # type: ignore[attr-defined]
        host,
        int(port),
        len(addresses),
        is_master=rank == 0,
        timeout=timeout,
        wait_for_workers=False,
        master_listen_fd=listening,
    )
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=len(addresses), timeout=timeout
    )
    return int(port)


def _training(exercise: Exercise, rank: int, group: dist.ProcessGroup) -> Arrays:
    """Train in one of the ways."""
    way, given = WAYS[exercise.name], start()
    x, labels = map(torch.tensor, way.batch(given, rank))
    own = way.own({key: given[key] for key in WEIGHTS}, rank)
    weights = {name: torch.tensor(value, requires_grad=True) for name, value in own.items()}
    first: Arrays = {}
    for _ in range(STEPS):
        found = GRADIENTS[exercise.name](weights, x, labels, group)
        first = first or {name: value.numpy().copy() for name, value in found.items()}
        _descend(weights, found)
    return named_training(first, {k: w.detach().numpy() for k, w in weights.items()})


def _descend(weights: Tensors, found: Tensors) -> None:
    with torch.no_grad():
        for name, weight in weights.items():
            weight.sub_(RATE * found[name])
            weight.grad = None


def _all_reduce(exercise: Exercise, rank: int, group: dist.ProcessGroup) -> Arrays:
    """Sum arrays by PyTorch's own all-reduce."""
    values = torch.tensor(summands(exercise.members)[rank])
    dist.all_reduce(values, group=group)
    return {"sum": values.numpy()}


#: Kind of an exercise -> how it is done here. A server is nothing that PyTorch has a call for.
PERFORM: dict[str, Callable[[Exercise, int, dist.ProcessGroup], Arrays]] = {
    "way": _training,
    "ring": _all_reduce,
}

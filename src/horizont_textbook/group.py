"""The processes of a gloo group: they send and receive arrays, and count their bytes."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import start_processes

from horizont_textbook import Array
from horizont_textbook.framework_call import Results

Exercises = Callable[[int, int], Results]


class Group:
    """The first processes of the default group of torch.distributed.

    Only float64 numbers are sent, 8 bytes each, and the receiver knows their shape.

    Attributes
    ----------
    sent_bytes, received_bytes
        Bytes of the arrays that this process has sent and received.
    """

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.sent_bytes = self.received_bytes = 0

    def send(self, values: Array, to: int) -> None:
        """Send an array to another process."""
        dist.send(self._outgoing(values), to)

    def receive(self, shape: tuple[int, ...], source: int) -> Array:
        """Receive an array of a known shape."""
        values = torch.empty(shape, dtype=torch.float64)
        dist.recv(values, source)
        self.received_bytes += values.nbytes
        return values.numpy()

    def exchange(self, values: Array, to: int, shape: tuple[int, ...], source: int) -> Array:
        """Send and receive at the same time.

        If all processes sent first, arrays larger than the socket buffers would block them all.
        """
        request = dist.isend(self._outgoing(values), to)
        received = self.receive(shape, source)
        request.wait()
        return received

    def _outgoing(self, values: Array) -> torch.Tensor:
        tensor = torch.tensor(values, dtype=torch.float64)
        self.sent_bytes += tensor.nbytes
        return tensor


def run_group(module: str, size: int) -> Results:
    """Run the exercises of a chapter in a group of processes, of which this is the last.

    The chapter and PyTorch are imported once, then the other processes are forked. An array has a
    row for each process that computed it, by rank.
    """
    exercises: Exercises = import_module(module).run_exercises
    others = start_processes(
        _run_rank, (exercises, size), size - 1, join=False, start_method="fork"
    )
    gathered = _run_rank(size - 1, exercises, size)
    others.join()
    keys = dict.fromkeys(key for own in gathered for key in own)
    return {key: np.stack([own[key] for own in gathered if key in own]) for key in keys}


def _run_rank(rank: int, exercises: Exercises, size: int) -> list[Results]:
    """Run the exercises in this process; return those of all processes in the last one."""
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # unreachable from other machines
    rendezvous = Path("rendezvous").absolute().as_uri()
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=size)
    gathered: list[Any] = [None] * size if rank == size - 1 else []
    dist.gather_object(exercises(rank, size), gathered or None, dst=size - 1)
    dist.barrier()
    dist.destroy_process_group()
    return gathered

"""One process of a gloo group: sends and receives arrays, and counts their bytes.

``python -m horizont_textbook.group MODULE SIZE`` runs the exercises of a chapter in SIZE processes.
The chapter and PyTorch are imported once, then the processes are forked.
"""

from __future__ import annotations

import os
import pickle
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import start_processes

from horizont_textbook import RESULTS_FILE, Array


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
        if request is not None:
            request.wait()
        return received

    def _outgoing(self, values: Array) -> torch.Tensor:
        tensor = torch.tensor(values, dtype=torch.float64)
        self.sent_bytes += tensor.nbytes
        return tensor


def _run_rank(rank: int, module: str, size: int) -> None:
    """Run the exercises of a chapter in a process of the group; the first one saves all results."""
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # unreachable from other machines
    rendezvous = Path("rendezvous").absolute().as_uri()
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=size)
    results: list[Any] | None = [None] * size if rank == 0 else None
    dist.gather_object(import_module(module).run_exercises(rank, size), results)
    if results:
        Path(RESULTS_FILE).write_bytes(pickle.dumps(results))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    chapter, processes = sys.argv[1], int(sys.argv[2])
    import_module(chapter)
    start_processes(_run_rank, (chapter, processes), processes, start_method="fork")  # type: ignore[no-untyped-call]

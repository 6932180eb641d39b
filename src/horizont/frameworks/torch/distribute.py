"""PyTorch among others: the process group, and the synchronous all-reduce over gloo."""

from __future__ import annotations

import os
import socket
from datetime import timedelta

import psutil
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from horizont.frameworks.base import Mark, Recipe
from horizont.frameworks.torch.input import Batch
from horizont.frameworks.torch.train import LocalTrainer
from horizont.spec import ProcessJob


class AllReduceTrainer(LocalTrainer):
    """A worker among equals that average their gradients.

    A bare step is the inherited one: DDP overlaps the exchange with the backward pass.
    """

    def __init__(self, recipe: Recipe, job: ProcessJob) -> None:
        super().__init__(recipe)
        join(job)
        # Without broadcasting buffers: each worker tracks the statistics of its own examples.
        self.replica: DistributedDataParallel = DistributedDataParallel(
            self.module, broadcast_buffers=False
        )
        self.workers = job.run.topology.workers

    def timed_step(self, batch: Batch, mark: Mark) -> torch.Tensor:
        """Make one step with the exchange after the backward pass.

        A barrier in front of the exchange parts the waiting for the slowest worker from the
        transfer.
        """
        with self.replica.no_sync():
            loss = self.forward(batch)
            mark("forward")
            loss.backward()  # type: ignore[no-untyped-call]
        mark("backward")
        dist.barrier()
        mark("waiting")
        self._average_gradients()
        mark("communication")
        self.optimizer.step()
        mark("update")
        return loss.detach()

    def _average_gradients(self) -> None:
        """Average all gradients in one exchange, as DDP does with one bucket."""
        gradients = [p.grad for p in self.module.parameters() if p.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        flat /= self.workers
        offset = 0
        for gradient in gradients:
            gradient.copy_(flat[offset : offset + gradient.numel()].view_as(gradient))
            offset += gradient.numel()

    def close(self) -> None:
        """Leave the group together."""
        leave()


def join(job: ProcessJob) -> None:
    """Enter the process group: the workers by their ranks, behind them the servers.

    The first worker's endpoint is the meeting place. Left to itself, PyTorch would open it on
    all interfaces of the machine; here it is handed a socket that is bound to the endpoint.
    """
    workers, servers = job.endpoints.worker, job.endpoints.server
    place = job.rank if job.role == "worker" else len(workers) + job.rank
    members = (*workers, *servers)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", _interface(members[place]))
    host, port = workers[0].rsplit(":", 1)
    timeout = timedelta(seconds=job.run.deadline_s)
    listening = socket.create_server((host, int(port))).detach() if place == 0 else None
    store = dist.TCPStore(  # type: ignore[attr-defined]
        host,
        int(port),
        len(members),
        is_master=place == 0,
        timeout=timeout,
        wait_for_workers=False,
        master_listen_fd=listening,
    )
    dist.init_process_group(
        "gloo", store=store, rank=place, world_size=len(members), timeout=timeout
    )


def leave() -> None:
    """Leave the process group together with all others: one that goes early is an error to them."""
    dist.barrier()
    dist.destroy_process_group()


def _interface(endpoint: str) -> str:
    """Name the network interface that carries an endpoint's address."""
    address = socket.gethostbyname(endpoint.rsplit(":", 1)[0])
    for name, addresses in psutil.net_if_addrs().items():
        if any(entry.address == address for entry in addresses):
            return name
    return "lo"

"""PyTorch among others: the process group, and the synchronous all-reduce over gloo."""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from time import monotonic

import psutil
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from horizont.frameworks.base import Exchanged, Mark, Recipe
from horizont.frameworks.torch.input import Batch
from horizont.frameworks.torch.model import named_weights
from horizont.frameworks.torch.train import LocalTrainer
from horizont.spec import ProcessJob


class AllReduceTrainer(LocalTrainer):
    """A worker among equals that average their gradients.

    DDP overlaps the exchange with the backward pass, in bare and in timed steps.
    """

    def __init__(self, recipe: Recipe, job: ProcessJob) -> None:
        super().__init__(recipe)
        join(job)
        # Without broadcasting buffers: each worker tracks the statistics of its own examples.
        self.replica: DistributedDataParallel = DistributedDataParallel(
            self.module, forward_sync_buffers=False
        )
        # Its clocks run at every step; left to themselves, after the tenth at every hundredth.
        self.replica._set_ddp_runtime_logging_sample_rate(1)  # type: ignore[no-untyped-call]
        if job.run.exchange.compression == "float16":
            self.replica.register_comm_hook(None, fp16_compress_hook)
        self.last_gradient_s: float | None = None

    def timed_step(self, batch: Batch, mark: Mark) -> torch.Tensor:
        """Make the same step; the backward pass has ended when the last gradient is there."""
        if self.last_gradient_s is None:  # the first such step: bare ones have no hooks
            self._watch_gradients()
        loss = self.forward(batch)
        mark("forward")
        loss.backward()  # type: ignore[no-untyped-call]
        mark("backward", self.last_gradient_s)
        mark("communication")
        self.update()
        mark("update")
        return loss.detach()

    def _watch_gradients(self) -> None:
        """Have the clock read at every gradient, from now on."""

        def note(_: torch.Tensor) -> None:
            self.last_gradient_s = monotonic()

        for _, weight in named_weights(self.module):
            weight.register_hook(note)  # type: ignore[no-untyped-call]

    def exchanged(self) -> Exchanged:
        """Sum up what DDP's own clocks say, of all steps but the last: it tells their means."""
        told = self.replica._get_ddp_logging_data()  # type: ignore[no-untyped-call]
        steps = int(told.get("iteration", 0))
        exchange_ns = told.get("avg_backward_comm_time", 0)
        overlap_ns = told.get("avg_backward_compute_comm_overlap_time", 0)
        return Exchanged(steps, steps * exchange_ns / 1e9, steps * overlap_ns / 1e9)

    def close(self) -> None:
        """Leave the group together."""
        leave()


class LocalStepsTrainer(LocalTrainer):
    """A worker that makes steps of its own; the weights are averaged now and then: local SGD.

    What the optimizer keeps stays each worker's own.
    """

    def __init__(self, recipe: Recipe, job: ProcessJob) -> None:
        super().__init__(recipe)
        join(job)
        self.members = [weight for _, weight in named_weights(self.module)]
        self.workers = job.run.topology.workers
        self.every = job.run.exchange.average_every
        self.steps = 0

    def step(self, batch: Batch) -> torch.Tensor:
        """Make one training step, and average the weights if it is time."""
        loss = super().step(batch)
        if self._is_time():
            self._average_weights()
        return loss

    def timed_step(self, batch: Batch, mark: Mark) -> torch.Tensor:
        """Make the same step; without an exchange, communication is nothing."""
        loss = super().timed_step(batch, mark)
        if self._is_time():
            self._average_weights()
        mark("communication")
        return loss

    def _is_time(self) -> bool:
        self.steps += 1
        return self.steps % self.every == 0

    def _average_weights(self) -> None:
        flat = parameters_to_vector(self.members).detach()
        dist.all_reduce(flat)
        flat /= self.workers
        vector_to_parameters(flat, self.members)

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

"""PyTorch among others: the process group, and the synchronous all-reduce over gloo."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from time import monotonic

import psutil
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from horizont.config.jobs import WorkerJob
from horizont.config.workload import OptimizerConfig
from horizont.frameworks.base import CommunicationStats, PhaseMark, TrainingSetup, Weights
from horizont.frameworks.torch.input import Batch
from horizont.frameworks.torch.model import named_weights
from horizont.frameworks.torch.train import LocalTrainer
from horizont.frameworks.updates import push_recorder


class AllReduceTrainer(LocalTrainer):
    """A worker among equals that average their gradients.

    DDP overlaps the exchange with the backward pass, in bare and in timed steps.
    """

    def __init__(self, setup: TrainingSetup, job: WorkerJob) -> None:
        super().__init__(setup)
        init_process_group(job)
        # Without broadcasting buffers: each worker tracks the statistics of its own examples.
        self.replica: DistributedDataParallel = DistributedDataParallel(
            self.module, forward_sync_buffers=False
        )
        # Its clocks run at every step; left to themselves, after the tenth at every hundredth.
        self.replica._set_ddp_runtime_logging_sample_rate(1)  # type: ignore[no-untyped-call]
        if job.run.gradient_exchange.compression == "float16":
            self.replica.register_comm_hook(None, fp16_compress_hook)
        self.last_gradient_s: float | None = None

    def instrumented_step(self, batch: Batch, mark: PhaseMark) -> torch.Tensor:
        """Make the same step; the backward pass has ended when the last gradient is there."""
        if self.last_gradient_s is None:  # the first such step: bare ones have no hooks
            self._register_gradient_hooks()
        loss = self.forward(batch)
        mark("forward")
        loss.backward()  # type: ignore[no-untyped-call]
        mark("backward", self.last_gradient_s)
        mark("communication")
        self.update()
        mark("update")
        return loss.detach()

    def _register_gradient_hooks(self) -> None:
        """Have the clock read at every gradient, from now on."""

        def note(_: torch.Tensor) -> None:
            self.last_gradient_s = monotonic()

        for _, weight in named_weights(self.module):
            weight.register_hook(note)  # type: ignore[no-untyped-call]

    def communication_stats(self) -> CommunicationStats:
        """Sum up what DDP's own clocks say, of all steps but the last: it tells their means."""
        told = self.replica._get_ddp_logging_data()  # type: ignore[no-untyped-call]
        steps = int(told.get("iteration", 0))
        exchange_ns = told.get("avg_backward_comm_time", 0)
        overlap_ns = told.get("avg_backward_compute_comm_overlap_time", 0)
        return CommunicationStats(steps, steps * exchange_ns / 1e9, steps * overlap_ns / 1e9)

    def close(self) -> None:
        """Leave the group together."""
        destroy_process_group()


class LocalSGDTrainer(LocalTrainer):
    """A worker that makes steps of its own; the weights are averaged now and then: local SGD.

    What the optimizer keeps stays each worker's own.
    """

    def __init__(self, setup: TrainingSetup, job: WorkerJob) -> None:
        super().__init__(setup)
        init_process_group(job)
        self.parameters = [weight for _, weight in named_weights(self.module)]
        self.workers = job.run.topology.workers
        self.local_steps = job.run.gradient_exchange.local_steps
        self.steps = 0

    def step(self, batch: Batch) -> torch.Tensor:
        """Make one training step, and average the weights if it is time."""
        loss = super().step(batch)
        if self._is_averaging_step():
            self._average_weights()
        return loss

    def instrumented_step(self, batch: Batch, mark: PhaseMark) -> torch.Tensor:
        """Make the same step; without an exchange, communication is nothing."""
        loss = super().instrumented_step(batch, mark)
        if self._is_averaging_step():
            self._average_weights()
        mark("communication")
        return loss

    def _is_averaging_step(self) -> bool:
        self.steps += 1
        return self.steps % self.local_steps == 0

    def _average_weights(self) -> None:
        flat = parameters_to_vector(self.parameters).detach()
        dist.all_reduce(flat)
        flat /= self.workers
        vector_to_parameters(flat, self.parameters)

    def close(self) -> None:
        """Leave the group together."""
        destroy_process_group()


def init_process_group(job: WorkerJob) -> None:
    """Enter the process group: the workers by their ranks, behind them the servers.

    The first worker's endpoint is the meeting place. Left to itself, PyTorch would open it on
    all interfaces of the machine; here it is handed a socket that is bound to the endpoint.
    """
    workers, servers = job.endpoints.worker, job.endpoints.server
    place = job.rank if job.role == "worker" else len(workers) + job.rank
    members = (*workers, *servers)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", _network_interface(members[place]))
    host, port = workers[0].rsplit(":", 1)
    timeout = timedelta(seconds=job.run.timeout_s)
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


def destroy_process_group() -> None:
    """Leave the process group together with all others: one that goes early is an error to them."""
    dist.barrier()
    dist.destroy_process_group()


def _network_interface(endpoint: str) -> str:
    """Name the network interface that carries an endpoint's address."""
    address = socket.gethostbyname(endpoint.rsplit(":", 1)[0])
    for name, addresses in psutil.net_if_addrs().items():
        if any(entry.address == address for entry in addresses):
            return name
    return "lo"


@dataclass(frozen=True)
class ShardSpec:
    """What a server is told of its slice before it gets the numbers.

    Attributes
    ----------
    pieces
        Length and weight decay of each tensor, or part of a tensor, in the slice.
    part
        The name of the slice: its place in the vector of all weights, ``first:behind``.
    """

    optimizer: OptimizerConfig
    dtype: torch.dtype
    pieces: tuple[tuple[int, float], ...]
    part: str

    @property
    def length(self) -> int:
        """Numbers in the slice."""
        return sum(length for length, _ in self.pieces)


def shard_bounds(length: int, servers: int) -> list[tuple[int, int]]:
    """Cut a vector evenly: first element of each slice, and first behind it."""
    ends = [length * server // servers for server in range(servers + 1)]
    return list(pairwise(ends))


def shard_specs(setup: TrainingSetup, module: nn.Module, servers: int) -> list[ShardSpec]:
    """Describe the slice of each server."""
    named = list(named_weights(module))
    lengths = [(weight.numel(), setup.weight_decay_of(name)) for name, weight in named]
    total = sum(length for length, _ in lengths)
    return [
        ShardSpec(
            setup.optimizer,
            named[0][1].dtype,
            _shard_pieces(lengths, first, behind),
            shard_name(first, behind),
        )
        for first, behind in shard_bounds(total, servers)
    ]


def shard_name(start: int, stop: int) -> str:
    """Name a slice of the vector of all weights."""
    return f"{start}:{stop}"


def _shard_pieces(
    lengths: Sequence[tuple[int, float]], start: int, stop: int
) -> tuple[tuple[int, float], ...]:
    """Cut a slice at the ends of the tensors."""
    pieces = []
    begin = 0
    for length, decay in lengths:
        inside = min(begin + length, stop) - max(begin, start)
        if inside > 0:
            pieces.append((inside, decay))
        begin += length
    return tuple(pieces)


class ParameterServerTrainer(LocalTrainer):
    """A worker that sends gradients and receives weights.

    Attributes
    ----------
    flat
        All weights in a row. The module's weights are views of it, so that what the servers
        send is in its place when it has come.
    """

    def __init__(self, setup: TrainingSetup, job: WorkerJob) -> None:
        super().__init__(setup)
        topology = job.run.topology
        self.parameters = [weight for _, weight in named_weights(self.module)]
        self.flat_weights = parameters_to_vector(self.parameters).detach()
        vector_to_parameters(self.flat_weights, self.parameters)
        slices = shard_bounds(len(self.flat_weights), topology.servers)
        self.servers = {topology.workers + place: cut for place, cut in enumerate(slices)}
        self.recorder = push_recorder(job)
        init_process_group(job)
        if job.rank == 0:
            self._send_initial_weights()

    def _send_initial_weights(self) -> None:
        """Tell the servers the update rule and the initial weights; all workers hold the same."""
        described = shard_specs(self.setup, self.module, len(self.servers))
        for (server, (first, behind)), shard in zip(self.servers.items(), described, strict=True):
            dist.send_object_list([shard], server)
            dist.send(self.flat_weights[first:behind], server)

    def step(self, batch: Batch) -> torch.Tensor:
        """Make one training step."""
        loss = self.forward(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        self.push_and_pull()
        return loss.detach()

    def instrumented_step(self, batch: Batch, mark: PhaseMark) -> torch.Tensor:
        """Make the same step, phase by phase."""
        loss = self.forward(batch)
        mark("forward")
        loss.backward()  # type: ignore[no-untyped-call]
        mark("backward")
        self.push_and_pull()
        mark("communication")
        return loss.detach()

    def push_and_pull(self) -> None:
        """Send the gradient to the servers and receive the new weights.

        To receive is asked for first: a server's answer then never waits for this worker. A
        worker clips its own gradient: a server sees a slice of it.
        """
        self.clip_gradients()
        gradients = [weight.grad for weight in self.parameters if weight.grad is not None]
        gradient = parameters_to_vector(gradients)
        self._record_push(gradient)
        under_way = [
            transfer
            for server, (first, behind) in self.servers.items()
            for transfer in (
                dist.irecv(self.flat_weights[first:behind], server),
                dist.isend(gradient[first:behind], server),
            )
        ]
        for transfer in under_way:
            if transfer is not None:
                transfer.wait()

    def _record_push(self, gradient: torch.Tensor) -> None:
        """Note what is about to be sent, if the updates are recorded."""
        if self.recorder is None:
            return
        for first, behind in self.servers.values():
            weights = self.flat_weights[first:behind].numpy()
            self.recorder.record(shard_name(first, behind), weights, gradient[first:behind].numpy())

    def optimizer_state(self) -> Weights:
        """Read nothing: what the optimizer keeps is on the servers."""
        return {}

    def close(self) -> None:
        """Leave together; the servers, which know how many steps there are, leave too."""
        if self.recorder is not None:
            self.recorder.write(
                self._receive_server_weights() if self.recorder.needs_server_weights else {}
            )
        destroy_process_group()

    def _receive_server_weights(self) -> Weights:
        """Receive the weights that the servers have when all workers have made their steps."""
        for server, (first, behind) in self.servers.items():
            dist.recv(self.flat_weights[first:behind], server)
        return self.weights()

"""Distributed training with PyTorch over gloo or NCCL: DDP, local SGD, parameter servers."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from time import monotonic
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from horizont.config.jobs import WorkerJob
from horizont.config.workload import OptimizerConfig
from horizont.frameworks.base import CommunicationStats, PhaseMark, TrainingSetup, Weights
from horizont.frameworks.endpoints import network_interface, split_endpoint
from horizont.frameworks.torch.input import Batch
from horizont.frameworks.torch.train import LocalTrainer
from horizont.frameworks.updates import push_recorder


class WorkerTrainer(LocalTrainer):
    """A trainer of one of several processes."""

    def __init__(self, setup: TrainingSetup, job: WorkerJob) -> None:
        super().__init__(setup)
        init_process_group(job)

    def close(self) -> None:
        """Leave the process group together: the others fail if one process leaves early."""
        destroy_process_group()


class AllReduceTrainer(WorkerTrainer):
    """A worker that averages gradients with the others through DistributedDataParallel.

    DDP overlaps the exchange with the backward pass, in instrumented steps, too.

    Attributes
    ----------
    read_clock
        Returns the end of a phase, as `instrumented_step` passes it to its mark.
    """

    read_clock: Callable[[], Any] = staticmethod(monotonic)

    def __init__(self, setup: TrainingSetup, job: WorkerJob) -> None:
        super().__init__(setup, job)
        # Buffers are not broadcast: each worker tracks the statistics of its own examples.
        self.replica: DistributedDataParallel = DistributedDataParallel(
            self.module, forward_sync_buffers=False
        )
        if setup.device == "cpu":
            # DDP's clocks run at every step; by default at every hundredth after the tenth.
            self.replica._set_ddp_runtime_logging_sample_rate(1)
        if job.run.gradient_exchange.compression == "float16":
            self.replica.register_comm_hook(None, fp16_compress_hook)
        self.last_gradient: Any = None

    def instrumented_step(self, batch: Batch, mark: PhaseMark) -> torch.Tensor:
        """Run the same step; the backward pass ends with the last gradient."""
        if self.last_gradient is None:  # uninstrumented steps before this one have no hooks
            self._register_gradient_hooks()
        loss = self.forward(batch)
        mark("forward")
        loss.backward()
        mark("backward", self.last_gradient)
        mark("communication")
        self.update()
        mark("update")
        return loss.detach()

    def _register_gradient_hooks(self) -> None:
        """Register hooks that read the clock at every gradient."""

        def record_time(_: torch.Tensor) -> None:
            self.last_gradient = self.read_clock()

        for weight in self.parameters.values():
            weight.register_hook(record_time)

    def communication_stats(self) -> CommunicationStats | None:
        """Return the sums over all steps but the last; DDP logs their means."""
        logged = self.replica._get_ddp_logging_data()
        steps = int(logged.get("iteration", 0))
        exchange_ns = logged.get("avg_backward_comm_time", 0)
        overlap_ns = logged.get("avg_backward_compute_comm_overlap_time", 0)
        return CommunicationStats(steps, steps * exchange_ns / 1e9, steps * overlap_ns / 1e9)


class LocalSGDTrainer(WorkerTrainer):
    """A worker that averages the weights with the others every `local_steps` steps: local SGD.

    The optimizer state is not averaged.
    """

    def __init__(self, setup: TrainingSetup, job: WorkerJob) -> None:
        super().__init__(setup, job)
        self.workers = job.run.topology.workers
        self.local_steps = job.run.gradient_exchange.local_steps
        self.steps = 0

    def step(self, batch: Batch) -> torch.Tensor:
        """Run one training step, and average the weights after every `local_steps`."""
        loss = super().step(batch)
        if self._is_averaging_step():
            self._average_weights()
        return loss

    def instrumented_step(self, batch: Batch, mark: PhaseMark) -> torch.Tensor:
        """Run the same step; without averaging, the communication phase is empty."""
        loss = super().instrumented_step(batch, mark)
        if self._is_averaging_step():
            self._average_weights()
        mark("communication")
        return loss

    def _is_averaging_step(self) -> bool:
        self.steps += 1
        return self.steps % self.local_steps == 0

    def _average_weights(self) -> None:
        flat = parameters_to_vector(self.parameters.values()).detach()
        dist.all_reduce(flat)
        flat /= self.workers
        vector_to_parameters(flat, self.parameters.values())


def init_process_group(job: WorkerJob) -> None:
    """Join the process group: the workers by their ranks, followed by the servers.

    The CPUs exchange through gloo, the GPUs through NCCL.

    The store listens on the first worker's endpoint. By default PyTorch would open it on all
    interfaces of the machine; here it receives a socket that is bound to the endpoint.
    """
    workers, servers = job.endpoints.worker, job.endpoints.server
    rank = job.rank if job.role == "worker" else len(workers) + job.rank
    members = (*workers, *servers)
    interface = network_interface(members[rank])
    os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={interface}")  # the name, not a prefix of it
    host, port = split_endpoint(workers[0])
    timeout = timedelta(seconds=job.run.timeout_s)
    listening = socket.create_server((host, port)).detach() if rank == 0 else None
    store = dist.TCPStore(
        host,
        port,
        len(members),
        is_master=rank == 0,
        timeout=timeout,
        wait_for_workers=False,
        master_listen_fd=listening,
    )
    is_on_gpu = job.device == "cuda"
    dist.init_process_group(
        "nccl" if is_on_gpu else "gloo",
        store=store,
        rank=rank,
        world_size=len(members),
        timeout=timeout,
        device_id=torch.device("cuda", 0) if is_on_gpu else None,  # the only one it sees
    )


def destroy_process_group() -> None:
    """Leave the process group together: the others fail if one process leaves early."""
    dist.barrier()
    dist.destroy_process_group()


@dataclass(frozen=True)
class ShardSpec:
    """The slice of the weight vector that a server holds; sent to it before the numbers.

    Attributes
    ----------
    pieces
        Length and weight decay of each tensor, or part of a tensor, in the slice.
    part
        The name of the slice: its range in the vector of all weights, ``start:stop``.
    """

    optimizer: OptimizerConfig
    dtype: torch.dtype
    pieces: tuple[tuple[int, float], ...]
    part: str

    @property
    def length(self) -> int:
        """The number of elements."""
        return sum(length for length, _ in self.pieces)


def shard_name(start: int, stop: int) -> str:
    """Return the name of a slice of the vector of all weights."""
    return f"{start}:{stop}"


class ParameterServerTrainer(WorkerTrainer):
    """A worker that sends gradients to servers and receives weights.

    Attributes
    ----------
    flat_weights
        The vector of all weights. The weights of the module are views of it, so they need no copy
        of what the servers send.
    servers
        Start and stop of the slice of each server, by its rank in the process group.
    """

    update_phase = "communication"

    def __init__(self, setup: TrainingSetup, job: WorkerJob) -> None:
        super().__init__(setup, job)
        workers, servers = job.run.topology.workers, job.run.topology.servers
        self.flat_weights = parameters_to_vector(self.parameters.values()).detach()
        vector_to_parameters(self.flat_weights, self.parameters.values())
        ends = [len(self.flat_weights) * server // servers for server in range(servers + 1)]
        self.servers = dict(enumerate(pairwise(ends), start=workers))
        self.recorder = push_recorder(job)
        if job.rank == 0:
            self._send_initial_weights()

    def _send_initial_weights(self) -> None:
        """Send update rule and initial weights, which all workers share, to the servers."""
        for server, (start, stop) in self.servers.items():
            shard = ShardSpec(
                self.setup.optimizer,
                self.flat_weights.dtype,
                self._shard_pieces(start, stop),
                shard_name(start, stop),
            )
            dist.send_object_list([shard], server)
            dist.send(self.flat_weights[start:stop], server)

    def _shard_pieces(self, start: int, stop: int) -> tuple[tuple[int, float], ...]:
        """Split a slice at the boundaries of the tensors: length and weight decay of each piece."""
        pieces = []
        begin = 0
        for name, weight in self.parameters.items():
            end = begin + weight.numel()
            length = min(end, stop) - max(begin, start)
            if length > 0:
                pieces.append((length, self.setup.weight_decay_of(name)))
            begin = end
        return tuple(pieces)

    def update(self) -> None:
        """Send the gradient to the servers and receive the new weights.

        Receiving is posted first, so that a server's reply never waits for this worker. A worker
        clips its own gradient, of which each server receives a slice only.
        """
        self.clip_gradients()
        gradients = [weight.grad for weight in self.parameters.values() if weight.grad is not None]
        gradient = parameters_to_vector(gradients)
        if self.recorder is not None:
            for start, stop in self.servers.values():
                weights = self.flat_weights[start:stop].numpy()
                self.recorder.record(shard_name(start, stop), weights, gradient[start:stop].numpy())
        transfers = [
            transfer
            for server, (start, stop) in self.servers.items()
            for transfer in (
                dist.irecv(self.flat_weights[start:stop], server),
                dist.isend(gradient[start:stop], server),
            )
        ]
        for transfer in transfers:
            if transfer is not None:
                transfer.wait()

    def optimizer_state(self) -> Weights:
        """Return no state: the servers hold it."""
        return {}

    def close(self) -> None:
        """Leave together with the servers, which know the number of steps."""
        if self.recorder is not None:
            self.recorder.write(
                self._receive_server_weights() if self.recorder.needs_server_weights else {}
            )
        super().close()

    def _receive_server_weights(self) -> Weights:
        """Receive the weights of the servers after the last step of all workers."""
        for server, (start, stop) in self.servers.items():
            dist.recv(self.flat_weights[start:stop], server)
        return self.weights()

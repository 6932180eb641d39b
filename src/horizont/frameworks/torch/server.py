"""A parameter server on PyTorch's primitives: it holds a slice of the weights and updates it.

Synchronous: the gradients of all workers are averaged for one update, and all workers receive the
new weights. Asynchronous: each gradient, in the order of arrival, is one update with the full
learning rate, and only its worker receives the weights after it.
"""

from __future__ import annotations

from queue import SimpleQueue
from threading import Thread

import torch
import torch.distributed as dist
from torch import nn

from horizont.config.jobs import WorkerJob
from horizont.frameworks.torch.distributed import (
    ShardSpec,
    destroy_process_group,
    init_process_group,
)
from horizont.frameworks.torch.optimizer import build_optimizer
from horizont.frameworks.updates import record_applied


def serve(job: WorkerJob) -> None:
    """Serve until every worker has run its steps."""
    init_process_group(job)
    shard_type = WeightShard if job.run.record_updates == "none" else RecordingShard
    shard = shard_type(*_receive_shard())
    receiver = GradientReceiver(shard.flat, job.run.topology.workers, job.run.steps.total)
    if job.run.system.sync == "sync":
        serve_synchronous(shard, receiver)
    else:
        serve_asynchronous(shard, receiver)
    if job.run.record_updates == "gradients":
        dist.send(shard.flat, 0)
    destroy_process_group()


def _receive_shard() -> tuple[ShardSpec, torch.Tensor]:
    """Receive the slice and its initial weights from the first worker."""
    received: list[ShardSpec] = [None]  # type: ignore[list-item]
    dist.recv_object_list(received, 0)
    flat = torch.empty(received[0].length, dtype=received[0].dtype)
    dist.recv(flat, 0)
    return received[0], flat


class WeightShard:
    """A slice of the weights with its optimizer."""

    def __init__(self, shard: ShardSpec, flat: torch.Tensor) -> None:
        self.part = shard.part
        self.flat = flat
        self.lengths = [length for length, _ in shard.pieces]
        self.parameters = [nn.Parameter(piece) for piece in torch.split(self.flat, self.lengths)]
        decays = [decay for _, decay in shard.pieces]
        self.optimizer = build_optimizer(shard.optimizer, zip(self.parameters, decays, strict=True))

    def update(self, gradient: torch.Tensor) -> None:
        """Apply a gradient."""
        pieces = torch.split(gradient, self.lengths)
        for parameter, piece in zip(self.parameters, pieces, strict=True):
            parameter.grad = piece
        self.optimizer.step()


class RecordingShard(WeightShard):
    """A slice that records each update."""

    def update(self, gradient: torch.Tensor) -> None:
        """Apply a gradient and record the update."""
        before = self.flat.numpy().copy()
        super().update(gradient)
        record_applied(self.part, before, gradient.numpy(), self.flat.numpy())


class GradientReceiver:
    """The gradients of all workers, received in parallel.

    A thread per worker waits for its gradients, so that one can arrive while another is applied,
    and so that the loss of a worker is detected at once. A worker sends its next gradient only
    after the reply to the last one; until then its buffer is not overwritten.
    """

    def __init__(self, like: torch.Tensor, workers: int, steps: int) -> None:
        self.gradients = [torch.empty_like(like) for _ in range(workers)]
        self.steps = steps
        self._arrived: SimpleQueue[int | BaseException] = SimpleQueue()
        for worker in range(workers):
            Thread(target=self._receive, args=(worker,), daemon=True).start()

    def _receive(self, worker: int) -> None:
        try:
            for _ in range(self.steps):
                dist.recv(self.gradients[worker], worker)
                self._arrived.put(worker)
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            self._arrived.put(error)

    def receive(self) -> int:
        """Wait for the next gradient and return the rank of its worker.

        If a worker is lost, raise the error that its thread met.
        """
        arrived = self._arrived.get()
        if isinstance(arrived, BaseException):
            raise arrived
        return arrived


def serve_synchronous(shard: WeightShard, receiver: GradientReceiver) -> None:
    """Apply the mean gradient of all workers, step by step."""
    workers = range(len(receiver.gradients))
    for _ in range(receiver.steps):
        for _ in workers:
            receiver.receive()
        mean, *others = receiver.gradients  # summed by rank, independent of the order of arrival
        for other in others:
            mean += other
        mean /= len(workers)
        shard.update(mean)
        for reply in [dist.isend(shard.flat, worker) for worker in workers]:
            _wait(reply)


def serve_asynchronous(shard: WeightShard, receiver: GradientReceiver) -> None:
    """Apply each gradient in the order of arrival.

    A reply is a copy of the weights: the next update changes them while it is being sent.
    """
    replies = [torch.empty_like(shard.flat) for _ in receiver.gradients]
    pending: dict[int, dist.Work | None] = {}
    for _ in range(receiver.steps * len(receiver.gradients)):
        worker = receiver.receive()
        shard.update(receiver.gradients[worker])
        _wait(pending.pop(worker, None))
        replies[worker].copy_(shard.flat)
        pending[worker] = dist.isend(replies[worker], worker)
    for reply in pending.values():
        _wait(reply)


def _wait(transfer: dist.Work | None) -> None:
    if transfer is not None:
        transfer.wait()

"""A PyTorch parameter server: it keeps a slice of the weights and changes it.

Synchronous: the gradients of all workers are averaged for one update, and all workers get the new
weights. Asynchronous: each gradient, in the order of arrival, makes an update of its own with the
full learning rate, and its worker alone gets the weights as they then are.
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
from horizont.frameworks.torch.optimizer import make_optimizer
from horizont.frameworks.updates import record_applied


def serve(job: WorkerJob) -> None:
    """Serve until every worker has made its steps."""
    init_process_group(job)
    kept = (WeightShard if job.run.record_updates == "none" else RecordingShard)(*_receive_shard())
    inbox = GradientReceiver(kept.flat, job.run.topology.workers, job.run.steps.total)
    if job.run.system.sync == "sync":
        serve_synchronous(kept, inbox)
    else:
        serve_asynchronous(kept, inbox)
    if job.run.record_updates == "gradients":
        dist.send(kept.flat, 0)
    destroy_process_group()


def _receive_shard() -> tuple[ShardSpec, torch.Tensor]:
    """Hear from the first worker what to keep."""
    told: list[ShardSpec] = [None]  # type: ignore[list-item]
    dist.recv_object_list(told, 0)
    flat = torch.empty(told[0].length, dtype=told[0].dtype)
    dist.recv(flat, 0)
    return told[0], flat


class WeightShard:
    """A slice of the weights under its update rule."""

    def __init__(self, shard: ShardSpec, flat: torch.Tensor) -> None:
        self.part = shard.part
        self.flat = flat
        self.lengths = [length for length, _ in shard.pieces]
        self.parameters = [nn.Parameter(piece) for piece in torch.split(self.flat, self.lengths)]
        decays = [decay for _, decay in shard.pieces]
        self.optimizer = make_optimizer(shard.optimizer, zip(self.parameters, decays, strict=True))

    def update(self, gradient: torch.Tensor) -> None:
        """Change the slice against a gradient."""
        for member, piece in zip(self.parameters, torch.split(gradient, self.lengths), strict=True):
            member.grad = piece
        self.optimizer.step()


class RecordingShard(WeightShard):
    """The same, with a note of each update."""

    def update(self, gradient: torch.Tensor) -> None:
        """Change the slice, and note it."""
        before = self.flat.numpy().copy()
        super().update(gradient)
        record_applied(self.part, before, gradient.numpy(), self.flat.numpy())


class GradientReceiver:
    """The gradients that come in, from all workers at once.

    A thread for each worker waits for its gradients, so that one can arrive while another is
    applied, and so that a worker that is lost is noticed at once. A worker sends its next
    gradient only after the answer to the last; until then the room for it is left alone.
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
        """Wait for a gradient and tell whose it is.

        Raises
        ------
        RuntimeError
            If a worker is lost.
        """
        arrived = self._arrived.get()
        if isinstance(arrived, BaseException):
            raise arrived
        return arrived


def serve_synchronous(shard: WeightShard, receiver: GradientReceiver) -> None:
    """Make one update of the gradients of all workers, step by step."""
    workers = range(len(receiver.gradients))
    for _ in range(receiver.steps):
        for _ in workers:
            receiver.receive()
        mean, *others = receiver.gradients  # summed in the order of the ranks, whoever came first
        for other in others:
            mean += other
        mean /= len(workers)
        shard.update(mean)
        answers = [dist.isend(shard.flat, worker) for worker in workers]
        for answer in answers:
            if answer is not None:
                answer.wait()


def serve_asynchronous(shard: WeightShard, receiver: GradientReceiver) -> None:
    """Make an update of each gradient that comes in.

    An answer is a copy of the weights: while it is on its way, the next update changes them.
    """
    answers = [torch.empty_like(shard.flat) for _ in receiver.gradients]
    under_way: dict[int, dist.Work | None] = {}
    for _ in range(receiver.steps * len(receiver.gradients)):
        worker = receiver.receive()
        shard.update(receiver.gradients[worker])
        _wait(under_way.pop(worker, None))
        answers[worker].copy_(shard.flat)
        under_way[worker] = dist.isend(answers[worker], worker)
    for answer in under_way.values():
        _wait(answer)


def _wait(transfer: dist.Work | None) -> None:
    if transfer is not None:
        transfer.wait()

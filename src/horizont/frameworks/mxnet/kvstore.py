"""Joining and leaving MXNet's parameter servers."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import mxnet as mx

from horizont.config.jobs import WorkerJob
from horizont.errors import UserError
from horizont.frameworks.base import PhaseEnds, TrainingSetup, Weights
from horizont.frameworks.mxnet.adapter import set_role
from horizont.frameworks.mxnet.input import Batch
from horizont.frameworks.mxnet.optimizer import build_optimizer
from horizont.frameworks.mxnet.train import EngineTimestamps, LocalTrainer, PendingLoss
from horizont.frameworks.updates import push_recorder, record_applied


def connect(job: WorkerJob) -> Any:
    """Wait for all processes of the job and return the KVStore they form.

    A worker that fails must not wait for the others while its interpreter ends: they wait for
    its gradients, and nobody would ever hear of the failure. So the store is told not to, until
    :func:`wait_for_all_at_exit` says otherwise.
    """
    set_role(job)
    store = mx.kv.create("dist_sync" if job.run.system.sync == "sync" else "dist_async")
    _set_barrier_before_exit(store, False)
    return store


def wait_for_workers_at_exit(store: Any) -> None:
    """Have the store wait for the other workers and let the servers go when it is freed."""
    _set_barrier_before_exit(store, True)


def _set_barrier_before_exit(store: Any, wanted: bool) -> None:
    """Reach for a setting that MXNet's library has and its Python lost."""
    call = mx.base._LIB.MXKVStoreSetBarrierBeforeExit
    mx.base.check_call(call(store.handle, ctypes.c_int(wanted)))


#: From so many numbers on MXNet cuts a weight among several servers, if it is not told otherwise.
DEFAULT_BIGARRAY_BOUND = 1_000_000


class RecordingOptimizer(mx.optimizer.Optimizer):  # type: ignore[misc]
    """An update rule that notes each of its updates.

    Parameters
    ----------
    rule
        The rule that changes the weights.
    parts
        The names of the weights, by their keys.
    """

    def __init__(self, optimizer: Any, weight_names: tuple[str, ...]) -> None:
        super().__init__()
        self.optimizer = optimizer
        self.weight_names = weight_names
        self.aggregate_num = optimizer.aggregate_num

    def create_state_multi_precision(self, index: Any, weight: Any) -> Any:
        """Make what the rule keeps of a weight."""
        return self.optimizer.create_state_multi_precision(index, weight)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Change a weight, or each of a list, and note it."""
        several = isinstance(index, list | tuple)
        indices, weights, grads = (index, weight, grad) if several else ([index], [weight], [grad])
        before = [value.asnumpy() for value in weights]
        gradients = [value.asnumpy() for value in grads]
        self.optimizer.update_multi_precision(index, weight, grad, state)
        for key, old, gradient, value in zip(indices, before, gradients, weights, strict=True):
            record_applied(self.weight_names[key], old, gradient, value.asnumpy())


def check_unsharded(setup: TrainingSetup, job: WorkerJob) -> None:
    """Refuse to record weights that are cut: a worker does not see where.

    Raises
    ------
    UserError
        If some weight is spread over several servers.
    """
    bound = int(os.environ.get("MXNET_KVSTORE_BIGARRAY_BOUND", DEFAULT_BIGARRAY_BOUND))
    largest = max(value.size for value in setup.weights.values())
    if job.run.topology.servers > 1 and largest >= bound:
        allowed = f"none with several servers and a weight of {largest} numbers, which MXNet cuts"
        raise UserError("record_updates", job.run.record_updates, allowed)


class ParameterServerTrainer(LocalTrainer):
    """A worker whose weights are kept and changed by servers."""

    def __init__(self, setup: TrainingSetup, job: WorkerJob) -> None:
        if setup.dtype != "float32":
            # The servers take float64 without a word and hand back what float32 leaves of it.
            raise UserError("dtype", setup.dtype, "float32 with MXNet's servers")
        self.job = job
        self.recorder = push_recorder(job)
        super().__init__(setup)

    def _prepare_update(self) -> None:
        """Join the servers, hand them the update rule and the initial weights.

        The KVStore numbers the workers as it likes and takes the weights of its number 0; all
        workers hold the same ones. Gluon's Trainer would do this at its first step, and could
        not let go of the store: :meth:`close` must.
        """
        self.store: Any = connect(self.job)
        run = self.job.run
        share = 1.0 / run.topology.workers if run.system.sync == "sync" else 1.0
        rule = build_optimizer(self.setup, rescale=share)
        if self.recorder is not None:
            check_unsharded(self.setup, self.job)
            rule = RecordingOptimizer(rule, tuple(self.parameters))
        self.store.set_optimizer(rule)
        for key, weight in enumerate(self.weight_arrays):
            self.store.broadcast(key, weight, out=weight)
        mx.nd.waitall()
        self.marked_weights = self.weight_arrays  # each comes back on its own

    def update(self) -> None:
        """Queue the way of the gradients to the servers and of the new weights back.

        The first layers come first, since the next forward pass begins with them. A worker clips
        its own gradients: the servers see one weight at a time and cannot.
        """
        self.clip_gradients()
        if self.recorder is not None:
            self._record_push()
        for key, (gradient, weight) in enumerate(
            zip(self.gradients, self.weight_arrays, strict=True)
        ):
            self.store.pushpull(key, gradient, out=weight, priority=-key)

    def _record_push(self) -> None:
        """Note what is about to be sent. Reading the numbers waits for them."""
        assert self.recorder is not None
        for part, gradient, weight in zip(
            self.parameters, self.gradients, self.weight_arrays, strict=True
        ):
            self.recorder.record(part, weight.asnumpy(), gradient.asnumpy())

    def enqueue_instrumented_step(self, batch: Batch) -> tuple[PendingLoss, PhaseEnds]:
        """Queue one training step with the ends of its phases.

        Each gradient leaves as soon as it is there, as in a bare step; the backward pass has
        ended when all are.
        """
        step = EngineTimestamps()
        losses = self.enqueue_forward(batch, step)
        self.backward(losses)
        step.end_phase("backward", after=self.gradients)
        self.update()
        step.end_phase("communication", blocking=self.weight_arrays)
        return PendingLoss(losses, []), step.phase_ends

    def close(self) -> None:
        """Leave together: wait for the other workers, upon which the servers end."""
        mx.nd.waitall()
        if self.recorder is not None:
            self.recorder.write(self._pull_server_weights())
        wait_for_workers_at_exit(self.store)
        self.store = None  # the last reference: MXNet leaves the job when it frees the store

    def _pull_server_weights(self) -> Weights:
        """Fetch the weights that the servers have when all workers have made their steps."""
        self.store._barrier()
        for key, weight in enumerate(self.weight_arrays):
            self.store.pull(key, out=weight)
        return self.weights()


def serve(job: WorkerJob) -> None:
    """Serve until the workers have left.

    With a role in its environment MXNet serves while it is being imported, and ends the
    process. Here it was imported without one, and is asked to serve afterwards: the same loop,
    but one that returns.
    """
    if job.role not in ("scheduler", "server"):
        raise UserError("role", job.role, ["scheduler", "server"])
    set_role(job)
    mx.kvstore.kvstore_server.KVStoreServer(mx.kv.create("dist")).run()

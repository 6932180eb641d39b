"""Distributed training with MXNet: workers, servers and the scheduler of a KVStore."""

from __future__ import annotations

import ctypes
import os
import traceback
from typing import Any

import mxnet as mx

from horizont.config.jobs import WorkerJob
from horizont.errors import UserError
from horizont.frameworks.base import TrainingSetup, Weights
from horizont.frameworks.mxnet.adapter import set_role
from horizont.frameworks.mxnet.optimizer import build_optimizer
from horizont.frameworks.mxnet.train import EngineTimestamps, LocalTrainer
from horizont.frameworks.updates import push_recorder, record_applied


def connect(job: WorkerJob) -> Any:
    """Wait for all processes of the job and return their KVStore.

    A worker that fails must not wait for the others while its interpreter exits: they wait for its
    gradients, and the failure would never be reported. So the barrier at exit is disabled until the
    trainer is closed.
    """
    set_role(job)
    store = mx.kv.create("dist_sync" if job.run.system.sync == "sync" else "dist_async")
    _set_barrier_before_exit(store, False)
    return store


def _set_barrier_before_exit(store: Any, enabled: bool) -> None:
    """Set an option of MXNet's library that its Python interface does not offer."""
    call = mx.base._LIB.MXKVStoreSetBarrierBeforeExit
    mx.base.check_call(call(store.handle, ctypes.c_int(enabled)))


#: By default MXNet splits a weight of at least so many elements among several servers.
DEFAULT_BIGARRAY_BOUND = 1_000_000


class RecordingOptimizer(mx.optimizer.Optimizer):
    """An optimizer that records each update of another one, by the names of the weights."""

    def __init__(self, optimizer: Any, weight_names: tuple[str, ...]) -> None:
        super().__init__()
        self.optimizer = optimizer
        self.weight_names = weight_names
        self.aggregate_num = optimizer.aggregate_num

    def create_state_multi_precision(self, index: Any, weight: Any) -> Any:
        """Return the initial state of a weight."""
        return self.optimizer.create_state_multi_precision(index, weight)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update a weight, or each one of a list, and record it."""
        several = isinstance(index, list | tuple)
        indices, weights, grads = (index, weight, grad) if several else ([index], [weight], [grad])
        before = [value.asnumpy() for value in weights]
        gradients = [value.asnumpy() for value in grads]
        self.optimizer.update_multi_precision(index, weight, grad, state)
        try:
            for key, old, gradient, value in zip(indices, before, gradients, weights, strict=True):
                record_applied(self.weight_names[key], old, gradient, value.asnumpy())
        except OSError:  # no exception leaves this callback of MXNet's library
            try:
                traceback.print_exc()  # fails, too, if the disk is full
            finally:
                os._exit(1)


def check_unsharded(setup: TrainingSetup, job: WorkerJob) -> None:
    """Check that no weight is split among servers: a worker does not know where."""
    bound = int(os.environ.get("MXNET_KVSTORE_BIGARRAY_BOUND", DEFAULT_BIGARRAY_BOUND))
    largest = max(value.size for value in setup.weights.values())
    if job.run.topology.servers > 1 and largest >= bound:
        allowed = f"none with several servers and a weight of {largest} numbers, which MXNet splits"
        raise UserError("record_updates", job.run.record_updates, allowed)


class ParameterServerTrainer(LocalTrainer):
    """A worker whose weights are held and updated by servers."""

    update_phase = "communication"

    def __init__(self, setup: TrainingSetup, job: WorkerJob) -> None:
        if setup.dtype != "float32":
            # The servers accept float64 silently and return it rounded to float32.
            raise UserError("dtype", setup.dtype, "float32 with MXNet's servers")
        self.job = job
        self.recorder = push_recorder(job)
        super().__init__(setup)

    def _prepare_update(self) -> None:
        """Connect to the servers and send them the optimizer and the initial weights.

        The KVStore assigns its own ranks to the workers and takes the weights of its rank 0; all
        workers hold the same ones. Gluon's Trainer would do this at its first step, and would not
        release the store, which `close` has to.
        """
        self.store: Any = connect(self.job)
        run = self.job.run
        rescale = 1.0 / run.topology.workers if run.system.sync == "sync" else 1.0
        optimizer = build_optimizer(self.setup, rescale)
        if self.recorder is not None:
            check_unsharded(self.setup, self.job)
            optimizer = RecordingOptimizer(optimizer, tuple(self.parameters))
        self.store.set_optimizer(optimizer)
        for key, weight in enumerate(self.weight_arrays):
            self.store.broadcast(key, weight, out=weight)
        mx.nd.waitall()
        self.marked_weights = self.weight_arrays  # each is pulled by an operation of its own

    def update(self) -> None:
        """Queue the push of the gradients to the servers and the pull of the new weights.

        The first layers have the highest priority, since the next forward pass begins with them. A
        worker clips its own gradients: a server receives one weight at a time.
        """
        self.clip_gradients()
        if self.recorder is not None:  # reading the gradients waits for the engine
            named = zip(self.parameters, self.gradients, self.weight_arrays, strict=True)
            for name, gradient, weight in named:
                self.recorder.record(name, weight.asnumpy(), gradient.asnumpy())
        for key, (gradient, weight) in enumerate(
            zip(self.gradients, self.weight_arrays, strict=True)
        ):
            self.store.pushpull(key, gradient, out=weight, priority=-key)

    def end_backward_phase(self, timestamps: EngineTimestamps) -> None:
        """Queue the end of the backward pass.

        As in an uninstrumented step, each gradient is sent as soon as it is available; the backward
        pass ends when all are.
        """
        timestamps.end_phase("backward", after=self.gradients)

    def optimizer_state(self) -> Weights:
        """Return no state: the servers hold it."""
        return {}

    def close(self) -> None:
        """Wait for the other workers, after which the servers stop."""
        mx.nd.waitall()
        if self.recorder is not None:
            self.recorder.write(self._pull_server_weights())
        _set_barrier_before_exit(self.store, True)
        self.store = None  # the last reference: MXNet disconnects when it frees the store

    def _pull_server_weights(self) -> Weights:
        """Return the weights of the servers after the last step of all workers."""
        self.store._barrier()
        for key, weight in enumerate(self.weight_arrays):
            self.store.pull(key, out=weight)
        return self.weights()


def serve(job: WorkerJob) -> None:
    """Run the scheduler or a server until the workers have left.

    With a role in its environment MXNet would serve while it is being imported, and end the
    process. Here it was imported without a role and serves afterwards: the same loop, but it
    returns.
    """
    set_role(job)
    mx.kvstore.kvstore_server.KVStoreServer(mx.kv.create("dist")).run()

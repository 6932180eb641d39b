"""Distributed training with JAX: one process and one device per worker, gloo between them.

The processes share arrays: an array of the group consists of a part on each device. `shard_map`
runs a function on every device with its part, and a collective in it is an instruction of the
compiled program. Gloo listens on the address that the name of the host has.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from horizont.config.jobs import WorkerJob
from horizont.frameworks.base import PhaseMark, TrainingSetup
from horizont.frameworks.jax.input import Batch
from horizont.frameworks.jax.model import Arrays, NetworkState
from horizont.frameworks.jax.train import LocalTrainer, TrainState

#: The name of the axis of the workers.
WORKERS = "workers"

#: Equal on all workers, and of each worker its own part along the first axis.
REPLICATED, SPLIT = P(), P(WORKERS)

#: Weights are equal on all workers; statistics and recurrent state are those of the own examples.
STATE_SPECS = TrainState(REPLICATED, REPLICATED, NetworkState(SPLIT, SPLIT, REPLICATED))

#: Seconds without a sign of life after which the coordination service declares a process lost. The
#: launcher detects a process that ends at once; this is for one that is cut off.
HEARTBEAT_TIMEOUT_S = 30

#: Seconds that a process waits at its end for the others.
SHUTDOWN_TIMEOUT_S = 60


def join(job: WorkerJob) -> Mesh:
    """Join the other workers, whose coordination service runs in the first one.

    Return the devices of the workers in the order of their ranks.
    """
    endpoints = job.endpoints.worker
    jax.distributed.initialize(
        endpoints[0],
        len(endpoints),
        job.rank,
        # By default the service listens on all interfaces of the machine.
        coordinator_bind_address=endpoints[0],
        initialization_timeout=int(job.run.timeout_s),
        heartbeat_timeout_seconds=HEARTBEAT_TIMEOUT_S,
        shutdown_timeout_seconds=SHUTDOWN_TIMEOUT_S,
    )
    return Mesh(np.array(jax.devices()), (WORKERS,))


class WorkerTrainer(LocalTrainer):
    """A trainer of one of several workers."""

    def __init__(self, setup: TrainingSetup, job: WorkerJob) -> None:
        self.mesh = join(job)
        self.compression = job.run.gradient_exchange.compression
        super().__init__(setup)

    def _compile(self) -> None:
        """Wrap the functions, and the average of arrays that each worker has."""
        super()._compile()
        self.average_program = jax.jit(
            jax.shard_map(self.average, mesh=self.mesh, in_specs=SPLIT, out_specs=REPLICATED)
        )

    def average(self, arrays: Arrays) -> Arrays:
        """Average arrays over the workers, inside a function that runs on all of them."""
        if self.compression == "none":
            return lax.pmean(arrays, WORKERS)
        half = jax.tree.map(lambda array: array.astype(jnp.float16), arrays)
        return jax.tree.map(
            lambda mean, array: mean.astype(array.dtype), lax.pmean(half, WORKERS), arrays
        )

    def average_local(self, arrays: Arrays) -> Arrays:
        """Average arrays of this process with those of the others."""
        return to_local(self.average_program(self.to_global(arrays, SPLIT)))

    def to_global(self, arrays: Any, specs: Any) -> Any:
        """Return arrays of the group of which the given ones are the part of this process.

        The specifications form a tree, each for all arrays below it.
        """

        def convert(spec: P, array: jax.Array) -> jax.Array:
            length = len(self.mesh.devices) if spec == SPLIT else 1
            shape = (length * array.shape[0], *array.shape[1:]) if array.ndim else ()
            sharding = NamedSharding(self.mesh, spec)
            return jax.make_array_from_single_device_arrays(shape, sharding, [array])

        return jax.tree.map(
            lambda spec, below: jax.tree.map(lambda array: convert(spec, array), below),
            specs,
            arrays,
            is_leaf=lambda node: isinstance(node, P),
        )

    def close(self) -> None:
        """Leave together with the others: the service runs in one of the processes."""
        jax.distributed.shutdown()


def to_local(arrays: Any) -> Any:
    """Return the part of this process of arrays of the group; nothing is copied."""
    return jax.tree.map(lambda array: array.addressable_data(0), arrays)


class AllReduceTrainer(WorkerTrainer):
    """A worker that averages gradients with the others inside the program of a step.

    An instrumented step computes in programs of this process, with the exchange between them.

    Attributes
    ----------
    group_state
        The train state of the group; `state` is the part of this process.
    """

    group_state: TrainState

    @property
    def state(self) -> TrainState:
        """The train state of this process."""
        state: TrainState = to_local(self.group_state)
        return state

    @state.setter
    def state(self, state: TrainState) -> None:
        self.group_state = self.to_global(state, STATE_SPECS)

    def _compile(self) -> None:
        """Wrap the functions; the program of a step runs on all workers."""
        super()._compile()
        self.group_program = jax.jit(
            jax.shard_map(
                self.train_with_others,
                mesh=self.mesh,
                in_specs=(STATE_SPECS, SPLIT),
                out_specs=(STATE_SPECS, SPLIT),
            ),
            donate_argnums=(0,),
        )

    def train_with_others(self, state: TrainState, batch: Batch) -> tuple[TrainState, jax.Array]:
        """Run one training step on the mean gradients of the workers.

        The weights are declared to differ between the workers while they are differentiated:
        their gradients would otherwise be those of the sum of all losses, which JAX exchanges one
        by one in the middle of the backward pass.
        """
        weights = lax.pcast(state.weights, WORKERS, to="varying")
        loss, _, network, gradients = self.differentiate(weights, state.network, batch, self.masks)
        updated = self.update(state.weights, state.optimizer, self.average(gradients))
        return TrainState(*updated, network), loss[None]

    def step(self, batch: Batch) -> jax.Array:
        """Run one training step."""
        self._start_recurrent_state(len(batch[0]))
        batch = self.to_global(batch, SPLIT)
        self.group_state, loss = self.group_program(self.group_state, batch)
        return loss

    def exchange_gradients(self, gradients: Arrays, mark: PhaseMark) -> Arrays:
        """Average the gradients with those of the others."""
        averaged = jax.block_until_ready(self.average_local(gradients))
        mark("communication")
        return averaged

    def loss_value(self, loss: jax.Array) -> float:
        """Return the loss of this worker as a number."""
        return float(loss.addressable_data(0).sum())


class LocalSGDTrainer(WorkerTrainer):
    """A worker that averages the weights with the others every `local_steps` steps: local SGD.

    The optimizer state is not averaged.
    """

    def __init__(self, setup: TrainingSetup, job: WorkerJob) -> None:
        super().__init__(setup, job)
        self.local_steps = job.run.gradient_exchange.local_steps
        self.steps = 0

    def step(self, batch: Batch) -> jax.Array:
        """Run one training step, and average the weights after every `local_steps`."""
        loss = super().step(batch)
        self._average_weights_if_due()
        return loss

    def instrumented_step(self, batch: Batch, mark: PhaseMark) -> jax.Array:
        """Run the same step; without averaging, the communication phase is empty."""
        loss = super().instrumented_step(batch, mark)
        self._average_weights_if_due()
        jax.block_until_ready(self.state)
        mark("communication")
        return loss

    def compile_instrumented_step(self, batch_size: int) -> None:
        """Compile the instrumented step and the average; neither counts as a step."""
        super().compile_instrumented_step(batch_size)
        self.average_local(self.state.weights)
        self.steps = 0

    def _average_weights_if_due(self) -> None:
        self.steps += 1
        if self.steps % self.local_steps == 0:
            self.state = self.state._replace(weights=self.average_local(self.state.weights))

"""One of several JAX processes that average their gradients: shard_map and pmean."""

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

address = os.environ["COORDINATOR"]
rank, workers = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(address, workers, rank, coordinator_bind_address=address)
mesh = Mesh(np.array(jax.devices()), ("workers",))  # one device in each process

examples = np.load("../examples.npz")


def mean_loss(weights: tuple[jax.Array, jax.Array], x: jax.Array, labels: jax.Array) -> jax.Array:
    """Compute the loss of this worker's share of a batch."""
    weight, bias = weights
    scores = jax.nn.log_softmax(x @ weight + bias)
    return -scores[jnp.arange(len(labels)), labels].mean()


def step(weights: Any, x: jax.Array, labels: jax.Array) -> Any:
    """Run one step on a share of the batch, with the mean of all gradients."""
    own_weights = jax.lax.pcast(weights, "workers", to="varying")
    loss, gradients = jax.value_and_grad(mean_loss)(own_weights, x, labels)
    gradients = jax.lax.pmean(gradients, "workers")
    weights = jax.tree.map(lambda weight, gradient: weight - 0.5 * gradient, weights, gradients)
    return weights, jax.lax.pmean(loss, "workers")


# Weights are equal in all processes; a batch is split along its first axis.
equal, split = P(), P("workers")
step = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=(equal, split, split), out_specs=equal))
weights = jax.device_put((np.zeros((6, 3), "float32"), np.zeros(3, "float32")),
                         NamedSharding(mesh, equal))  # fmt: skip


def share(batch: Any) -> jax.Array:
    """Return an array of the group; this process adds every n-th example of a batch."""
    sharding = NamedSharding(mesh, split)
    return jax.make_array_from_process_local_data(sharding, batch[rank::workers])


losses = []
for x, labels in zip(examples["x"], examples["labels"], strict=True):
    weights, loss = step(weights, share(x), share(labels))
    losses.append(float(loss))

weight, bias = (each.addressable_data(0) for each in weights)
np.savez("result.npz", losses=losses, weight=weight, bias=bias)
jax.distributed.shutdown()

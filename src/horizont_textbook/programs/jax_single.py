"""One JAX process."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

examples = np.load("../examples.npz")


def mean_loss(weights: tuple[jax.Array, jax.Array], x: jax.Array, labels: jax.Array) -> jax.Array:
    """Compute the loss of a batch."""
    weight, bias = weights
    scores = x @ weight + bias
    return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()


optimizer = optax.sgd(0.5)
weights = jnp.zeros((6, 3)), jnp.zeros(3)
state = optimizer.init(weights)


@jax.jit
def step(weights: Any, state: Any, x: jax.Array, labels: jax.Array) -> Any:
    """Run one step of gradient descent; return new arrays, as none can be changed."""
    loss, gradients = jax.value_and_grad(mean_loss)(weights, x, labels)
    updates, state = optimizer.update(gradients, state)
    return optax.apply_updates(weights, updates), state, loss


losses = []
for x, labels in zip(examples["x"], examples["labels"], strict=True):
    weights, state, loss = step(weights, state, x, labels)
    losses.append(float(loss))

np.savez("result.npz", losses=losses, weight=weights[0], bias=weights[1])

"""What the recorder of Keras needs of JAX as its backend: gradients, and double precision.

JAX has no tape: for gradients, the forward pass is executed once more as a function of the
variables, and of a tensor of zeros for each output, which is added to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from . import jax_recorder

operators = jax_recorder.operators

jax.config.update("jax_enable_x64", True)


def versions() -> dict[str, str]:
    """Return the version of the backend."""
    return {"jax": jax.__version__}


def to_array(tensor: Any) -> Any:
    """Copy a tensor; zeros of its shape while it has no values, in the pass for gradients."""
    if isinstance(tensor, jax.core.Tracer):
        return np.zeros(tensor.shape)
    return np.array(tensor)


class Tape:
    """The outputs of one forward pass."""

    def __init__(self) -> None:
        self._outputs: dict[str, Any] = {}
        self._offsets: dict[str, Any] = {}

    def __enter__(self) -> Tape:
        return self

    def __exit__(self, *error: object) -> None:
        del error

    def watch(self, name: str, tensor: Any) -> Any:
        """Record a tensor, the gradient with respect to which is of interest, and return it."""
        if name in self._offsets:
            return tensor + self._offsets[name]
        self._outputs[name] = jax.numpy.zeros_like(tensor)
        return tensor

    def gradients(
        self, loss: Any, variables: Sequence[Any], repeat: Callable[..., Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the gradients of the loss, and norms of those with respect to tensors.

        Parameters
        ----------
        repeat
            Executes the forward pass once more with this tape, for values of the variables, and
            returns the loss and new values.
        """
        del loss

        def function(values: list[Any], offsets: dict[str, Any]) -> Any:
            self._offsets = offsets
            return repeat(values, None)[0]

        values = [each.value for each in variables]
        found, outer = jax.grad(function, argnums=(0, 1))(values, self._outputs)
        return found, {name: jax.numpy.linalg.norm(each) for name, each in outer.items()}


def compiled(
    function: Callable[[Any], Any], stateless: Callable[..., Any], values: Sequence[Any]
) -> Callable[[Any], Any]:
    """Return a function as the backend executes it in `fit` and `predict`: compiled, with a state.

    Parameters
    ----------
    stateless
        The same function of all values and a batch, which returns new values, too.
    values
        The first values.
    """
    del function
    execute, state = jax.jit(stateless), list(values)

    def with_state(batch: Any) -> Any:
        nonlocal state
        result, state = execute(state, batch)
        return result

    return with_state


def evaluating(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that records no operations for gradients: JAX records none."""
    return function

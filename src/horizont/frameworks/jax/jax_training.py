"""Losses and optimizers of JAX as a recorder sees them: what they compute, and settings.

An optimizer has two functions, ``init`` and ``update``. Those of Optax have their settings in the
variables of their closures. It imports nothing of Horizont, and runs wherever JAX does.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .jax_operations import Entry, read_weights, weights_of

Arrays = dict[str, Any]

ROOT, SQUARE = "the root", "the square"


def _parts(transformation: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the transformations in one, in their order: names, and settings of their closures."""
    own: dict[str, Any] = {}
    for function in (transformation.init, transformation.update):
        cells = getattr(function, "__closure__", None) or ()
        for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
            own[name] = cell.cell_contents
    if "update_fns" in own:  # a chain has the functions of its parts
        pairs = zip(own["init_fns"], own["update_fns"], strict=True)
        inner = [SimpleNamespace(init=init, update=update) for init, update in pairs]
    else:
        inner = [own.pop(name) for name in ("tx", "inner") if hasattr(own.get(name), "update")]
    for each in inner:
        yield from _parts(each)
    if not inner:
        yield transformation.update.__qualname__.partition(".")[0], own


def _rule(optimizer: Any) -> dict[str, Any]:
    """Return what the transformations of Optax compute together, as far as it is known."""
    found: dict[str, Any] = {"rule": "SGD"}
    for name, own in _parts(optimizer):
        if name == "scale_by_adam":
            found |= {"rule": "Adam", "beta 1": own["b1"], "beta 2": own["b2"]}
            is_square = own["eps_root"] and not own["eps"]
            found["epsilon"] = own["eps_root"] if is_square else own["eps"]
            found["place of the epsilon"] = SQUARE if is_square else ROOT
        elif name == "scale_by_rms":
            found |= {"rule": "RMSprop", "smoothing": own["decay"]}
            place = SQUARE if own["eps_in_sqrt"] else ROOT
            found |= {"epsilon": own["eps"], "place of the epsilon": place}
            found["initial accumulator"] = own["initial_scale"]
        elif name == "scale_by_rss":
            found |= {"rule": "Adagrad", "epsilon": own["eps"], "place of the epsilon": SQUARE}
            found["initial accumulator"] = own["initial_accumulator_value"]
        elif name == "trace":
            found |= {"momentum": own["decay"], "Nesterov momentum": bool(own["nesterov"])}
        elif name == "add_decayed_weights":
            is_before = found == {"rule": "SGD"}
            found["weight decay"] = own["weight_decay"]
            found["place of the weight decay"] = "the gradient" if is_before else "the weight"
        elif name == "scale" and isinstance(own.get("step_size"), float):
            found["learning rate"] = found.get("learning rate", 1.0) * -own["step_size"]
        elif name == "clip":
            found["clipping"] = ["by value", own["max_delta"]]
        elif name == "clip_by_global_norm":
            found["clipping"] = ["by global norm", own["max_norm"]]
        elif name not in ("identity", "with_extra_args_support"):
            return {"rule": name}
    return found if "learning rate" in found else {"rule": "without a learning rate"}


class Loss:
    """The loss of a model: a function of the result and of classes, or of rows with a one each."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, result: Any, classes: Any, one_hot: Any) -> tuple[Any, Any]:
        """Return the loss of a result, its mean if there are several, and the gradient."""

        def mean(target: Any) -> tuple[Any, Any]:
            return jax.value_and_grad(lambda given: self.function(given, target).mean())(
                jnp.asarray(result)
            )

        try:
            loss, gradient = mean(jnp.asarray(classes))
        except (TypeError, ValueError):
            loss, gradient = mean(jnp.asarray(one_hot))
        return np.asarray(loss), np.asarray(gradient)


class Optimizer:
    """An optimizer of the variables of a model.

    Parameters
    ----------
    leaves
        The values of all variables.
    trained
        A tree of those that it updates, by their numbers.
    """

    def __init__(
        self, optimizer: Any, entries: list[Entry], leaves: list[Any], trained: Any
    ) -> None:
        self.optimizer, self.entries, self.leaves = optimizer, entries, leaves
        self.numbers, self.structure = jax.tree.flatten(trained)

    def rules(self) -> dict[str, dict[str, Any]]:
        """Return the rule of each tensor that is trained, by layer and role."""
        rule = _rule(self.optimizer)
        return {
            key: rule for key, weight in weights_of(self.entries) if weight.number in self.numbers
        }

    def update(self, weights: Arrays, gradients: list[Arrays]) -> Arrays:
        """Return the weights after an update with each of some gradients."""
        parameters = self._tree(weights, self.leaves)
        state = self.optimizer.init(parameters)
        zeros = [jnp.zeros_like(each) for each in self.leaves]
        for each in gradients:
            updates, state = self.optimizer.update(self._tree(each, zeros), state, parameters)
            parameters = jax.tree.map(lambda value, change: value + change, parameters, updates)
        after: list[Any] = [None] * len(self.leaves)
        for number, value in zip(self.numbers, jax.tree.leaves(parameters), strict=True):
            after[number] = value
        return read_weights(self.entries, after)

    def _tree(self, values: Arrays, others: list[Any]) -> Any:
        """Return values in the canonical form as variables; others where there are none."""
        leaves = list(others)
        for key, weight in weights_of(self.entries):
            if (value := values.get(key)) is not None:
                number = weight.number
                leaves[number] = jnp.asarray(weight.back(value), self.leaves[number].dtype)
        return jax.tree.unflatten(self.structure, [leaves[number] for number in self.numbers])

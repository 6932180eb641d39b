"""Losses and optimizers of Keras as a recorder sees them: what they compute, and settings.

It imports nothing of Horizont, and runs wherever Keras does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from .keras_layers import Entry, read_weights, write_weights

Arrays = dict[str, Any]

#: The rule of a class, and where it adds its epsilon.
_RULES = {
    "SGD": ("SGD", ""),
    "Adam": ("Adam", "the root before its correction"),
    "AdamW": ("Adam", "the root before its correction"),
    "RMSprop": ("RMSprop", "the square"),
    "Adagrad": ("Adagrad", "the square"),
}

_NAMES = {
    "momentum": "momentum", "nesterov": "Nesterov momentum", "beta_1": "beta 1",
    "beta_2": "beta 2", "epsilon": "epsilon", "amsgrad": "maximum of squares",
    "rho": "smoothing", "centered": "centered",
    "initial_accumulator_value": "initial accumulator",
}  # fmt: skip

_CLIPPINGS = {
    "clipvalue": "by value", "clipnorm": "by norm", "global_clipnorm": "by global norm",
}  # fmt: skip


def stateless(
    function: Callable[[Any], Any], variables: Sequence[Any]
) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Return a function of values of variables and an argument, which returns new values, too."""

    def execute(values: Any, argument: Any) -> tuple[Any, Any]:
        mapping = list(zip(variables, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping) as scope:
            result = function(argument)
            return result, [scope.get_current_value(each) for each in variables]

    return execute


class Loss:
    """The loss with which a model is compiled."""

    def __init__(self, loss: Any, tape: Any) -> None:
        self.function, self.tape = keras.losses.get(loss), tape
        name = getattr(loss, "name", getattr(loss, "__name__", str(loss)))
        self.has_classes = "sparse" in name

    def __call__(self, result: Any, classes: Any, one_hot: Any) -> tuple[Any, Any]:
        """Return the loss of a result, its mean if there are several, and the gradient."""
        given = keras.Variable(result, dtype="float64")
        target = ops.convert_to_tensor(classes if self.has_classes else one_hot)

        def compute(_: Any = None) -> Any:
            return ops.mean(self.function(target, given.value))

        with self.tape() as tape:
            loss = compute()
        (gradient,), _ = tape.gradients(loss, [given], stateless(compute, [given]))
        return np.array(ops.convert_to_numpy(loss)), np.array(ops.convert_to_numpy(gradient))


class Optimizer:
    """The optimizer with which a model is compiled."""

    def __init__(self, optimizer: Any, entries: list[Entry]) -> None:
        self.optimizer, self.entries = optimizer, entries

    def rules(self) -> dict[str, dict[str, Any]]:
        """Return the rule of each tensor that is trained, by layer and role."""
        return {
            f"{entry.name}|{name}": self._rule(variable)
            for entry in self.entries
            for role, variable in entry.variables.items()
            if variable.trainable
            for name in entry.canonical(role, np.zeros(variable.shape))
        }

    def _rule(self, variable: Any) -> dict[str, Any]:
        config = self.optimizer.get_config()
        name, place = _RULES.get(type(self.optimizer).__name__, (type(self.optimizer).__name__, ""))
        if isinstance(
            self.optimizer._learning_rate, keras.optimizers.schedules.LearningRateSchedule
        ):
            return {"rule": f"{name} with a schedule"}
        found: dict[str, Any] = {"rule": name}
        # The rate has single precision: the shortest number that is rounded to it is meant.
        rate = np.float32(ops.convert_to_numpy(self.optimizer.learning_rate))
        found["learning rate"] = float(str(rate))
        found.update({_NAMES[key]: value for key, value in config.items() if key in _NAMES})
        if place:
            found["place of the epsilon"] = place
        if config.get("weight_decay") and self.optimizer._use_weight_decay(variable):
            found["weight decay"] = float(config["weight_decay"])
            found["place of the weight decay"] = "the weight"
        for key, how in _CLIPPINGS.items():
            if config.get(key) is not None:
                found["clipping"] = [how, float(config[key])]
        return found

    def update(self, weights: Arrays, gradients: list[Arrays]) -> Arrays:
        """Return the weights after an update with each of some gradients."""
        owned = [variable for entry in self.entries for variable in entry.variables.values()]
        trained = [variable for variable in owned if variable.trainable]
        before = [np.array(ops.convert_to_numpy(variable.value)) for variable in owned]
        own = []
        for each in gradients:
            for variable in owned:
                variable.assign(ops.zeros_like(variable.value))
            write_weights(self.entries, each)
            own.append([ops.copy(variable.value) for variable in trained])
        write_weights(self.entries, weights)
        for each_own in own:
            self.optimizer.apply(each_own, trained)
        after = read_weights(self.entries)
        for variable, value in zip(owned, before, strict=True):
            variable.assign(value)
        return after

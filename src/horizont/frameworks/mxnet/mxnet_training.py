"""Losses and trainers of MXNet as a recorder sees them: what they compute, and settings.

It imports nothing of Horizont, and runs wherever MXNet does.
"""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd

from .mxnet_layers import Entry, read_weights, write_weights

Arrays = dict[str, np.ndarray[Any, Any]]

_RULES = {"SGD": "SGD", "NAG": "SGD", "Adam": "Adam", "RMSProp": "RMSprop", "AdaGrad": "Adagrad"}

_NAMES = {
    "momentum": "momentum", "beta1": "beta 1", "beta2": "beta 2", "epsilon": "epsilon",
    "float_stable_eps": "epsilon", "gamma1": "smoothing", "centered": "centered",
}  # fmt: skip


class Loss:
    """The loss of a model: a function of the result and of classes, or of rows with a one each."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, result: Any, classes: Any, one_hot: Any) -> tuple[Any, Any]:
        """Return the loss of a result, its mean if there are several, and the gradient."""
        given = nd.array(result, dtype="float64")
        given.attach_grad()
        try:
            loss = self._recorded(given, nd.array(classes, dtype="float64"))
        except (mx.MXNetError, AssertionError):
            loss = self._recorded(given, nd.array(one_hot, dtype="float64"))
        loss.backward()
        return loss.asnumpy().reshape(()), given.grad.asnumpy()

    def _recorded(self, result: Any, target: Any) -> Any:
        with autograd.record():
            loss = self.function(result, target).mean()
        loss.wait_to_read()  # the engine reports errors late
        return loss


class Optimizer:
    """The trainer of a block."""

    def __init__(self, trainer: gluon.Trainer, entries: list[Entry]) -> None:
        self.trainer, self.entries = trainer, entries

    def rules(self) -> dict[str, dict[str, Any]]:
        """Return the rule of each tensor that is trained, by layer and role."""
        trained = {id(parameter) for parameter in self.trainer._params}
        return {
            f"{entry.name}|{role}": self._rule(first) if id(first) in trained else {"rule": "none"}
            for entry in self.entries
            for role, (first, *others) in entry.parameters.items()
            if first.grad_req != "null" and not others
        }

    def _rule(self, parameter: Any) -> dict[str, Any]:
        optimizer = self.trainer.optimizer
        name = _RULES.get(type(optimizer).__name__, type(optimizer).__name__)
        if optimizer.lr_scheduler is not None:
            return {"rule": f"{name} with a schedule"}
        found: dict[str, Any] = {
            "rule": name,
            "learning rate": optimizer.lr * parameter.lr_mult,
            **{_NAMES[key]: each for key, each in vars(optimizer).items() if key in _NAMES},
        }
        if type(optimizer).__name__ == "NAG":
            found["Nesterov momentum"] = True
        if name == "Adam":
            found["place of the epsilon"] = "the root before its correction"
        elif name in ("RMSprop", "Adagrad"):
            found["place of the epsilon"] = "the square"
        if decay := optimizer.wd * parameter.wd_mult:
            found["weight decay"], found["place of the weight decay"] = decay, "the gradient"
        if optimizer.clip_gradient is not None:
            found["clipping"] = ["by value", float(optimizer.clip_gradient)]
        return found

    def update(self, weights: Arrays, gradients: list[Arrays]) -> Arrays:
        """Return the weights after an update with each of some gradients."""
        trained = list(self.trainer._params)
        owned = [p for entry in self.entries for each in entry.parameters.values() for p in each]
        before = [parameter.data().copy() for parameter in owned]
        own = []
        for each in gradients:
            for parameter in owned:
                parameter.set_data(nd.zeros(parameter.shape, dtype=parameter.dtype))
            write_weights(self.entries, each)
            own.append([parameter.data().copy() for parameter in trained])
        write_weights(self.entries, weights)
        for each_own in own:
            for parameter, gradient in zip(trained, each_own, strict=True):
                if parameter.grad_req != "null":
                    parameter.grad()[:] = gradient
                    parameter.data()._fresh_grad = True
            self.trainer.step(1)
        after = read_weights(self.entries)
        for parameter, value in zip(owned, before, strict=True):
            parameter.set_data(value)
        return after

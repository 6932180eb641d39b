"""Losses and optimizers of PyTorch as a recorder sees them: what they compute, and settings.

It imports nothing of Horizont, and runs wherever PyTorch does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .torch_layers import Entry, read_weights, write_weights

Arrays = dict[str, np.ndarray[Any, Any]]

#: Names of settings in the groups of an optimizer, by what they are here.
_NAMES = {
    "lr": "learning rate", "momentum": "momentum", "dampening": "dampening",
    "nesterov": "Nesterov momentum", "eps": "epsilon", "alpha": "smoothing",
    "centered": "centered", "amsgrad": "maximum of squares", "weight_decay": "weight decay",
    "initial_accumulator_value": "initial accumulator", "maximize": "maximize",
}  # fmt: skip


def _rule(optimizer: Any, group: dict[str, Any]) -> dict[str, Any]:
    """Return the rule of the parameters in a group.

    A class that is none of PyTorch's has the rule that its settings suggest.
    """
    name = type(optimizer).__name__
    if "betas" in group:
        name = "Adam" if "nadam" not in name.lower() else name
    elif "alpha" in group:
        name = "RMSprop"
    elif "lr_decay" in group:
        name = "Adagrad" if not group["lr_decay"] else name
    elif "momentum" in group:
        name = "SGD"
    found = {_NAMES[key]: _plain(value) for key, value in group.items() if key in _NAMES}
    if "betas" in group:
        found["beta 1"], found["beta 2"] = map(float, group["betas"])
    if name != "SGD":
        found["place of the epsilon"] = "the root"
    if found.get("weight decay"):
        is_decoupled = group.get("decoupled_weight_decay", "AdamW" in type(optimizer).__name__)
        found["place of the weight decay"] = "the weight" if is_decoupled else "the gradient"
    return {"rule": name, **found}


def _plain(value: Any) -> Any:
    """Return a number as a float, also that of a tensor; flags and others as they are."""
    is_number = isinstance(value, (int, float, torch.Tensor)) and not isinstance(value, bool)
    return float(value) if is_number else value


class Loss:
    """The loss of a model: a function of the result and of classes, or of rows with a one each."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, result: Any, classes: Any, one_hot: Any) -> tuple[Any, Any]:
        """Return the loss of a result, its mean if there are several, and the gradient."""
        given = torch.as_tensor(result).requires_grad_()
        try:
            loss = self.function(given, torch.as_tensor(classes))
        except (RuntimeError, ValueError) as error:
            try:
                loss = self.function(given, torch.as_tensor(one_hot))
            except (RuntimeError, ValueError):
                raise error from None
        loss = loss.mean()
        loss.backward()
        assert given.grad is not None, "the loss does not depend on the result"
        return loss.detach().numpy(), given.grad.numpy()


class Optimizer:
    """The optimizer of a model."""

    def __init__(self, optimizer: torch.optim.Optimizer, entries: list[Entry]) -> None:
        self.optimizer, self.entries = optimizer, entries

    def rules(self) -> dict[str, dict[str, Any]]:
        """Return the rule of each tensor that is trained, by layer and role."""
        groups = {
            id(parameter): _rule(self.optimizer, group)
            for group in self.optimizer.param_groups
            for parameter in group["params"]
        }
        return {
            f"{entry.name}|{role}": groups.get(id(entry.tensors[role][0]), {"rule": "none"})
            for entry in self.entries
            for role in entry.trainable()
            if len(entry.tensors[role]) == 1
        }

    def update(self, weights: Arrays, gradients: list[Arrays]) -> Arrays:
        """Return the weights after an update with each of some gradients."""
        parameters = [each for group in self.optimizer.param_groups for each in group["params"]]
        owned = [tensor for entry in self.entries for tensor in _tensors(entry)]
        before = [tensor.detach().clone() for tensor in owned]
        own = []
        for each in gradients:
            for tensor in owned:
                tensor.data.zero_()
            write_weights(self.entries, each)
            own.append([parameter.detach().clone() for parameter in parameters])
        write_weights(self.entries, weights)
        for each_own in own:
            for parameter, gradient in zip(parameters, each_own, strict=True):
                parameter.grad = gradient
            self.optimizer.step()
        after = read_weights(self.entries)
        for tensor, value in zip(owned, before, strict=True):
            tensor.data.copy_(value)
        return after


def _tensors(entry: Entry) -> list[Any]:
    return [tensor for each in entry.tensors.values() for tensor in each]

"""The update rules in PyTorch."""

from __future__ import annotations

import torch
from torch import nn

from horizont.frameworks.base import Recipe, Weights
from horizont.frameworks.torch.model import to_numpy

#: What PyTorch calls the slots of an optimizer.
SLOTS = {"velocity": "momentum_buffer", "first": "exp_avg", "second": "exp_avg_sq"}


def build_optimizer(recipe: Recipe, module: nn.Module) -> torch.optim.Optimizer:
    """Build the update rule; weights with different decay are different groups."""
    rule = recipe.optimizer
    groups: dict[float, list[nn.Parameter]] = {}
    for name, parameter in module.named_parameters():
        groups.setdefault(recipe.decay(name), []).append(parameter)
    grouped = [{"params": members, "weight_decay": decay} for decay, members in groups.items()]
    if rule.name == "adam":
        betas = (rule.beta1, rule.beta2)
        return torch.optim.Adam(grouped, rule.learning_rate, betas=betas, eps=rule.epsilon)
    return torch.optim.SGD(
        grouped, rule.learning_rate, momentum=rule.momentum, nesterov=rule.nesterov
    )


def read_state(recipe: Recipe, module: nn.Module, optimizer: torch.optim.Optimizer) -> Weights:
    """Read what the optimizer keeps of each weight."""
    return {
        f"{name}.{slot}": to_numpy(optimizer.state[parameter][SLOTS[slot]])
        for name, parameter in module.named_parameters()
        for slot in recipe.optimizer.slots
    }

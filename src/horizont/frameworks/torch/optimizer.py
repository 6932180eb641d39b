"""The update rules in PyTorch."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from horizont.frameworks.base import Recipe, Weights
from horizont.frameworks.torch.model import named_weights, to_numpy
from horizont.spec import Optimizer

#: What PyTorch calls the slots of an optimizer.
SLOTS = {"velocity": "momentum_buffer", "first": "exp_avg", "second": "exp_avg_sq"}


def build_optimizer(recipe: Recipe, module: nn.Module) -> torch.optim.Optimizer:
    """Build the update rule of a network."""
    decayed = [(weight, recipe.decay(name)) for name, weight in named_weights(module)]
    return build_rule(recipe.optimizer, decayed)


def build_rule(
    rule: Optimizer, decayed: Iterable[tuple[nn.Parameter, float]]
) -> torch.optim.Optimizer:
    """Build the update rule of weights, each with its decay; a group holds those of one decay."""
    groups: dict[float, list[nn.Parameter]] = {}
    for weight, decay in decayed:
        groups.setdefault(decay, []).append(weight)
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
        for name, parameter in named_weights(module)
        for slot in recipe.optimizer.slots
    }


def clip(module: nn.Module, clip_norm: float) -> None:
    """Scale all gradients down together if their norm is larger than allowed.

    PyTorch's own function adds 1e-6 to the norm, the other frameworks add nothing; and its norm
    in float32 adds up the squares in long chains: with the two million numbers of a table of
    words, it was off by up to 4e-4. A sum is added up in short pieces.
    """
    gradients = [value.grad for _, value in named_weights(module) if value.grad is not None]
    norm = torch.stack([(gradient * gradient).sum() for gradient in gradients]).sum().sqrt()
    torch._foreach_mul_(gradients, torch.clamp(clip_norm / norm, max=1.0))

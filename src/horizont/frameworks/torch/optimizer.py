"""The update rules in PyTorch."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from horizont.config.workload import OptimizerConfig
from horizont.frameworks.base import TrainingSetup, Weights
from horizont.frameworks.torch.model import named_weights, to_numpy

#: What PyTorch calls the slots of an optimizer.
SLOTS = {"velocity": "momentum_buffer", "first": "exp_avg", "second": "exp_avg_sq"}


def build_optimizer(setup: TrainingSetup, module: nn.Module) -> torch.optim.Optimizer:
    """Build the update rule of a network."""
    decayed = [(weight, setup.weight_decay_of(name)) for name, weight in named_weights(module)]
    return make_optimizer(setup.optimizer, decayed)


def make_optimizer(
    config: OptimizerConfig, weights: Iterable[tuple[nn.Parameter, float]]
) -> torch.optim.Optimizer:
    """Build the update rule of weights, each with its decay; a group holds those of one decay."""
    groups: dict[float, list[nn.Parameter]] = {}
    for weight, decay in weights:
        groups.setdefault(decay, []).append(weight)
    grouped = [{"params": members, "weight_decay": decay} for decay, members in groups.items()]
    if config.name == "adam":
        betas = (config.beta1, config.beta2)
        return torch.optim.Adam(grouped, config.learning_rate, betas=betas, eps=config.epsilon)
    return torch.optim.SGD(
        grouped, config.learning_rate, momentum=config.momentum, nesterov=config.nesterov
    )


def read_optimizer_state(
    setup: TrainingSetup, module: nn.Module, optimizer: torch.optim.Optimizer
) -> Weights:
    """Read what the optimizer keeps of each weight."""
    return {
        f"{name}.{slot}": to_numpy(optimizer.state[parameter][SLOTS[slot]])
        for name, parameter in named_weights(module)
        for slot in setup.optimizer.slots
    }


def clip_gradients(module: nn.Module, clip_norm: float) -> None:
    """Scale all gradients down together if their norm is larger than allowed.

    PyTorch's own function adds 1e-6 to the norm, the other frameworks add nothing; and its norm
    in float32 adds up the squares in long chains: with the two million numbers of a table of
    words, it was off by up to 4e-4. A sum is added up in short pieces.
    """
    gradients = [value.grad for _, value in named_weights(module) if value.grad is not None]
    norm = torch.stack([(gradient * gradient).sum() for gradient in gradients]).sum().sqrt()
    torch._foreach_mul_(gradients, torch.clamp(clip_norm / norm, max=1.0))

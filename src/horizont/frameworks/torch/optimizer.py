"""Update rules in PyTorch."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from horizont.config.workload import OptimizerConfig
from horizont.frameworks.base import TrainingSetup, Weights
from horizont.frameworks.torch.model import named_weights, to_numpy

#: PyTorch's names of the optimizer slots.
SLOTS = {"velocity": "momentum_buffer", "first": "exp_avg", "second": "exp_avg_sq"}


def build_optimizer(setup: TrainingSetup, module: nn.Module) -> torch.optim.Optimizer:
    """Build the optimizer of a module."""
    weights = [(weight, setup.weight_decay_of(name)) for name, weight in named_weights(module)]
    return make_optimizer(setup.optimizer, weights)


def make_optimizer(
    config: OptimizerConfig, weights: Iterable[tuple[nn.Parameter, float]]
) -> torch.optim.Optimizer:
    """Build an optimizer of weights with their decays; weights of one decay form a group."""
    groups: dict[float, list[nn.Parameter]] = {}
    for weight, decay in weights:
        groups.setdefault(decay, []).append(weight)
    grouped = [{"params": weights, "weight_decay": decay} for decay, weights in groups.items()]
    if config.name == "adam":
        betas = (config.beta1, config.beta2)
        return torch.optim.Adam(grouped, config.learning_rate, betas=betas, eps=config.epsilon)
    return torch.optim.SGD(
        grouped, config.learning_rate, momentum=config.momentum, nesterov=config.nesterov
    )


def read_optimizer_state(
    setup: TrainingSetup, module: nn.Module, optimizer: torch.optim.Optimizer
) -> Weights:
    """Return the optimizer state of each weight."""
    return {
        f"{name}.{slot}": to_numpy(optimizer.state[parameter][SLOTS[slot]])
        for name, parameter in named_weights(module)
        for slot in setup.optimizer.slots
    }


def clip_gradients(module: nn.Module, clip_norm: float) -> None:
    """Scale all gradients by one factor if their joint norm exceeds `clip_norm`.

    PyTorch's own function adds 1e-6 to the norm, the other frameworks add nothing; and its float32
    norm sums the squares in long chains: with the two million numbers of an embedding table it was
    off by up to 4e-4. ``sum`` adds in short pieces.
    """
    gradients = [value.grad for _, value in named_weights(module) if value.grad is not None]
    norm = torch.stack([(gradient * gradient).sum() for gradient in gradients]).sum().sqrt()
    torch._foreach_mul_(gradients, torch.clamp(clip_norm / norm, max=1.0))

"""Update rules in PyTorch."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from horizont.config.workload import OptimizerConfig


def build_optimizer(
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


def clip_gradients(weights: Iterable[nn.Parameter], clip_norm: float) -> None:
    """Scale all gradients by one factor if their joint norm exceeds `clip_norm`.

    PyTorch's own function adds 1e-6 to the norm, the other frameworks add nothing; and its float32
    norm sums the squares in long chains: with the two million numbers of an embedding table it was
    off by up to 4e-4. ``sum`` adds in short pieces.
    """
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    norm = torch.stack([(gradient * gradient).sum() for gradient in gradients]).sum().sqrt()
    torch._foreach_mul_(gradients, torch.clamp(clip_norm / norm, max=1.0))

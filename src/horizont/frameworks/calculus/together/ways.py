"""The four ways of chapter 7 in PyTorch: its own gradients, and gloo in between.

What is exchanged on the way there has its counterpart on the way back. As automatic
differentiation knows nothing of other processes, each pair is written down here, as in Shoeybi et
al., "Megatron-LM: training multi-billion parameter language models using model parallelism", 2019.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional as F

from horizont.theory.backpropagation import WEIGHTS

Tensors = dict[str, torch.Tensor]
Group = dist.ProcessGroup


class SideBySide(torch.autograd.Function):
    """Everybody's columns on the way there, one's own columns of the gradient on the way back."""

    @staticmethod
    def forward(ctx: Any, own: torch.Tensor, group: Group) -> torch.Tensor:
        """Gather."""
        ctx.rank = group.rank()
        parts = [torch.empty_like(own) for _ in range(group.size())]
        dist.all_gather(parts, own.contiguous(), group=group)
        return torch.cat(parts, dim=1)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Cut."""
        return gradients[0].chunk(2, dim=1)[ctx.rank], None


class UsedByAll(torch.autograd.Function):
    """Nothing on the way there, the sum of everybody's gradients on the way back."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, group: Group) -> torch.Tensor:
        """Hand on."""
        ctx.group = group
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Sum."""
        total = gradients[0].contiguous().clone()
        dist.all_reduce(total, group=ctx.group)
        return total, None


class Summed(torch.autograd.Function):
    """The sum of everybody's values on the way there, nothing on the way back."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, group: Group) -> torch.Tensor:
        """Sum."""
        total = values.contiguous().clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Hand on."""
        return gradients[0], None


def by_layers(w: Tensors, x: torch.Tensor, labels: torch.Tensor, group: Group) -> Tensors:
    """Send activations on and gradients back."""
    if group.rank() == 0:
        h = torch.tanh(x @ w["W1"] + w["b1"])
        dist.send(h.detach(), 1)
        by_h = torch.empty_like(h)
        dist.recv(by_h, 1)
        torch.autograd.backward(h, by_h)
        return _gradients(w)
    h = torch.empty(len(labels), len(w["W2"]), dtype=x.dtype)
    dist.recv(h, 0)
    h.requires_grad_()
    _go_back(F.cross_entropy(h @ w["W2"] + w["b2"], labels))
    assert h.grad is not None
    dist.send(h.grad, 0)
    return _gradients(w)


def by_columns(w: Tensors, x: torch.Tensor, labels: torch.Tensor, group: Group) -> Tensors:
    """Put the outputs of each layer side by side."""
    h = SideBySide.apply(torch.tanh(x @ w["W1"] + w["b1"]), group)  # type: ignore[no-untyped-call]
    h = UsedByAll.apply(h, group)  # type: ignore[no-untyped-call]
    z = SideBySide.apply(h @ w["W2"] + w["b2"], group)  # type: ignore[no-untyped-call]
    _go_back(F.cross_entropy(z, labels))
    return _gradients(w)


def by_columns_and_rows(w: Tensors, x: torch.Tensor, labels: torch.Tensor, group: Group) -> Tensors:
    """Sum what each half of the hidden neurons adds to the scores."""
    h = torch.tanh(x @ w["W1"] + w["b1"])
    z = Summed.apply(h @ w["W2"], group) + w["b2"]  # type: ignore[no-untyped-call]
    _go_back(F.cross_entropy(z, labels))
    return _gradients(w)


def by_batch(w: Tensors, x: torch.Tensor, labels: torch.Tensor, group: Group) -> Tensors:
    """Average the gradients of both halves of the batch."""
    _go_back(F.cross_entropy(torch.tanh(x @ w["W1"] + w["b1"]) @ w["W2"] + w["b2"], labels))
    own = _gradients(w)
    row = torch.cat([own[name].flatten() for name in WEIGHTS])
    dist.all_reduce(row, group=group)
    row /= group.size()
    pieces = torch.split(row, [own[name].numel() for name in WEIGHTS])
    return {name: part.view_as(own[name]) for name, part in zip(WEIGHTS, pieces, strict=True)}


#: By the names of `horizont.theory.cuts.WAYS`.
GRADIENTS: dict[str, Callable[[Tensors, torch.Tensor, torch.Tensor, Group], Tensors]] = {
    "between layers": by_layers,
    "within layers, columns": by_columns,
    "within layers, columns and rows": by_columns_and_rows,
    "data parallel": by_batch,
}


def _go_back(loss: torch.Tensor) -> None:
    loss.backward()  # type: ignore[no-untyped-call]


def _gradients(weights: Tensors) -> Tensors:
    return {name: w.grad for name, w in weights.items() if w.grad is not None}

"""Chapter 7: the splits in PyTorch, with automatic differentiation within each process.

Automatic differentiation ends at the boundary of a process: each operation that exchanges arrays
has its backward pass written down here, as in Shoeybi et al., "Megatron-LM: training multi-billion
parameter language models using model parallelism", 2019.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import torch
from torch.nn import functional as F

from horizont_textbook import Array
from horizont_textbook.group import Group
from horizont_textbook.strategies import (
    ENGINES,
    STRATEGIES,
    Arrays,
    all_gather,
    all_reduce,
    average_gradients,
    initial_state,
    part_of,
    train,
)

Tensors = dict[str, torch.Tensor]
Pass = Callable[[Array, Group], Array]


def _operation(forward_pass: Pass, backward_pass: Pass) -> Callable[..., torch.Tensor]:
    """Return an operation on tensors from its two passes, which exchange arrays."""

    class Operation(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, values: torch.Tensor, group: Group) -> torch.Tensor:
            ctx.group = group
            return torch.tensor(forward_pass(values.detach().numpy(), group))

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
            return torch.tensor(backward_pass(gradients[0].numpy(), ctx.group)), None

    return Operation.apply


def _identity(values: Array, group: Group) -> Array:
    return values


def _own_columns(values: Array, group: Group) -> Array:
    return values.reshape(len(values), group.size, -1)[:, group.rank]


gather = _operation(all_gather, _own_columns)
copy = _operation(_identity, all_reduce)
reduce = _operation(all_reduce, _identity)


def layer_split(w: Tensors, x: torch.Tensor, labels: torch.Tensor, group: Group) -> Tensors:
    """Send activations from process 0 to process 1, and gradients back."""
    if group.rank == 0:
        h = torch.tanh(x @ w["W1"] + w["b1"])
        group.send(h.detach().numpy(), 1)
        return _gradients(h, w, torch.tensor(group.receive(h.shape, 1)))
    h = torch.tensor(group.receive((len(labels), len(w["W2"])), 0), requires_grad=True)
    gradients = _gradients(F.cross_entropy(h @ w["W2"] + w["b2"], labels), {**w, "h": h})
    group.send(gradients.pop("h").numpy(), 0)
    return gradients


def column_parallel(w: Tensors, x: torch.Tensor, labels: torch.Tensor, group: Group) -> Tensors:
    """Compute half of the neurons of both layers, and gather the outputs."""
    h = gather(torch.tanh(x @ w["W1"] + w["b1"]), group)
    z = gather(copy(h, group) @ w["W2"] + w["b2"], group)
    return _gradients(F.cross_entropy(z, labels), w)


def tensor_parallel(w: Tensors, x: torch.Tensor, labels: torch.Tensor, group: Group) -> Tensors:
    """Compute half of the hidden neurons with their inputs and outputs, and sum the scores."""
    h = torch.tanh(x @ w["W1"] + w["b1"])
    return _gradients(F.cross_entropy(reduce(h @ w["W2"], group) + w["b2"], labels), w)


def data_parallel(w: Tensors, x: torch.Tensor, labels: torch.Tensor, group: Group) -> Tensors:
    """Compute the gradients of half of the batch, and average them."""
    scores = torch.tanh(x @ w["W1"] + w["b1"]) @ w["W2"] + w["b2"]
    own = _gradients(F.cross_entropy(scores, labels), w)
    mean = average_gradients({name: gradient.numpy() for name, gradient in own.items()}, group)
    return {name: torch.tensor(gradient) for name, gradient in mean.items()}


def _gradients(output: torch.Tensor, w: Tensors, by_output: torch.Tensor | None = None) -> Tensors:
    """Differentiate by the weights that the output depends on."""
    gradients = torch.autograd.grad(output, list(w.values()), by_output, allow_unused=True)
    return {name: g for name, g in zip(w, gradients, strict=True) if g is not None}


#: By the names of `horizont_textbook.strategies.STRATEGIES`.
GRADIENTS = {
    "between layers": layer_split,
    "within layers, columns": column_parallel,
    "within layers, columns and rows": tensor_parallel,
    "data parallel": data_parallel,
}


def gradients(name: str, w: Arrays, x: Array, labels: Array, group: Group) -> Arrays:
    """Compute the gradients of a process's weights with a strategy."""
    tensors = {key: torch.tensor(value, requires_grad=True) for key, value in w.items()}
    found = GRADIENTS[name](tensors, torch.tensor(x), torch.tensor(labels), group)
    return {key: gradient.numpy() for key, gradient in found.items()}


def run_exercises(rank: int, size: int) -> dict[tuple[str, str], Any]:
    """Train with every strategy and both engines in one process of a gloo group."""
    engines: dict[str, Callable[..., Arrays]] = {
        "NumPy": lambda name, *args: STRATEGIES[name].gradients(*args),
        "PyTorch": gradients,
    }
    results: dict[tuple[str, str], Any] = {}
    for engine, (name, strategy) in product(ENGINES, STRATEGIES.items()):
        compute, group = engines[engine], Group(rank, size)
        own = {key: part_of(v, strategy.split(key), rank) for key, v in initial_state().items()}
        x, labels = own.pop("x"), own.pop("labels")
        trained = train(lambda w: compute(name, w, x, labels, group), own)  # noqa: B023
        found = {**trained, "sent bytes": group.sent_bytes}
        results |= {(f"{engine}: {name}", key): value for key, value in found.items()}
    return results

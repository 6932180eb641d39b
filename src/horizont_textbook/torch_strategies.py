"""Chapter 7: the splits in PyTorch, with automatic differentiation within each process.

Automatic differentiation ends at the boundary of a process: each operation that exchanges arrays
has its backward pass written down here, as in Shoeybi et al., "Megatron-LM: training multi-billion
parameter language models using model parallelism", 2019.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from horizont_textbook import Array
from horizont_textbook.framework_call import Results
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


def layer_split(w: Tensors, x: torch.Tensor, labels: torch.Tensor, group: Group) -> None:
    """Send activations from process 0 to process 1, and gradients back."""
    if group.rank == 0:
        h = torch.tanh(x @ w["W1"] + w["b1"])
        group.send(h.detach().numpy(), 1)
        h.backward(torch.tensor(group.receive(h.shape, 1)))
    else:
        h = torch.tensor(group.receive((len(labels), len(w["W2"])), 0), requires_grad=True)
        F.cross_entropy(h @ w["W2"] + w["b2"], labels).backward()
        group.send(h.grad.numpy(), 0)


def column_parallel(w: Tensors, x: torch.Tensor, labels: torch.Tensor, group: Group) -> None:
    """Compute half of the neurons of both layers, and gather the outputs."""
    h = gather(torch.tanh(x @ w["W1"] + w["b1"]), group)
    z = gather(copy(h, group) @ w["W2"] + w["b2"], group)
    F.cross_entropy(z, labels).backward()


def tensor_parallel(w: Tensors, x: torch.Tensor, labels: torch.Tensor, group: Group) -> None:
    """Compute half of the hidden neurons with their inputs and outputs, and sum the scores."""
    h = torch.tanh(x @ w["W1"] + w["b1"])
    F.cross_entropy(reduce(h @ w["W2"], group) + w["b2"], labels).backward()


def data_parallel(w: Tensors, x: torch.Tensor, labels: torch.Tensor, group: Group) -> None:
    """Compute the gradients of half of the batch, and average them."""
    scores = torch.tanh(x @ w["W1"] + w["b1"]) @ w["W2"] + w["b2"]
    F.cross_entropy(scores, labels).backward()
    own = {name: tensor.grad.numpy() for name, tensor in w.items()}
    for name, mean in average_gradients(own, group).items():
        w[name].grad = torch.tensor(mean)


#: By the names of `horizont_textbook.strategies.STRATEGIES`.
BACKWARD_PASSES = {
    "between layers": layer_split,
    "within layers, columns": column_parallel,
    "within layers, columns and rows": tensor_parallel,
    "data parallel": data_parallel,
}


def gradients(name: str, w: Arrays, x: Array, labels: Array, group: Group) -> Arrays:
    """Compute the gradients of a process's weights with a strategy."""
    tensors = {key: torch.tensor(value, requires_grad=True) for key, value in w.items()}
    BACKWARD_PASSES[name](tensors, torch.tensor(x), torch.tensor(labels), group)
    return {key: each.grad.numpy() for key, each in tensors.items() if each.grad is not None}


def run_exercises(rank: int, size: int) -> Results:
    """Train with every strategy and both engines in one process of a gloo group."""
    results: Results = {}
    for engine, (name, strategy) in product(ENGINES, STRATEGIES.items()):
        compute = strategy.gradients if engine == "NumPy" else partial(gradients, name)
        group = Group(rank, size)
        own = {key: part_of(v, strategy.split(key), rank) for key, v in initial_state().items()}
        x, labels = own.pop("x"), own.pop("labels")
        found = train(lambda w: compute(w, x, labels, group), own)  # noqa: B023
        found["sent bytes"] = np.array(group.sent_bytes)
        results |= {f"{engine}: {name}|{key}": value for key, value in found.items()}
    return results

"""Parts of layers as layers of their own: queries, keys and values of one matrix, or of attention.

It imports nothing of Horizont, and runs wherever PyTorch does.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

#: The parts of attention, in the order of the rows of its matrix.
ATTENTION_PARTS = ("query", "key", "value", "output")


class Part(nn.Module):
    """Some rows of the matrix and bias of a layer; the parameters remain those of the layer."""

    def __init__(self, weight: Any, bias: Any, rows: slice, is_transposed: bool = False) -> None:
        super().__init__()
        self.rows = rows
        self.is_transposed = is_transposed
        found = {"weight": weight, "bias": bias}
        self.__dict__["owned"] = {key: value for key, value in found.items() if value is not None}

    def forward(self, x: Any) -> Any:
        """Multiply by the rows, and add the bias."""
        weight, bias = self.owned["weight"], self.owned.get("bias")
        weight = (weight.T if self.is_transposed else weight)[self.rows]
        return F.linear(x, weight, None if bias is None else bias[self.rows])


def is_transposed_dense(module: nn.Module) -> bool:
    """Whether a layer is the dense layer of GPT-2 in `transformers`, which calls it ``Conv1D``."""
    return type(module).__name__ == "Conv1D" and {"weight", "bias"} == set(module._parameters)


def can_divide(module: Any) -> bool:
    """Whether the parts of a layer compute what it computes: not in a class that changes it."""
    if isinstance(module, nn.MultiheadAttention):
        is_plain = module.bias_k is None and not module.add_zero_attn
        return is_plain and type(module).forward is nn.MultiheadAttention.forward
    return is_transposed_dense(module) or type(module).forward is nn.Linear.forward


def dense_parts(module: Any, rows: Sequence[Sequence[int]]) -> dict[str, Part]:
    """Divide a dense layer by rows of its matrix; the parts are named after them."""
    is_transposed = is_transposed_dense(module)
    return {
        f"[{start}:{stop}]": Part(module.weight, module.bias, slice(start, stop), is_transposed)
        for start, stop in rows
    }


def attention_parts(module: Any, names: Sequence[str]) -> dict[str, nn.Module]:
    """Divide attention into its matrices."""
    found: dict[str, nn.Module] = {}
    for name in names:
        number = ATTENTION_PARTS.index(name)
        rows = slice(number * module.embed_dim, (number + 1) * module.embed_dim)
        if name == "output":
            found[f"[{name}]"] = module.out_proj
        elif module.in_proj_weight is not None:
            found[f"[{name}]"] = Part(module.in_proj_weight, module.in_proj_bias, rows)
        else:
            weight = getattr(module, f"{name[0]}_proj_weight")
            found[f"[{name}]"] = Part(weight, module.in_proj_bias, slice(None))
    return found


def joined(parts: dict[str, Part]) -> Callable[[Any], Any]:
    """Return the forward pass of a dense layer by its parts."""

    def forward(x: Any) -> Any:
        found = {part.rows.start: part(x) for part in parts.values()}
        return torch.cat([found[start] for start in sorted(found)], -1)

    return forward


def attending(module: Any, parts: dict[str, nn.Module]) -> Callable[..., Any]:
    """Return the forward pass of attention by its parts, which returns no weights."""
    signature = inspect.signature(type(module).forward)

    def forward(*positional: Any, **named: Any) -> Any:
        given = signature.bind(module, *positional, **named).arguments
        is_steps_first = not module.batch_first

        def heads(name: str, x: Any) -> Any:
            y = parts[name](x)
            y = y.transpose(0, 1) if is_steps_first else y
            return y.unflatten(-1, (module.num_heads, -1)).transpose(1, 2)

        sources = {f"[{name}]": given[name] for name in ("query", "key", "value")}
        found = {name: heads(name, sources[name]) for name in parts if name in sources}
        q, k, v = (found[name] for name in sources)
        # A causal mask is given as well.
        masks = (given.get("attn_mask"), given.get("key_padding_mask"))
        mask = _mask(*masks, module.num_heads, q.dtype)
        y = F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2)
        y = y.transpose(0, 1) if is_steps_first else y
        return parts["[output]"](y), None

    return forward


def _mask(attention: Any, padding: Any, heads: int, dtype: torch.dtype) -> Any:
    """Return what is added to the products: minus infinity where a key is masked."""

    def added(mask: Any) -> Any:
        is_set = mask.dtype == torch.bool
        return (
            torch.zeros(mask.shape, dtype=dtype).masked_fill(mask, -torch.inf) if is_set else mask
        )

    found = []
    if attention is not None:  # of all, or of each example and head
        mask = added(attention)
        found.append(mask.unflatten(0, (-1, heads)) if mask.ndim == 3 else mask)
    if padding is not None:  # of each example
        found.append(added(padding)[:, None, None, :])
    return sum(found[1:], found[0]) if found else None


class Division:
    """A layer that is executed by its parts, as rows or names of these say."""

    def __init__(self, name: str, module: Any, how: Any) -> None:
        self.module = module
        is_attention = isinstance(module, nn.MultiheadAttention)
        parts: dict[str, Any] = (attention_parts if is_attention else dense_parts)(module, how)
        self.parts = {f"{name}{part}": each for part, each in parts.items()}
        self.forward = attending(module, parts) if is_attention else joined(parts)


def divisions_of(model: nn.Module, wanted: dict[str, Any]) -> list[Division]:
    """Divide layers of a model, by name, where their parts compute the same."""
    modules = {name: model.get_submodule(name) for name in wanted}
    return [
        Division(name, modules[name], how)
        for name, how in wanted.items()
        if can_divide(modules[name])
    ]


@contextlib.contextmanager
def divided(divisions: Sequence[Division]) -> Iterator[None]:
    """Execute layers by their parts in this context."""
    for each in divisions:
        each.module.forward = each.forward
    try:
        yield
    finally:
        for each in divisions:
            del each.module.forward

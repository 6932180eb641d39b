"""The same transformer with its attention in one layer, in several, or as a layer of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

FEATURES, HEADS, WORDS = 32, 4, 50


class Conv1D(nn.Module):
    """A dense layer with its matrix transposed, as in `transformers`."""

    def __init__(self, outputs: int, inputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Any) -> Any:
        return x @ self.weight + self.bias


class Doubled(nn.Linear):
    """A dense layer that is more than its matrix."""

    def forward(self, x: Any) -> Any:
        return 2 * super().forward(x)


class Attention(nn.Module):
    """Attention whose queries, keys and values come from three matrices, or from one."""

    def __init__(
        self, order: str = "qkv", one: Any = None, scale: float | None = None, causal: bool = False
    ) -> None:
        super().__init__()
        self.order, self.scale, self.causal = order, scale, causal
        if one is not None:
            self.qkv = one(FEATURES, 3 * FEATURES)
        else:
            for name in order:
                self.add_module(f"{name}_proj", nn.Linear(FEATURES, FEATURES))
        self.out = nn.Linear(FEATURES, FEATURES)

    def forward(self, x: Any) -> Any:
        if hasattr(self, "qkv"):
            found = dict(zip("qkv", self.qkv(x).split(FEATURES, -1), strict=True))
        else:
            found = {name: getattr(self, f"{name}_proj")(x) for name in self.order}
        heads = [found[n].unflatten(-1, (HEADS, -1)).transpose(1, 2) for n in "qkv"]
        y = F.scaled_dot_product_attention(*heads, is_causal=self.causal, scale=self.scale)
        return self.out(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Attention as a layer of PyTorch, with the time steps before the examples or after."""

    def __init__(self, batch_first: bool, causal: bool = False) -> None:
        super().__init__()
        self.batch_first, self.causal = batch_first, causal
        self.layer = nn.MultiheadAttention(FEATURES, HEADS, batch_first=batch_first)

    def forward(self, x: Any) -> Any:
        x = x if self.batch_first else x.transpose(0, 1)
        steps = x.shape[1] if self.batch_first else x.shape[0]
        mask = torch.ones(steps, steps, dtype=torch.bool).triu(1) if self.causal else None
        y, _ = self.layer(x, x, x, need_weights=False, attn_mask=mask)
        return y if self.batch_first else y.transpose(0, 1)


class Words(nn.Module):
    """Words and two blocks."""

    def __init__(self, attention: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, FEATURES)
        self.blocks = nn.ModuleList(
            nn.ModuleList([nn.LayerNorm(FEATURES), attention()]) for _ in range(2)
        )
        self.last = nn.Linear(FEATURES, 7)

    def embed(self, tokens: Any) -> Any:
        """Return the vectors of the words."""
        return self.words(tokens)

    def forward(self, tokens: Any) -> Any:
        x = self.embed(tokens)
        for norm, attention in self.blocks:
            x = x + attention(norm(x))
        return self.last(x)


class Transformer(Words):
    """Also with positions, a tensor of its own, and one that is no weight."""

    def __init__(self, attention: Callable[[], nn.Module], *, has_examples: bool = True) -> None:
        super().__init__(attention)
        self.has_examples = has_examples
        self.positions = nn.Embedding(8, FEATURES)
        self.start = nn.Parameter(torch.zeros(1, 1, FEATURES))
        self.register_buffer("constant", torch.tensor(0.5))

    def embed(self, tokens: Any) -> Any:
        """Return the start, and the sums of words and positions."""
        places = torch.arange(tokens.shape[1])
        places = places[None] if self.has_examples else places
        x = super().embed(tokens) + self.positions(places)
        return torch.cat([self.start.expand(len(x), -1, -1), x], 1)

    def forward(self, tokens: Any) -> Any:
        return super().forward(tokens) * self.constant


def words() -> nn.Module:
    """Return the words and blocks alone, with three matrices that are executed in another order."""
    return Words(lambda: Attention("kvq"))


class Kinds(Words):
    """Also with a vector that is added to all words."""

    def __init__(self) -> None:
        super().__init__(lambda: Attention("kvq"))
        self.kinds = nn.Embedding(2, FEATURES)

    def embed(self, tokens: Any) -> Any:
        """Return the sum of both."""
        return super().embed(tokens) + self.kinds(torch.zeros_like(tokens))


def one(**settings: Any) -> nn.Module:
    """Return it with one matrix for queries, keys and values, and positions without examples."""
    return Transformer(lambda: Attention(one=nn.Linear, **settings), has_examples=False)


def transposed(**settings: Any) -> nn.Module:
    """Return it with one transposed matrix."""
    make = lambda inputs, outputs: Conv1D(outputs, inputs)  # noqa: E731
    return Transformer(lambda: Attention(one=make, **settings))


def three(**settings: Any) -> nn.Module:
    """Return it with three matrices."""
    return Transformer(lambda: Attention(**settings))


def layer(*, batch_first: bool = True, causal: bool = False) -> nn.Module:
    """Return it with a layer of PyTorch."""
    return Transformer(lambda: Layer(batch_first, causal))


def doubled() -> nn.Module:
    """Return it with one matrix in a layer of another class."""
    return Transformer(lambda: Attention(one=Doubled))

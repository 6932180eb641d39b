"""Models as in recent publications, and callables that return none."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

FEATURES, HEADS, WORDS = 32, 4, 50


class Attention(nn.Module):
    """Attention with fewer keys than queries, and a rotary embedding of the positions.

    Parameters
    ----------
    group
        Which heads have the same keys: ``adjacent`` or ``interleaved``.
    pairs
        Which features are rotated together: those of both ``halves``, ``adjacent``, or none.
    share
        Of the features of a head, how many are rotated.
    precision
        What is in single precision: ``frequencies``, ``tables`` of cosines and sines, or nothing.
    """

    def __init__(
        self,
        group: str,
        pairs: str | None,
        groups: int,
        base: float,
        share: float,
        precision: str,
    ) -> None:
        super().__init__()
        self.group, self.pairs, self.groups, self.precision = group, pairs, groups, precision
        size = FEATURES // HEADS
        self.words = nn.Embedding(WORDS, FEATURES)
        self.queries = nn.Linear(FEATURES, FEATURES, bias=False)
        self.keys = nn.Linear(FEATURES, groups * size, bias=False)
        self.values = nn.Linear(FEATURES, groups * size, bias=False)
        self.out, self.last = nn.Linear(FEATURES, FEATURES, bias=False), nn.Linear(FEATURES, 7)
        self.rotated_size = int(size * share)
        exponents = torch.arange(0, self.rotated_size, 2).double() / self.rotated_size
        exponents = exponents.float() if precision else exponents
        self.frequencies = 1.0 / base**exponents  # an attribute, which has its own type

    def rotated(self, x: Any) -> Any:
        """Return queries or keys, rotated by their position."""
        if not self.pairs:
            return x
        x, rest = x.split([self.rotated_size, x.shape[-1] - self.rotated_size], -1)
        dtype = torch.float32 if self.precision == "tables" else x.dtype
        angles = torch.arange(x.shape[2]).to(dtype)[:, None] * self.frequencies.to(dtype)
        if self.pairs == "halves":
            angles = torch.cat([angles, angles], -1)
            first, second = x.chunk(2, -1)
            other = torch.cat([-second, first], -1)
        else:
            angles = angles.repeat_interleave(2, -1)
            other = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
        cosines, sines = (each.to(x.dtype) for each in (angles.cos(), angles.sin()))
        return torch.cat([x * cosines + other * sines, rest], -1)

    def shared(self, x: Any) -> Any:
        """Return keys or values for each head."""
        size = HEADS // self.groups
        if self.group == "adjacent":
            return x.repeat_interleave(size, 1)
        return x.repeat(1, size, 1, 1)

    def forward(self, tokens: Any) -> Any:
        x = self.words(tokens)
        queries, keys, values = (
            layer(x).unflatten(-1, (heads, -1)).transpose(1, 2)
            for layer, heads in (
                (self.queries, HEADS), (self.keys, self.groups), (self.values, self.groups),
            )
        )  # fmt: skip
        keys, values = self.shared(self.rotated(keys)), self.shared(values)
        y = F.scaled_dot_product_attention(self.rotated(queries), keys, values, is_causal=True)
        return self.last(x + self.out(y.transpose(1, 2).flatten(2)))


def rotary(
    *,
    group: str = "adjacent",
    pairs: str | None = "halves",
    groups: int = 2,
    base: float = 1e4,
    share: float = 1.0,
    precision: str = "frequencies",
) -> nn.Module:
    """Return a model of attention alone."""
    return Attention(group, pairs, groups, base, share, precision)


class Gate(nn.Module):
    """A gate of channels from their mean or maximum, with the axes of an image."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.first, self.last = nn.Conv2d(3, 8, 3), nn.Linear(8, 3)
        self.inner, self.outer = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, 1)

    def forward(self, x: Any) -> Any:
        x = F.relu(self.first(x))
        reduced = x.amax((2, 3), keepdim=True) if self.kind == "max" else x.mean((2, 3), True)
        gate = torch.sigmoid(self.outer(F.relu(self.inner(reduced))))
        return self.last((x * gate).mean((2, 3)))


def gate(kind: str = "mean") -> nn.Module:
    """Return a model with a gate."""
    return Gate(kind)


class OwnNorm(nn.Module):
    """A norm by another name and without an attribute for its epsilon.

    In ``single`` precision, as many models compute it, it multiplies by its weight in its own type.
    """

    def __init__(self, *, plus_one: bool, single: bool) -> None:
        super().__init__()
        self.single = single
        self.gain, self.plus_one = (
            nn.Parameter(torch.full((16,), 0.0 if plus_one else 1.0)),
            plus_one,
        )

    def forward(self, x: Any) -> Any:
        dtype, x = x.dtype, x.float() if self.single else x
        x = (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)).to(dtype)
        return x * (1 + self.gain) if self.plus_one else x * self.gain


def norm(*, plus_one: bool = False, single: bool = False, last: str = "none") -> nn.Module:
    """Return a model with a norm that multiplies by its weight, or by that plus one."""
    own = OwnNorm(plus_one=plus_one, single=single)
    after = [nn.GELU(last)] if last != "none" else []
    return nn.Sequential(nn.Linear(8, 16), own, nn.Linear(16, 3), *after)


def nothing() -> None:
    """Return nothing."""


def type_alone() -> type:
    """Return a class that was not called."""
    return nn.Linear


def complex_numbers() -> nn.Module:
    """Return a layer of complex numbers."""
    return nn.Linear(8, 3, dtype=torch.complex64)


def scheduled(gamma: float = 0.5) -> tuple[Any, ...]:
    """Return a model with a loss, an optimizer and a schedule of its learning rate."""
    model = gate()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma)
    return model, nn.CrossEntropyLoss(), optimizer, schedule


def normalized(*, kind: str = "weight_norm", is_parametrized: bool = True) -> nn.Module:
    """Return layers whose weights are normalized by either function of PyTorch."""
    utils: Any = nn.utils.parametrizations if is_parametrized else nn.utils
    normalize = getattr(utils, kind)
    return nn.Sequential(normalize(nn.Linear(8, 16)), nn.ReLU(), normalize(nn.Linear(16, 3), dim=1))


class BothDirections(nn.Module):
    """A recurrent layer in both directions, and a layer of one step of each.

    Parameters
    ----------
    step
        Which steps are used: the ``final`` one of each direction, or the ``last`` of the sequence,
        which is the first one that the backward direction has computed.
    """

    def __init__(self, kind: str, step: str, number: int) -> None:
        super().__init__()
        self.step = step
        self.both = getattr(nn, kind)(8, 16, number, batch_first=True, bidirectional=True)
        self.last = nn.Linear(32, 3)

    def forward(self, x: Any) -> Any:
        outputs, state = self.both(x)
        hidden = state[0] if isinstance(state, tuple) else state
        if self.step == "last":
            return self.last(outputs[:, -1])
        return self.last(torch.cat([hidden[-2], hidden[-1]], -1))


def directions(*, kind: str = "LSTM", step: str = "final", number: int = 1) -> nn.Module:
    """Return a model with a recurrent layer in both directions."""
    return BothDirections(kind, step, number)

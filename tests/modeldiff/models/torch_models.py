"""Models of PyTorch with a fault at each argument that is given."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


class Images(nn.Module):
    """A network for images of 16 x 16 pixels, with an operation in place."""

    def __init__(
        self,
        padding: int = 1,
        dilation: int = 1,
        stride: int = 2,
        epsilon: float = 1e-5,
        momentum: float = 0.1,
        frozen: bool = False,
        frozen_norm: bool = False,
        activation: str = "relu",
        gelu: str = "none",
        pooling: str = "max",
        order: str = "first",
        scale: float = 1.0,
        reverse: bool = False,
        result: str = "none",
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, stride=stride, padding=padding, bias=False)
        self.norm = nn.BatchNorm2d(8, eps=epsilon, momentum=momentum)
        self.conv2 = nn.Conv2d(8, 6, 3, padding=dilation, dilation=dilation)
        side = (16 + 2 * padding - 3) // stride + 1
        self.dense1 = nn.Linear(6 * (side // 2) ** 2, 16)
        self.dropout = nn.Dropout(dropout)
        self.dense2 = nn.Linear(16, 5)
        self.dense1.weight.requires_grad_(not frozen)
        self.frozen_norm = frozen_norm
        self.given = (activation, gelu, pooling, order, scale, reverse, result)

    def train(self, mode: bool = True) -> Any:
        super().train(mode)
        if self.frozen_norm:
            self.norm.eval()
        return self

    def forward(self, x: Any) -> Any:
        activation, gelu, pooling, order, scale, reverse, result = self.given
        x = x.flip(1) if reverse else x * scale
        x = self.norm(self.conv1(x))
        x = torch.relu_(x) if activation == "relu" else getattr(F, activation)(x)
        x = F.gelu(self.conv2(x), approximate=gelu)
        x = F.max_pool2d(x, 2) if pooling == "max" else F.avg_pool2d(x, 2)
        x = (x.movedim(1, -1) if order == "last" else x).flatten(1)
        x = self.dense2(self.dropout(torch.tanh(self.dense1(x))))
        return x.softmax(-1) if result == "softmax" else x


class Tokens(nn.Module):
    """An embedding, a recurrent layer, and attention with a bias of the keys."""

    def __init__(self, padding_idx: int | None = None, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8, padding_idx=padding_idx)
        self.rnn = nn.LSTM(8, 8, batch_first=True)
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))
        self.norm = nn.LayerNorm(8, eps=epsilon)
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        x, _ = self.rnn(self.embedding(x))
        x = x + F.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x))
        return self.head(self.norm(x)[:, -1])


class Branches(nn.Module):
    """Two branches of the same shapes, executed in either order."""

    def __init__(self, swapped: bool = False) -> None:
        super().__init__()
        self.stem, self.left, self.right = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.swapped = swapped

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        if self.swapped:
            right = torch.sin(self.right(x))
            return self.left(x) + right
        left = self.left(x)
        return left + torch.sin(self.right(x))


class Gates(nn.Module):
    """Two kinds of recurrent layers, and a dense one for the last step."""

    def __init__(self, dense: bool = True) -> None:
        super().__init__()
        self.lstm = nn.LSTM(5, 4, batch_first=True)
        self.gru = nn.GRU(4, 6, batch_first=True)
        self.head = nn.Linear(6, 3) if dense else nn.Identity()

    def forward(self, x: Any) -> Any:
        return self.head(self.gru(self.lstm(x)[0])[0][:, -1])


class Encoder(nn.Module):
    """Blocks of a transformer, with the time steps before the examples if that is asked for."""

    def __init__(self, heads: int = 2, steps_first: bool = False, activation: str = "relu") -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                8, heads, 16, activation=activation, batch_first=not steps_first
            )
            for _ in range(2)
        )
        self.head = nn.Linear(8, 4)
        self.steps_first = steps_first

    def forward(self, x: Any) -> Any:
        x = x.transpose(0, 1) if self.steps_first else x
        for block in self.blocks:
            x = block(x)
        return self.head(x[-1] if self.steps_first else x[:, -1])


class Random(nn.Module):
    """A network with noise of its own in training."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(7, 5)

    def forward(self, x: Any) -> Any:
        x = self.dense(x)
        return x + torch.randn_like(x) if self.training else x


class Blocks(nn.Module):
    """Pooling, a connection around a layer, a gate of channels, and a larger image."""

    def __init__(
        self,
        pool: str = "max",
        counted: bool = True,
        activation: str = "relu",
        factor: float = 1.0,
        gate: str = "sigmoid",
        corners: bool = False,
    ) -> None:
        super().__init__()
        self.stem, self.conv1, self.conv2, self.conv3 = (
            nn.Conv2d(channels, 6, 3, padding=1) for channels in (3, 6, 6, 6)
        )
        self.norm1, self.norm2 = nn.BatchNorm2d(6), nn.BatchNorm2d(6)
        self.gate, self.project, self.dense = nn.Linear(6, 6), nn.Conv2d(6, 6, 1), nn.Linear(6, 5)
        self.conv4 = nn.Conv2d(6, 6, 3)
        self.given = (pool, counted, activation, factor, gate, corners)

    def forward(self, x: Any) -> Any:
        pool, counted, activation, factor, gate, corners = self.given
        x = torch.relu(self.stem(x))
        x = F.max_pool2d(x, 3, 2, 1) if pool == "max" else F.avg_pool2d(x, 3, 2, 1, False, counted)
        for convolution, norm in ((self.conv1, self.norm1), (self.conv2, self.norm2)):
            x = getattr(F, activation)(x + factor * norm(convolution(x)))
        x = self.conv3(x)
        x = x * getattr(F, gate)(self.gate(x.mean((2, 3))))[:, :, None, None]
        x = self.project(x)
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=corners)
        return self.dense(self.conv4(x).amax((2, 3)))


class Slow(nn.Module):
    """A network that waits, and raises numbers to a power between its layers."""

    def __init__(self, power: int = 5) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 2)
        self.power = power

    def forward(self, x: Any) -> Any:
        time.sleep(0.02)
        return self.last(self.first(x) ** self.power)


def plain() -> nn.Module:
    """Return a network without a norm, for comparisons with functions and recordings."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, stride=2, padding=1),
        nn.GELU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(96, 5),
    )


class ScaledRMSNorm(nn.Module):
    """A norm that multiplies by its weight plus one, as in Gemma."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.zeros(features)), 1e-6

    def forward(self, x: Any) -> Any:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * (1 + self.weight)


class SingleDense(nn.Linear):
    """A dense layer that computes in single precision."""

    def forward(self, x: Any) -> Any:
        return nn.functional.linear(x.float(), self.weight.float(), self.bias.float()).to(x.dtype)


class RootMeanSquare(nn.Module):
    """Two norms without a mean."""

    def __init__(
        self, epsilon: float | None = None, *, plus_one: bool = False, single: bool = False
    ) -> None:
        super().__init__()
        self.words, self.dense, self.last = (
            nn.Embedding(50, 16),
            nn.Linear(16, 16),
            nn.Linear(16, 5),
        )
        self.last = SingleDense(16, 5) if single else nn.Linear(16, 5)
        make = ScaledRMSNorm if plus_one else lambda features: nn.RMSNorm(features, epsilon)
        self.first_norm, self.second_norm = make(16), make(16)

    def forward(self, tokens: Any) -> Any:
        x = self.words(tokens)
        x = x + torch.nn.functional.silu(self.dense(self.first_norm(x)))
        return self.last(self.second_norm(x))


def separable(multiplier: int = 1) -> nn.Module:
    """Return a network of depthwise convolutions, each before one of 1 x 1."""
    return nn.Sequential(
        nn.Conv2d(3, 3 * multiplier, 3, stride=2, padding=1, groups=3, bias=False),
        nn.Conv2d(3 * multiplier, 8, 1),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, groups=8, bias=False),
        nn.Conv2d(8, 6, 1, bias=False),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 5),
    )


class Patches(nn.Module):
    """A network of patches, which have an axis of their own or that of the examples."""

    def __init__(self, folded: bool = True, moved: bool = False) -> None:
        super().__init__()
        self.folded, self.moved = folded, moved
        self.stem, self.norm = nn.Conv2d(3, 8, 4, stride=4), nn.LayerNorm(8)
        self.dense, self.head = nn.Linear(8, 8), nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        x = self.stem(x).unflatten(2, (2, 2)).unflatten(4, (2, 2)).permute(0, 2, 4, 3, 5, 1)
        x = x.flatten(1, 2).flatten(2, 3)
        x = x.flip(1) if self.moved else x
        x = x.flatten(0, 1) if self.folded else x
        x = self.dense(self.norm(x)).relu()
        return self.head(x.reshape(-1, 16, 8)[:, :3].mean(1))


class Positions(nn.Module):
    """A network that adds positions and a token of the class, which are tensors of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 4, stride=4)
        self.token, self.positions = (nn.Parameter(0.1 * torch.randn(1, n, 8)) for n in (1, 17))
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        x = self.stem(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.norm(x)[:, 0])


class Sequences(nn.Module):
    """A table, two dense layers, and a layer norm between them."""

    def __init__(self, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.table, self.dense = nn.Embedding(20, 8), nn.Linear(8, 8)
        self.norm, self.head = nn.LayerNorm(8, eps=epsilon), nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return self.head(8.0 * self.norm(F.relu(self.dense(self.table(x))))[:, -1])


class Places(nn.Module):
    """Words and their positions, which may start later."""

    def __init__(self, first: int = 0, padding_idx: int | None = None) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 8, padding_idx=padding_idx)
        self.positions, self.head, self.start = nn.Embedding(24, 8), nn.Linear(8, 4), first

    def forward(self, x: Any) -> Any:
        places = torch.arange(x.shape[1], device=x.device) + self.start
        return self.head(self.words(x) + self.positions(places))


def normed() -> nn.Module:
    """Return a network with a batch norm."""
    first, last = nn.Linear(7, 6, bias=False), nn.Linear(6, 5, bias=False)
    return nn.Sequential(first, nn.BatchNorm1d(6), nn.ReLU(), last)


def words(padding_idx: int | None = None) -> nn.Module:
    """Return a table and a dense layer."""
    return nn.Sequential(nn.Embedding(20, 8, padding_idx=padding_idx), nn.Linear(8, 4))


def plain_dense() -> nn.Module:
    """Return dense layers."""
    return nn.Sequential(*(nn.Linear(each, each - 1) for each in (7, 6, 5, 4, 3)))


class Grouped(nn.Module):
    """A branch with groups of channels, a norm, and a scale of each channel."""

    def __init__(self, momentum: float = 0.1) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, padding=1, groups=4)
        self.norm, self.head = nn.BatchNorm2d(8, momentum=momentum), nn.Linear(8, 5)
        self.scale = nn.Parameter(0.1 * torch.randn(8))

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        y = F.relu(self.norm(self.second(x)))
        return self.head((x + self.scale[:, None, None] * y).mean((2, 3)))


class Tied(nn.Module):
    """Words whose table is also the last matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.dense = nn.Embedding(20, 8), nn.Linear(8, 8)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x: Any) -> Any:
        return self.head(torch.tanh(self.dense(self.words(x))))

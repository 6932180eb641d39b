"""Models of PyTorch with a fault at each argument that is given."""

from __future__ import annotations

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
        self.given = (activation, gelu, pooling, order, scale, reverse, result)

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

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(5, 4, batch_first=True)
        self.gru = nn.GRU(4, 6, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.gru(self.lstm(x)[0])[0][:, -1])


class Random(nn.Module):
    """A network with noise of its own in training."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(7, 5)

    def forward(self, x: Any) -> Any:
        x = self.dense(x)
        return x + torch.randn_like(x) if self.training else x


def plain() -> nn.Module:
    """Return a network without a norm, for comparisons with functions and recordings."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, stride=2, padding=1),
        nn.GELU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(96, 5),
    )

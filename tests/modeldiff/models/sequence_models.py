"""Transformers of patches and of words, with parameters of their own for class and positions."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Block(nn.Module):
    """A layer around which the sequence is connected."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm, self.wide, self.narrow = (
            nn.LayerNorm(size), nn.Linear(size, 24), nn.Linear(24, size),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return x + self.narrow(torch.tanh(self.wide(self.norm(x))))


class Patches(nn.Module):
    """A vision transformer without attention, which has one mistake."""

    def __init__(self, mistake: str = "") -> None:
        super().__init__()
        self.mistake = mistake
        self.patch = nn.Conv2d(3, 16, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.places = nn.Parameter(torch.randn(1, 10, 16))
        self.blocks = nn.Sequential(Block(16), Block(16))
        self.head = nn.Linear(16, 5)

    def forward(self, x: Any) -> Any:
        x = self.patch(x)
        x = (x.transpose(2, 3) if self.mistake == "columns" else x).flatten(2).transpose(1, 2)
        token = self.token.expand(len(x), -1, -1)
        token = torch.zeros_like(token) if self.mistake == "no token" else token
        x = torch.cat([x, token] if self.mistake == "token at the end" else [token, x], 1)
        places = self.places
        if self.mistake == "no places":
            places = torch.zeros_like(places)
        elif self.mistake == "places of patches alone":
            places = torch.cat([torch.zeros_like(places[:, :1]), places[:, 1:]], 1)
        elif self.mistake == "places not trained":
            places = places.detach()
        x = self.blocks(x + places)
        return self.head(x.mean(1) if self.mistake == "mean" else x[:, 0])


class Words(nn.Module):
    """A classifier of words, which has one mistake."""

    def __init__(self, mistake: str = "") -> None:
        super().__init__()
        self.mistake = mistake
        self.words = nn.Embedding(50, 16)
        self.places = nn.Parameter(torch.randn(20, 16))
        self.segment = nn.Parameter(torch.randn(16))
        self.block, self.head = Block(16), nn.Linear(16, 5)

    def forward(self, x: Any) -> Any:
        start = 2 if self.mistake == "offset" else 0
        places = self.places[start : start + x.shape[1]]
        places = places.flip(0) if self.mistake == "reversed" else places
        x = self.words(x) * (4.0 if self.mistake == "scaled" else 1.0) + places
        x = x if self.mistake == "no segment" else x + self.segment
        return self.head(self.block(x).mean(1))


def patches(mistake: str = "") -> nn.Module:
    return Patches(mistake)


def words(mistake: str = "") -> nn.Module:
    return Words(mistake)

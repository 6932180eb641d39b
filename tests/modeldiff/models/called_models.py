"""Modules of PyTorch that differ in how they call their layers, by the name of a mistake."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


class Network(nn.Module):
    """A small convolutional network."""

    def __init__(self, mistake: str = "") -> None:
        super().__init__()
        self.mistake = mistake
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.last = nn.Conv2d(8, 8, 3, padding=1), nn.Linear(8, 4)
        self.dropout = nn.Dropout(0.4 if mistake.startswith("dropout") else 0.0)
        if mistake == "no running statistics":
            self.norm = nn.BatchNorm2d(8, track_running_stats=False)

    def train(self, mode: bool = True) -> Network:
        """Set the mode, which a mistake may not reach."""
        super().train(mode)
        if self.mistake == "norm in training":
            self.norm.train()
        if self.mistake == "dropout in training":
            self.dropout.train()
        return self

    def forward(self, x: Any) -> Any:
        """Return logits."""
        mistake = self.mistake
        x = F.relu(self.norm(self.first(x)))
        y = self.second(x.detach() if mistake == "stopped branch" else x)
        x = F.relu(x + y).mean((2, 3))
        if mistake == "function of dropout":
            x = F.dropout(x, 0.3)
        if mistake == "stopped":
            x = x.detach()
        return self.last(self.dropout(x))


class Padded(nn.Module):
    """Zeros are added to an image after another activation, or another scale."""

    def __init__(self, mistake: str = "") -> None:
        super().__init__()
        self.mistake = mistake
        self.first, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 3)
        self.second = nn.Conv2d(8, 8, 3, stride=2)

    def forward(self, x: Any) -> Any:
        """Return logits."""
        x = self.first(x)
        x = {"SiLU": F.silu, "ReLU6": F.relu6}.get(self.mistake, F.relu)(x)
        x = 0.5 * x if self.mistake == "half" else x
        return self.last(self.second(F.pad(x, (0, 1, 0, 1))).mean((2, 3)))


class Language(nn.Module):
    """Embeddings of words with positions."""

    def __init__(self, mistake: str = "", learned: bool = False) -> None:
        super().__init__()
        self.mistake = mistake
        self.words, self.norm = nn.Embedding(50, 16), nn.LayerNorm(16)
        self.places = nn.Embedding(20, 16) if learned else None
        self.hidden, self.back = nn.Linear(16, 32), nn.Linear(32, 16)
        self.final, self.last = nn.LayerNorm(16), nn.Linear(16, 50)

    def forward(self, words: Any) -> Any:
        """Return logits of each word."""
        mistake = self.mistake
        x = self.words(words)
        if mistake == "scaled":
            x = math.sqrt(16) * x
        place = torch.arange(words.shape[1], device=words.device)
        if self.places is not None:
            x = x + self.places(place)
        elif mistake != "no positions":
            x = x + _sines(place, mistake).to(x)
        x = self.norm(x)
        branch = self.back(F.relu(self.hidden(x)))
        return self.last(self.final(x + (0.5 if mistake == "half branch" else 1.0) * branch))


def _sines(place: Any, mistake: str) -> Any:
    base = 100.0 if mistake == "base" else 1e4
    place = place + 1 if mistake == "from one" else place
    angles = place[:, None] * base ** (-torch.arange(0, 16, 2, dtype=torch.float64) / 16)
    both = angles.sin(), angles.cos()
    return torch.cat(both, -1) if mistake == "halves" else torch.stack(both, -1).flatten(1)


class Pooled(nn.Module):
    """The mean of all words that are no padding."""

    def __init__(self, mistake: str = "") -> None:
        super().__init__()
        self.mistake = mistake
        self.words, self.hidden = nn.Embedding(50, 12), nn.Linear(12, 12)
        self.last = nn.Linear(12, 3)

    def forward(self, words: Any) -> Any:
        """Return logits of each sequence."""
        x = torch.tanh(self.hidden(self.words(words)))
        counted = (words > 9)[..., None].to(x.dtype)
        if self.mistake == "all":
            return self.last(x.mean(1))
        if self.mistake == "all are summed":
            return self.last(x.sum(1))
        x = (counted * x).sum(1)
        return self.last(x if self.mistake == "sum" else x / counted.sum(1))


class OwnNorm(nn.Module):
    """A norm of the last axis that a model defines itself."""

    def __init__(self, mistake: str) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(16)), nn.Parameter(torch.zeros(16))
        self.mistake = mistake

    def forward(self, x: Any) -> Any:
        """Return normalized features."""
        mistake = self.mistake
        epsilon = 1e-3 if mistake == "epsilon" else 1e-5
        centered = x if mistake == "not centered" else x - x.mean(-1, keepdim=True)
        variance = centered.square().sum(-1, keepdim=True) / (15 if mistake == "sample" else 16)
        root = variance.sqrt() + epsilon if mistake == "root" else (variance + epsilon).sqrt()
        return self.weight * centered / root + self.bias


class Normalized(nn.Sequential):
    """Two layers with a norm between them, of the model itself if a mistake is named."""

    def __init__(self, mistake: str = "") -> None:
        norm = OwnNorm(mistake) if mistake else nn.LayerNorm(16)
        super().__init__(nn.Linear(8, 16), norm, nn.ReLU(), nn.Linear(16, 3))


class Recurrent(nn.Module):
    """A recurrent layer whose steps, or first state, are others."""

    def __init__(self, mistake: str = "") -> None:
        super().__init__()
        self.mistake = mistake
        self.cell = nn.LSTM(8, 5, batch_first=mistake != "steps first")
        self.last = nn.Linear(5, 3)

    def forward(self, x: Any) -> Any:
        """Return logits of the last step."""
        state = torch.ones(1, len(x), 5, dtype=x.dtype)
        given = (x, (state, state)) if self.mistake == "state" else (x,)
        return self.last(self.cell(*given)[0][:, -1])


class Attention(nn.Module):
    """Attention of PyTorch."""

    def __init__(self, mistake: str = "") -> None:
        super().__init__()
        self.mistake = mistake
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 3)
        self.attention = nn.MultiheadAttention(16, 4, batch_first=mistake != "steps first")

    def forward(self, x: Any) -> Any:
        """Return logits of each step."""
        x = F.relu(self.first(x))
        steps = x.shape[1]
        later = torch.ones(steps, steps, dtype=torch.bool).triu(1)
        added = torch.zeros(steps, steps, dtype=x.dtype).masked_fill(later, -torch.inf)
        masks = {"causal": later, "causal by sums": added, "another mask": later.triu(2)}
        return self.last(x + self.attention(x, x, x, attn_mask=masks.get(self.mistake))[0])

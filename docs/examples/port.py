"""A port of `original.py` to PyTorch, with another activation."""

from torch import nn


def build() -> nn.Module:
    """Return the model."""
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 3))

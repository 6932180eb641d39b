"""How a network's weights are shared out among PyTorch's parameter servers.

All weights, one after the other, make one long vector; each server keeps a slice of it, and the
slices are equally long. Whole tensors could not be balanced: one matrix of AlexNet holds two
thirds of its weights. Every update rule of the study treats each number apart, so a tensor may be
cut anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

from horizont.frameworks.base import Recipe
from horizont.frameworks.torch.model import named_weights
from horizont.spec import Optimizer


@dataclass(frozen=True)
class Shard:
    """What a server is told of its slice before it gets the numbers.

    Attributes
    ----------
    pieces
        Length and weight decay of each tensor, or part of a tensor, in the slice.
    part
        The name of the slice: its place in the vector of all weights, ``first:behind``.
    """

    rule: Optimizer
    dtype: torch.dtype
    pieces: tuple[tuple[int, float], ...]
    part: str

    @property
    def length(self) -> int:
        """Numbers in the slice."""
        return sum(length for length, _ in self.pieces)


def bounds(length: int, servers: int) -> list[tuple[int, int]]:
    """Cut a vector evenly: first element of each slice, and first behind it."""
    ends = [length * server // servers for server in range(servers + 1)]
    return list(pairwise(ends))


def shards(recipe: Recipe, module: nn.Module, servers: int) -> list[Shard]:
    """Describe the slice of each server."""
    named = list(named_weights(module))
    lengths = [(weight.numel(), recipe.decay(name)) for name, weight in named]
    total = sum(length for length, _ in lengths)
    return [
        Shard(
            recipe.optimizer,
            named[0][1].dtype,
            _pieces(lengths, first, behind),
            part_name(first, behind),
        )
        for first, behind in bounds(total, servers)
    ]


def part_name(first: int, behind: int) -> str:
    """Name a slice of the vector of all weights."""
    return f"{first}:{behind}"


def _pieces(
    lengths: Sequence[tuple[int, float]], first: int, behind: int
) -> tuple[tuple[int, float], ...]:
    """Cut a slice at the ends of the tensors."""
    pieces = []
    begin = 0
    for length, decay in lengths:
        inside = min(begin + length, behind) - max(begin, first)
        if inside > 0:
            pieces.append((inside, decay))
        begin += length
    return tuple(pieces)

"""The variants of a module, and a max pooling that torch.compile does not compile.

Compiled by PyTorch 2.13.0, the backward pass of LeNet-5 read the gradient of a max pooling before
it was written: all gradients before the last pooling were zero, in float32 and float64, for batches
of 8 and 16 examples and not for 42. The comparator detected it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

ATEN = torch.ops.aten


@torch.library.custom_op("horizont::max_pool", mutates_args=())
def max_pool(images: torch.Tensor, window: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Pool (examples, channels, height, width); return the indices of the maxima, too.

    The window is kernel, stride and padding.
    """
    pooled, indices = ATEN.max_pool2d_with_indices(images, *_square_sizes(window))
    return pooled, indices


@torch.library.custom_op("horizont::max_pool_backward", mutates_args=())
def max_pool_backward(
    gradient: torch.Tensor,
    images: torch.Tensor,
    indices: torch.Tensor,
    window: Sequence[int],
) -> torch.Tensor:
    """Return the gradient of the images from that of the pooled images."""
    image_gradient: torch.Tensor = ATEN.max_pool2d_with_indices_backward(
        gradient, images, *_square_sizes(window), [1, 1], False, indices
    )
    return image_gradient


def _square_sizes(window: Sequence[int]) -> list[list[int]]:
    return [[size, size] for size in window]


@max_pool.register_fake
def _(images: torch.Tensor, window: Sequence[int]) -> Any:
    return ATEN.max_pool2d_with_indices(images, *_square_sizes(window))


@max_pool_backward.register_fake
def _(gradient: torch.Tensor, images: torch.Tensor, *_: Any) -> torch.Tensor:
    del gradient
    return torch.empty_like(images)


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    images, window = inputs
    ctx.save_for_backward(images, output[1])
    ctx.window = window


def _backward(ctx: Any, gradient: torch.Tensor, _: Any) -> tuple[Any, ...]:
    return max_pool_backward(gradient, *ctx.saved_tensors, ctx.window), None


max_pool.register_autograd(_backward, setup_context=_setup_context)


class OpaqueMaxPool(nn.Module):
    """Max pooling by the custom operator, which torch.compile calls unchanged."""

    def __init__(self, pool: nn.MaxPool2d) -> None:
        super().__init__()
        self.window = [pool.kernel_size, pool.stride, pool.padding]

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Pool (examples, channels, height, width)."""
        pooled: torch.Tensor = max_pool(images, self.window)[0]
        return pooled


#: The folder of compiled code, in the working directory of the process: every run compiles anew, so
#: that its start-up time does not depend on earlier runs.
CACHE_FOLDER = "compiled"


def apply_variant(module: nn.Module, variant: str) -> nn.Module:
    """Return what a training step calls; it shares its weights with the module."""
    if variant == "channels_last":
        return module.to(memory_format=torch.channels_last)
    if variant == "compiled":
        return _compile(module)
    return module


def _compile(module: nn.Module) -> nn.Module:
    """Wrap a module so that its first batch of each size compiles it, forward and backward.

    On a CPU the compiler runs in this process, one kernel after the other: its own pool of
    processes would compute besides the training. For a GPU the pool has its default size.
    """
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(CACHE_FOLDER).absolute())
    if not next(module.parameters()).is_cuda:
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    return torch.compile(module, dynamic=False)

"""A model of PyTorch in one of several processes, between which gradients are averaged.

It imports nothing of Horizont, and runs wherever PyTorch does.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel


def join(rank: int, size: int, path: str) -> None:
    """Join the process group, as a program that is started by torchrun would.

    Parameters
    ----------
    path
        A file at which the processes meet; it does not exist before.
    """
    os.environ.update({"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)})
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    if not distributed.is_initialized():
        store = f"file://{path}"
        distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=size)


@contextlib.contextmanager
def default_type(dtype: torch.dtype) -> Iterator[None]:
    """Build models in a type: one that its author wraps cannot be converted afterwards."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def unwrapped(model: Any) -> Any:
    """Return the model in a wrapper of its author, or the model itself."""
    return model.module if isinstance(model, DistributedDataParallel) else model


def wrapped(made: nn.Module, model: nn.Module) -> nn.Module:
    """Return a model with averaged gradients: as its author has wrapped it, or by default."""
    return DistributedDataParallel(model) if made is model else made

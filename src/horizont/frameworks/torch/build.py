"""The builds of a network in PyTorch: as it is, compiled, or with the channels last in memory."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import nn

from horizont.spec import Build

#: Where a process keeps what it compiles: in its own folder, so that every run compiles anew and
#: its start-up says what that takes, whoever compiled the same before.
CACHE_FOLDER = "compiled"


def built(module: nn.Module, build: Build) -> nn.Module:
    """Build what a training step calls; the module keeps the weights."""
    if build == "channels_last":
        return module.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]
    if build == "compiled":
        return _compiled(module)
    return module


def _compiled(module: nn.Module) -> nn.Module:
    """Wrap a module so that its first batch of each size compiles it, forward and backward.

    The compiler works in this process, one kernel after the other: its own pool of processes
    would compute beside the training, and has to be ended.
    """
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(CACHE_FOLDER).absolute())
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    return torch.compile(module, dynamic=False)  # type: ignore[return-value]

"""Models of PyTorch, as their authors would train them in several processes."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel


def images(norm: str = "group") -> nn.Module:
    """Return a network with a norm of each example, or of the batch."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.GroupNorm(2, 8) if norm == "group" else nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(512, 3),
    )


def with_loss(**arguments: Any) -> Any:
    """Return a model, an optimizer and a cross entropy."""
    model = nn.Linear(4, 5)
    return model, torch.optim.Adam(model.parameters()), nn.CrossEntropyLoss(**arguments)


def _summed(_, bucket):  # type: ignore[no-untyped-def]  # annotations are checked
    """Return the sum of gradients, not their mean."""
    work = distributed.all_reduce(bucket.buffer(), async_op=True).get_future()
    return work.then(lambda future: future.value()[0])


def _rounded(_, bucket):  # type: ignore[no-untyped-def]
    """Return the mean of gradients with 16 bits."""
    small = bucket.buffer().to(torch.bfloat16)
    work = distributed.all_reduce(small, async_op=True).get_future()
    size = distributed.get_world_size()
    return work.then(lambda future: bucket.buffer().copy_(future.value()[0]).div_(size))


def wrapped(hook: str = "") -> nn.Module:
    """Return a network that its author has wrapped where there are several processes."""
    model = images()
    if not distributed.is_initialized():
        return model
    made = DistributedDataParallel(model, gradient_as_bucket_view=True)
    if hook:
        made.register_comm_hook(None, {"summed": _summed, "rounded": _rounded}[hook])
    return made


class Unused(nn.Module):
    """A layer that is not executed, for which the other processes wait."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.unused = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.dense(x)


class Second(nn.Module):
    """A model with which the second process fails in training."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.dense, self.how = nn.Linear(4, 4), how

    def forward(self, x: Any) -> Any:
        if torch.is_grad_enabled() and os.environ.get("RANK") == "1":
            if self.how == "exit":
                os._exit(3)
            raise ValueError("no second process")
        return self.dense(x)

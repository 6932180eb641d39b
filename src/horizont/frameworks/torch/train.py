"""Training with PyTorch in one process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

from horizont.frameworks.base import (
    Examples,
    Exchanged,
    Mark,
    OnDisk,
    Probe,
    Recipe,
    Weights,
    Windows,
)
from horizont.frameworks.torch import input as pipeline
from horizont.frameworks.torch import readers
from horizont.frameworks.torch.build import built
from horizont.frameworks.torch.input import DTYPES
from horizont.frameworks.torch.model import (
    build_module,
    named_weights,
    put_statistics,
    read_gradients,
    read_statistics,
    read_weights,
    recurrent_layers,
    to_numpy,
)
from horizont.frameworks.torch.optimizer import build_optimizer, clip, read_state


class LocalTrainer:
    """A network, its loss and its update rule."""

    def __init__(self, recipe: Recipe) -> None:
        torch.manual_seed(recipe.seed)
        self.recipe = recipe
        self.module: nn.Module = build_module(recipe)
        weights = dict(named_weights(self.module))
        for name, factor in recipe.gradient_factors.items():
            weight = weights[name]
            weight.register_hook(partial(torch.mul, other=factor))  # type: ignore[no-untyped-call]
        # What a step calls: the module as the recipe builds it; distributed trainers wrap it.
        self.replica: nn.Module = built(self.module, recipe.build)
        self.reduction = recipe.loss_reduction
        self.convert = pipeline.converter(recipe)
        self.recurrent = recurrent_layers(self.module)
        self.optimizer = build_optimizer(recipe, self.module)

    def batches(self, examples: Examples | Windows | OnDisk) -> Iterator[pipeline.Batch]:
        """Start the input pipeline."""
        if isinstance(examples, OnDisk):
            return readers.batches(examples, self.convert)
        return pipeline.batches(examples, self.convert)

    def forward(self, batch: pipeline.Batch) -> torch.Tensor:
        """Clear the gradients and compute the loss."""
        inputs, labels = batch
        self.optimizer.zero_grad(set_to_none=True)
        return self.loss(self.replica(inputs), labels)

    def loss(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Compute the loss of a batch; that of a text is summed over its time steps."""
        loss = F.cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction=self.reduction)
        if labels.ndim > 1 and self.reduction == "mean":
            loss = loss * labels.shape[1]
        return loss

    def clip(self) -> None:
        """Clip the gradients, if they are to be clipped."""
        if self.recipe.optimizer.clip_norm:
            clip(self.module, self.recipe.optimizer.clip_norm)

    def update(self) -> None:
        """Change the weights."""
        self.clip()
        self.optimizer.step()

    def step(self, batch: pipeline.Batch) -> torch.Tensor:
        """Make one training step."""
        loss = self.forward(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        self.update()
        return loss.detach()

    def timed_step(self, batch: pipeline.Batch, mark: Mark) -> torch.Tensor:
        """Make one training step; PyTorch on a processor is done with a phase on return."""
        loss = self.forward(batch)
        mark("forward")
        loss.backward()  # type: ignore[no-untyped-call]
        mark("backward")
        self.update()
        mark("update")
        return loss.detach()

    def rehearse(self, examples: int) -> None:
        """Do nothing: timed steps call what bare steps call."""

    def settle(self, loss: torch.Tensor) -> None:
        """Return at once: the step was over when it returned."""

    def loss_value(self, loss: torch.Tensor) -> float:
        """Read a loss."""
        return float(loss)

    def predict(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Score images or texts."""
        self.module.eval()
        with torch.no_grad():
            scores = to_numpy(self.module(self.convert(torch.from_numpy(np.array(inputs)))))
        self.module.train()
        return scores

    def probe(self, batch: pipeline.Batch) -> Probe:
        """Tell logits, loss and gradients without learning."""
        inputs, labels = batch
        before = self.statistics()
        states = {name: layer.carried for name, layer in self.recurrent.items()}
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.replica(inputs)
        loss = self.loss(logits, labels)
        loss.backward()  # type: ignore[no-untyped-call]
        put_statistics(self.module, before)
        for name, layer in self.recurrent.items():
            layer.carried = states[name]
        return Probe(to_numpy(logits), float(loss.detach()), read_gradients(self.module))

    def weights(self) -> Weights:
        """Read the weights."""
        return read_weights(self.module)

    def statistics(self) -> Weights:
        """Read the tracked statistics."""
        return read_statistics(self.recipe.network, self.module)

    def optimizer_state(self) -> Weights:
        """Read what the optimizer keeps."""
        return read_state(self.recipe, self.module, self.optimizer)

    def carried(self) -> Weights:
        """Read the state of the recurrent layers."""
        return {
            f"{name}.{part}": to_numpy(state)
            for name, layer in self.recurrent.items()
            for part, state in zip(("hidden", "cell"), layer.carried or (), strict=False)
        }

    def forget(self) -> None:
        """Let the recurrent layers begin with zeros."""
        for layer in self.recurrent.values():
            layer.carried = None

    def feed_masks(self, masks: Weights) -> None:
        """Set the masks of the next step."""
        for name, mask in masks.items():
            fed = self.module.get_submodule(name)
            fed.mask = torch.from_numpy(mask).to(DTYPES[self.recipe.dtype])

    def exchanged(self) -> Exchanged | None:
        """Tell nothing: only a replica among others exchanges beside the backward pass."""
        return None

    def close(self) -> None:
        """Do nothing: nobody else is there."""

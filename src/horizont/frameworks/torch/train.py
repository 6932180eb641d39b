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

from horizont.frameworks.base import Examples, Mark, Probe, Recipe, Weights
from horizont.frameworks.torch import input as pipeline
from horizont.frameworks.torch.model import (
    DTYPES,
    build_module,
    put_statistics,
    read_gradients,
    read_statistics,
    read_weights,
    to_numpy,
)
from horizont.frameworks.torch.optimizer import build_optimizer, read_state


class LocalTrainer:
    """A network, its loss and its update rule."""

    def __init__(self, recipe: Recipe) -> None:
        torch.manual_seed(recipe.seed)
        self.recipe = recipe
        self.module: nn.Module = build_module(recipe)
        for name, factor in recipe.gradient_factors.items():
            weight = self.module.get_parameter(name)
            weight.register_hook(partial(torch.mul, other=factor))  # type: ignore[no-untyped-call]
        self.replica: nn.Module = self.module  # what a step calls; distributed trainers wrap it
        self.reduction = recipe.loss_reduction
        self.normalise = pipeline.Normaliser(recipe.normalisation, DTYPES[recipe.dtype])
        self.optimizer = build_optimizer(recipe, self.module)

    def batches(self, examples: Examples) -> Iterator[pipeline.Batch]:
        """Start the input pipeline."""
        return pipeline.batches(examples, self.normalise)

    def forward(self, batch: pipeline.Batch) -> torch.Tensor:
        """Clear the gradients and compute the loss."""
        images, labels = batch
        self.optimizer.zero_grad(set_to_none=True)
        return F.cross_entropy(self.replica(images), labels, reduction=self.reduction)

    def step(self, batch: pipeline.Batch) -> torch.Tensor:
        """Make one training step."""
        loss = self.forward(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()

    def timed_step(self, batch: pipeline.Batch, mark: Mark) -> torch.Tensor:
        """Make one training step; PyTorch on a processor is done with a phase on return."""
        loss = self.forward(batch)
        mark("forward")
        loss.backward()  # type: ignore[no-untyped-call]
        mark("backward")
        self.optimizer.step()
        mark("update")
        return loss.detach()

    def rehearse(self) -> None:
        """Do nothing: eager steps need no preparation."""

    def settle(self, loss: torch.Tensor) -> None:
        """Return at once: the step was over when it returned."""

    def loss_value(self, loss: torch.Tensor) -> float:
        """Read a loss."""
        return float(loss)

    def predict(self, images: NDArray[Any]) -> NDArray[Any]:
        """Score images."""
        self.module.eval()
        with torch.no_grad():
            scores = to_numpy(self.module(self.normalise(torch.from_numpy(np.array(images)))))
        self.module.train()
        return scores

    def probe(self, batch: pipeline.Batch) -> Probe:
        """Tell logits, loss and gradients without learning."""
        images, labels = batch
        before = self.statistics()
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.module(images)
        loss = F.cross_entropy(logits, labels, reduction=self.reduction)
        loss.backward()  # type: ignore[no-untyped-call]
        put_statistics(self.module, before)
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

    def feed_masks(self, masks: Weights) -> None:
        """Set the masks of the next step."""
        for name, mask in masks.items():
            fed = self.module.get_submodule(name)
            fed.mask = torch.from_numpy(mask).to(DTYPES[self.recipe.dtype])

    def close(self) -> None:
        """Do nothing: nobody else is there."""

"""Training with PyTorch in a single process."""

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
    BaseTrainer,
    ForwardBackward,
    PhaseMark,
    TrainingData,
    TrainingSetup,
    Weights,
)
from horizont.frameworks.torch.compile import apply_variant
from horizont.frameworks.torch.input import DTYPES, Batch, batches, input_converter
from horizont.frameworks.torch.model import (
    build_module,
    named_weights,
    read_gradients,
    read_running_statistics,
    read_weights,
    recurrent_layers,
    set_running_statistics,
    to_numpy,
)
from horizont.frameworks.torch.optimizer import (
    build_optimizer,
    clip_gradients,
    read_optimizer_state,
)


class LocalTrainer(BaseTrainer):
    """A network with its loss and update rule, trained eagerly."""

    def __init__(self, setup: TrainingSetup) -> None:
        torch.manual_seed(setup.seed)
        self.setup = setup
        self.module: nn.Module = build_module(setup)
        weights = dict(named_weights(self.module))
        for name, factor in setup.gradient_factors.items():
            weight = weights[name]
            weight.register_hook(partial(torch.mul, other=factor))  # type: ignore[no-untyped-call]
        # What a step calls: the module in its variant; distributed trainers wrap it.
        self.replica: nn.Module = apply_variant(self.module, setup.variant)
        self.reduction = setup.loss_reduction
        self.convert = input_converter(setup)
        self.recurrent = recurrent_layers(self.module)
        self.optimizer = build_optimizer(setup, self.module)

    def batches(self, data: TrainingData) -> Iterator[Batch]:
        """Start the input pipeline."""
        return batches(data, self.convert)

    def forward(self, batch: Batch) -> torch.Tensor:
        """Zero the gradients and compute the loss."""
        inputs, labels = batch
        self.optimizer.zero_grad(set_to_none=True)
        return self.loss(self.replica(inputs), labels)

    def loss(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Compute the loss of a batch; the loss of a text is the sum over its time steps."""
        loss = F.cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction=self.reduction)
        if labels.ndim > 1 and self.reduction == "mean":
            loss = loss * labels.shape[1]
        return loss

    def clip_gradients(self) -> None:
        """Clip the gradients if the optimizer is configured to."""
        if self.setup.optimizer.clip_norm:
            clip_gradients(self.module, self.setup.optimizer.clip_norm)

    def update(self) -> None:
        """Apply the gradients."""
        self.clip_gradients()
        self.optimizer.step()

    def step(self, batch: Batch) -> torch.Tensor:
        """Run one training step."""
        loss = self.forward(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        self.update()
        return loss.detach()

    def instrumented_step(self, batch: Batch, mark: PhaseMark) -> torch.Tensor:
        """Run one training step; on a CPU a phase has finished when PyTorch returns."""
        loss = self.forward(batch)
        mark("forward")
        loss.backward()  # type: ignore[no-untyped-call]
        mark("backward")
        self.update()
        mark("update")
        return loss.detach()

    def predict(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return scores of images or texts."""
        self.module.eval()
        with torch.no_grad():
            scores = to_numpy(self.module(self.convert(torch.from_numpy(np.array(inputs)))))
        self.module.train()
        return scores

    def forward_backward(self, batch: Batch) -> ForwardBackward:
        """Return logits, loss and gradients; restore statistics and recurrent state."""
        inputs, labels = batch
        statistics = self.running_statistics()
        states = {name: layer.state for name, layer in self.recurrent.items()}
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.replica(inputs)
        loss = self.loss(logits, labels)
        loss.backward()  # type: ignore[no-untyped-call]
        set_running_statistics(self.module, statistics)
        for name, layer in self.recurrent.items():
            layer.state = states[name]
        return ForwardBackward(to_numpy(logits), float(loss.detach()), read_gradients(self.module))

    def weights(self) -> Weights:
        """Return the weights."""
        return read_weights(self.module)

    def running_statistics(self) -> Weights:
        """Return the running statistics."""
        return read_running_statistics(self.setup.network, self.module)

    def optimizer_state(self) -> Weights:
        """Return the state of the optimizer."""
        return read_optimizer_state(self.setup, self.module, self.optimizer)

    def recurrent_state(self) -> Weights:
        """Return the state of the recurrent layers."""
        return {
            f"{name}.{part}": to_numpy(state)
            for name, layer in self.recurrent.items()
            for part, state in zip(("hidden", "cell"), layer.state or (), strict=False)
        }

    def reset_recurrent_state(self) -> None:
        """Zero the state of the recurrent layers."""
        for layer in self.recurrent.values():
            layer.state = None

    def set_dropout_masks(self, masks: Weights) -> None:
        """Set the masks of the next step."""
        for name, mask in masks.items():
            dropout = self.module.get_submodule(name)
            dropout.mask = torch.from_numpy(mask).to(DTYPES[self.setup.dtype])

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
    CommunicationStats,
    ForwardBackward,
    ImagesOnDisk,
    InMemoryImages,
    PhaseMark,
    TextWindows,
    TrainingSetup,
    Weights,
)
from horizont.frameworks.torch import input
from horizont.frameworks.torch import input as pipeline
from horizont.frameworks.torch.compile import apply_variant
from horizont.frameworks.torch.input import DTYPES
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


class LocalTrainer:
    """A network, its loss and its update rule."""

    def __init__(self, setup: TrainingSetup) -> None:
        torch.manual_seed(setup.seed)
        self.setup = setup
        self.module: nn.Module = build_module(setup)
        weights = dict(named_weights(self.module))
        for name, factor in setup.gradient_factors.items():
            weight = weights[name]
            weight.register_hook(partial(torch.mul, other=factor))  # type: ignore[no-untyped-call]
        # What a step calls: the module as the recipe builds it; distributed trainers wrap it.
        self.replica: nn.Module = apply_variant(self.module, setup.variant)
        self.reduction = setup.loss_reduction
        self.convert = pipeline.input_converter(setup)
        self.recurrent = recurrent_layers(self.module)
        self.optimizer = build_optimizer(setup, self.module)

    def batches(
        self, data: InMemoryImages | TextWindows | ImagesOnDisk
    ) -> Iterator[pipeline.Batch]:
        """Start the input pipeline."""
        if isinstance(data, ImagesOnDisk):
            return input.file_batches(data, self.convert)
        return pipeline.memory_batches(data, self.convert)

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

    def clip_gradients(self) -> None:
        """Clip the gradients, if they are to be clipped."""
        if self.setup.optimizer.clip_norm:
            clip_gradients(self.module, self.setup.optimizer.clip_norm)

    def update(self) -> None:
        """Change the weights."""
        self.clip_gradients()
        self.optimizer.step()

    def step(self, batch: pipeline.Batch) -> torch.Tensor:
        """Make one training step."""
        loss = self.forward(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        self.update()
        return loss.detach()

    def instrumented_step(self, batch: pipeline.Batch, mark: PhaseMark) -> torch.Tensor:
        """Make one training step; PyTorch on a processor is done with a phase on return."""
        loss = self.forward(batch)
        mark("forward")
        loss.backward()  # type: ignore[no-untyped-call]
        mark("backward")
        self.update()
        mark("update")
        return loss.detach()

    def compile_instrumented_step(self, batch_size: int) -> None:
        """Do nothing: timed steps call what bare steps call."""

    def synchronize(self, loss: torch.Tensor) -> None:
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

    def forward_backward(self, batch: pipeline.Batch) -> ForwardBackward:
        """Tell logits, loss and gradients without learning."""
        inputs, labels = batch
        before = self.running_statistics()
        states = {name: layer.state for name, layer in self.recurrent.items()}
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.replica(inputs)
        loss = self.loss(logits, labels)
        loss.backward()  # type: ignore[no-untyped-call]
        set_running_statistics(self.module, before)
        for name, layer in self.recurrent.items():
            layer.state = states[name]
        return ForwardBackward(to_numpy(logits), float(loss.detach()), read_gradients(self.module))

    def weights(self) -> Weights:
        """Read the weights."""
        return read_weights(self.module)

    def running_statistics(self) -> Weights:
        """Read the tracked statistics."""
        return read_running_statistics(self.setup.network, self.module)

    def optimizer_state(self) -> Weights:
        """Read what the optimizer keeps."""
        return read_optimizer_state(self.setup, self.module, self.optimizer)

    def recurrent_state(self) -> Weights:
        """Read the state of the recurrent layers."""
        return {
            f"{name}.{part}": to_numpy(state)
            for name, layer in self.recurrent.items()
            for part, state in zip(("hidden", "cell"), layer.state or (), strict=False)
        }

    def reset_recurrent_state(self) -> None:
        """Let the recurrent layers begin with zeros."""
        for layer in self.recurrent.values():
            layer.state = None

    def set_dropout_masks(self, masks: Weights) -> None:
        """Set the masks of the next step."""
        for name, mask in masks.items():
            fed = self.module.get_submodule(name)
            fed.mask = torch.from_numpy(mask).to(DTYPES[self.setup.dtype])

    def communication_stats(self) -> CommunicationStats | None:
        """Tell nothing: only a replica among others exchanges beside the backward pass."""
        return None

    def close(self) -> None:
        """Do nothing: nobody else is there."""

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

from horizont.frameworks import base
from horizont.frameworks.torch import model
from horizont.frameworks.torch.compile import apply_variant
from horizont.frameworks.torch.input import DTYPES, Batch, batches, input_converter
from horizont.frameworks.torch.optimizer import build_optimizer, clip_gradients

#: The parts of the state of an LSTM layer, in the order of PyTorch.
STATE_PARTS = ("hidden", "cell")

#: PyTorch's names of the optimizer slots.
SLOTS = {"velocity": "momentum_buffer", "first": "exp_avg", "second": "exp_avg_sq"}


class LocalTrainer(base.Trainer):
    """A network with its loss and update rule, trained eagerly.

    Attributes
    ----------
    replica
        What a step calls: the module in its variant; distributed trainers wrap it.
    parameters
        The weights by canonical name.
    update_phase
        The phase of an instrumented step in which `update` runs.
    """

    update_phase = "update"

    def __init__(self, setup: base.TrainingSetup) -> None:
        torch.manual_seed(setup.seed)
        self.setup = setup
        self.module: nn.Module = model.build_module(setup)
        self.parameters = dict(model.named_weights(self.module))
        for name, factor in setup.gradient_factors.items():
            scale = partial(torch.mul, other=factor)
            self.parameters[name].register_hook(scale)
        self.replica: nn.Module = apply_variant(self.module, setup.variant)
        self.reduction = setup.loss_reduction
        self.convert = input_converter(setup)
        self.recurrent = {
            name: layer
            for name, layer in self.module.named_modules()
            if isinstance(layer, model.StatefulLSTM)
        }
        self.optimizer = build_optimizer(
            setup.optimizer,
            [(weight, setup.weight_decay_of(name)) for name, weight in self.parameters.items()],
        )

    def batches(self, data: base.TrainingData) -> Iterator[Batch]:
        """Start the input pipeline."""
        return batches(data, self.convert)

    def batch_inputs(self, batch: Batch) -> NDArray[Any]:
        """Return the inputs of a batch."""
        return model.to_numpy(batch[0])

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
            clip_gradients(self.parameters.values(), self.setup.optimizer.clip_norm)

    def update(self) -> None:
        """Apply the gradients."""
        self.clip_gradients()
        self.optimizer.step()

    def step(self, batch: Batch) -> torch.Tensor:
        """Run one training step."""
        loss = self.forward(batch)
        loss.backward()
        self.update()
        return loss.detach()

    def instrumented_step(self, batch: Batch, mark: base.PhaseMark) -> torch.Tensor:
        """Run one training step; on a CPU a phase has finished when PyTorch returns."""
        loss = self.forward(batch)
        mark("forward")
        loss.backward()
        mark("backward")
        self.update()
        mark(self.update_phase)
        return loss.detach()

    def predict(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return scores of images or texts."""
        self.module.eval()
        with torch.no_grad():
            images = self.convert(torch.from_numpy(np.array(inputs))).to(self.setup.device)
            scores = model.to_numpy(self.module(images))
        self.module.train()
        return scores

    def forward_backward(self, batch: Batch) -> base.ForwardBackward:
        """Return logits, loss and gradients; restore statistics and recurrent state."""
        inputs, labels = batch
        statistics = self.running_statistics()
        states = {name: layer.state for name, layer in self.recurrent.items()}
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.replica(inputs)
        loss = self.loss(logits, labels)
        loss.backward()
        model.set_running_statistics(self.module, statistics)
        for name, layer in self.recurrent.items():
            layer.state = states[name]
        gradients = ((name, weight.grad) for name, weight in self.parameters.items())
        named = model.to_canonical(self.setup.network, gradients)
        return base.ForwardBackward(model.to_numpy(logits), float(loss.detach()), named)

    def weights(self) -> base.Weights:
        """Return the weights."""
        return model.to_canonical(self.setup.network, self.parameters.items())

    def running_statistics(self) -> base.Weights:
        """Return the running statistics."""
        statistics = model.named_statistics(self.module)
        return {name: model.to_numpy(buffer) for name, buffer in statistics}

    def optimizer_state(self) -> base.Weights:
        """Return the state of the optimizer, which exists after the first update."""
        state = self.optimizer.state
        return {
            f"{name}.{slot}": model.to_numpy(state[weight][SLOTS[slot]])
            for name, weight in self.parameters.items()
            for slot in self.setup.optimizer.slots
            if weight in state
        }

    def recurrent_state(self) -> base.Weights:
        """Return the state of the recurrent layers."""
        return {
            f"{name}.{part}": model.to_numpy(state)
            for name, layer in self.recurrent.items()
            for part, state in zip(STATE_PARTS, layer.state or (), strict=False)
        }

    def set_recurrent_state(self, states: base.Weights) -> None:
        """Set the state of the recurrent layers."""
        for name, layer in self.recurrent.items():
            hidden, cell = (torch.from_numpy(states[f"{name}.{part}"]) for part in STATE_PARTS)
            layer.state = (hidden, cell)

    def reset_recurrent_state(self) -> None:
        """Zero the state of the recurrent layers."""
        for layer in self.recurrent.values():
            layer.state = None

    def set_dropout_masks(self, masks: base.Weights) -> None:
        """Set the masks of the next step."""
        for name, mask in masks.items():
            dropout = self.module.get_submodule(name)
            dtype = DTYPES[self.setup.dtype]
            dropout.mask = torch.from_numpy(mask).to(self.setup.device, dtype)

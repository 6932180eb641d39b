"""A trainer with a seeded defect around a framework's own trainer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from horizont.frameworks.base import (
    ForwardBackward,
    PhaseMark,
    Trainer,
    TrainingData,
    TrainingSetup,
    Weights,
)

#: Builds the framework's trainer of a setup.
BuildTrainer = Callable[[TrainingSetup], Trainer]


class WrappedTrainer(Trainer):
    """A trainer that does what the framework's own trainer does; defects override its methods.

    Attributes
    ----------
    steps
        The steps so far.
    """

    def __init__(self, build: BuildTrainer, setup: TrainingSetup) -> None:
        self.build, self.setup = build, setup
        self.inner = build(setup)
        self.steps = 0

    def batches(self, data: TrainingData) -> Iterator[Any]:
        """Start the input pipeline."""
        return self.inner.batches(data)

    def batch_inputs(self, batch: Any) -> NDArray[Any]:
        """Return the inputs of a batch."""
        return self.inner.batch_inputs(batch)

    def compile_instrumented_step(self, batch_size: int) -> None:
        """Compile the instrumented step."""
        self.inner.compile_instrumented_step(batch_size)

    def step(self, batch: Any) -> Any:
        """Run one training step."""
        self.steps += 1
        return self.inner.step(batch)

    def instrumented_step(self, batch: Any, mark: PhaseMark) -> Any:
        """Run one instrumented step."""
        self.steps += 1
        return self.inner.instrumented_step(batch, mark)

    def skip_update(self, batch: Any) -> float:
        """Compute the loss of a step without its update."""
        self.steps += 1
        return self.inner.forward_backward(batch).loss

    def replace_weights(self, weights: Weights) -> None:
        """Continue with other weights, in a new trainer."""
        self.inner = self.build(_with_weights(self.setup, self.inner, weights))

    def synchronize(self, loss: Any) -> None:
        """Block until the step has finished."""
        if not isinstance(loss, float):
            self.inner.synchronize(loss)

    def loss_value(self, loss: Any) -> float:
        """Return a loss as a number."""
        return loss if isinstance(loss, float) else self.inner.loss_value(loss)

    def predict(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return scores in evaluation mode."""
        return self.inner.predict(inputs)

    def forward_backward(self, batch: Any) -> ForwardBackward:
        """Return logits, loss and gradients."""
        return self.inner.forward_backward(batch)

    def weights(self) -> Weights:
        """Return the weights."""
        return self.inner.weights()

    def running_statistics(self) -> Weights:
        """Return the running statistics."""
        return self.inner.running_statistics()

    def optimizer_state(self) -> Weights:
        """Return the state of the optimizer."""
        return self.inner.optimizer_state()

    def recurrent_state(self) -> Weights:
        """Return the state of the recurrent layers."""
        return self.inner.recurrent_state()

    def set_recurrent_state(self, states: Weights) -> None:
        """Set the state of the recurrent layers."""
        self.inner.set_recurrent_state(states)

    def reset_recurrent_state(self) -> None:
        """Zero the state of the recurrent layers."""
        self.inner.reset_recurrent_state()

    def set_dropout_masks(self, masks: Weights) -> None:
        """Set the masks of the next step."""
        self.inner.set_dropout_masks(masks)


def _with_weights(setup: TrainingSetup, trainer: Trainer, weights: Weights) -> TrainingSetup:
    """Return a setup that starts with other weights and the running statistics of a trainer."""
    return replace(setup, weights=weights, running_statistics=trainer.running_statistics())

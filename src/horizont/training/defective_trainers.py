"""Trainers of a framework with a seeded defect around them; see `horizont.config.mutations`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.config.jobs import TraceRun
from horizont.config.mutations import DEFECTIVE_STEP, LARGEST_PRECISE_BATCH
from horizont.frameworks.base import (
    ForwardBackward,
    InMemoryImages,
    PhaseMark,
    Trainer,
    TrainingSetup,
    Weights,
)

#: Builds the framework's trainer of a setup.
BuildTrainer = Callable[[TrainingSetup], Trainer]


class DefectiveTrainer:
    """A trainer that does what the framework's own trainer does; defects override its methods.

    Attributes
    ----------
    inner
        The framework's own trainer, which has all methods that are not here.
    steps
        The steps so far.
    """

    def __init__(self, build: BuildTrainer, setup: TrainingSetup, *, trace_run: TraceRun) -> None:
        self.build, self.setup, self.trace_run = build, setup, trace_run
        self.inner = build(setup)
        self.steps = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

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
        """Continue with other weights and the same running statistics, in a new trainer."""
        statistics = self.inner.running_statistics()
        self.inner = self.build(replace(self.setup, weights=weights, running_statistics=statistics))

    def synchronize(self, loss: Any) -> None:
        """Block until the step has finished."""
        if not isinstance(loss, float):
            self.inner.synchronize(loss)

    def loss_value(self, loss: Any) -> float:
        """Return a loss as a number."""
        return loss if isinstance(loss, float) else self.inner.loss_value(loss)


class NaNWeights(DefectiveTrainer):
    """Set all weights to NaN in the fourth update."""

    def step(self, batch: Any) -> Any:
        """Run one training step."""
        loss = super().step(batch)
        if self.steps == DEFECTIVE_STEP:
            weights = self.inner.weights().items()
            self.replace_weights({name: np.full_like(value, np.nan) for name, value in weights})
        return loss


class ChangedState(DefectiveTrainer):
    """Change the recurrent state, (rows, units), after each step."""

    change: Callable[[NDArray[Any]], NDArray[Any]]

    def step(self, batch: Any) -> Any:
        """Run one training step."""
        loss = super().step(batch)
        states = self.inner.recurrent_state().items()
        change = type(self).change
        self.inner.set_recurrent_state({name: change(value) for name, value in states})
        return loss


class NeighbouringState(ChangedState):
    """Pass the recurrent state of each row to the next one."""

    change = staticmethod(lambda state: np.roll(state, 1, axis=0))


class SharedState(ChangedState):
    """Use the recurrent state of the last row for all rows."""

    change = staticmethod(lambda state: np.repeat(state[-1:], len(state), axis=0))


class SkippedInstrumentedUpdate(DefectiveTrainer):
    """Skip the update in instrumented steps."""

    def instrumented_step(self, batch: Any, mark: PhaseMark) -> Any:
        """Run one instrumented step."""
        del mark
        return self.skip_update(batch)


class SkippedProfiledUpdate(DefectiveTrainer):
    """Skip the update in the trainer of profiled steps."""

    def step(self, batch: Any) -> Any:
        """Run one training step."""
        is_profiled = self.trace_run.path == "profiled"
        return self.skip_update(batch) if is_profiled else super().step(batch)


class DroppedUpdate(DefectiveTrainer):
    """Skip the fourth update."""

    def step(self, batch: Any) -> Any:
        """Run one training step."""
        is_dropped = self.steps + 1 == DEFECTIVE_STEP
        return self.skip_update(batch) if is_dropped else super().step(batch)


class TrainingModePrediction(DefectiveTrainer):
    """Predict with the statistics of the batch, as in training."""

    def predict(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return scores in training mode."""
        labels = np.zeros(len(inputs), np.int64)
        examples = InMemoryImages(inputs, labels, [np.arange(len(inputs))])
        return self.inner.forward_backward(next(self.inner.batches(examples))).logits


class Float16LargeBatches(DefectiveTrainer):
    """Round the weights to float16 after a step of float32 training with a large batch."""

    def step(self, batch: Any) -> Any:
        """Run one training step."""
        loss = super().step(batch)
        is_large = len(batch[1]) > LARGEST_PRECISE_BATCH
        if is_large and self.setup.dtype == "float32":
            self.synchronize(loss)
            weights = self.inner.weights().items()
            self.replace_weights({name: _round_float16(value) for name, value in weights})
        return loss


class ChangedLogits(DefectiveTrainer):
    """Change the logits of float32 training."""

    change: Callable[[NDArray[Any]], NDArray[Any]]

    def forward_backward(self, batch: Any) -> ForwardBackward:
        """Return logits, loss and gradients."""
        computed = self.inner.forward_backward(batch)
        if self.setup.dtype == "float64":
            return computed
        return replace(computed, logits=type(self).change(computed.logits))


def _round_float16(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(np.float16).astype(values.dtype)


def _add_errors(logits: NDArray[Any]) -> NDArray[Any]:
    errors = np.random.default_rng(1).uniform(-1e-4, 1e-4, logits.shape)
    return (logits * (1 + errors)).astype(np.float32)


class Float16Logits(ChangedLogits):
    """Round the logits of float32 training to float16."""

    change = staticmethod(_round_float16)


class InaccurateLogits(ChangedLogits):
    """Change the logits of float32 training by 1e-4, as rounded activations inside would."""

    change = staticmethod(_add_errors)

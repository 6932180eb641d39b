"""Trainers with a seeded defect in one of their methods; see `horizont.config.mutations`."""

from __future__ import annotations

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
    TrainingSetup,
)
from horizont.training.wrapped_trainer import BuildTrainer, WrappedTrainer


class DefectiveTrainer(WrappedTrainer):
    """A trainer that knows which trace it runs."""

    def __init__(self, build: BuildTrainer, setup: TrainingSetup, *, trace_run: TraceRun) -> None:
        super().__init__(build, setup)
        self.trace_run = trace_run


class NaNWeights(DefectiveTrainer):
    """Set all weights to NaN in the fourth update."""

    def step(self, batch: Any) -> Any:
        """Run one training step."""
        loss = super().step(batch)
        if self.steps == DEFECTIVE_STEP:
            weights = self.weights().items()
            self.replace_weights({name: np.full_like(value, np.nan) for name, value in weights})
        return loss


class NeighbouringState(DefectiveTrainer):
    """Pass the recurrent state of each row to the next one."""

    def step(self, batch: Any) -> Any:
        """Run one training step."""
        loss = super().step(batch)
        states = self.recurrent_state().items()
        self.set_recurrent_state({name: np.roll(value, 1, axis=0) for name, value in states})
        return loss


class SharedState(DefectiveTrainer):
    """Use the recurrent state of the last row for all rows."""

    def step(self, batch: Any) -> Any:
        """Run one training step."""
        loss = super().step(batch)
        states = self.recurrent_state().items()
        self.set_recurrent_state(
            {name: np.repeat(value[-1:], len(value), axis=0) for name, value in states}
        )
        return loss


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
            self.replace_weights({k: _round_float16(v) for k, v in self.weights().items()})
        return loss


class Float16Logits(DefectiveTrainer):
    """Round the logits of float32 training to float16."""

    def forward_backward(self, batch: Any) -> ForwardBackward:
        """Return logits, loss and gradients."""
        computed = super().forward_backward(batch)
        if self.setup.dtype == "float64":
            return computed
        return replace(computed, logits=_round_float16(computed.logits))


class InaccurateLogits(DefectiveTrainer):
    """Change the logits of float32 training by 1e-4, as rounded activations inside would."""

    def forward_backward(self, batch: Any) -> ForwardBackward:
        """Return logits, loss and gradients."""
        computed = super().forward_backward(batch)
        if self.setup.dtype == "float64":
            return computed
        errors = np.random.default_rng(1).uniform(-1e-4, 1e-4, computed.logits.shape)
        return replace(computed, logits=(computed.logits * (1 + errors)).astype(np.float32))


def _round_float16(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(np.float16).astype(values.dtype)

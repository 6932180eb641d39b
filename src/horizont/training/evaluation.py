"""Evaluation of the network, at checkpoints and at the end, and the summary of a run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from horizont.config.run import Run
from horizont.data.prepared import ImageData, TextData
from horizont.data.sharding import window_starts
from horizont.frameworks.base import (
    CommunicationStats,
    Coordinator,
    TextWindows,
    Trainer,
    TrainingSetup,
)
from horizont.networks.layers import Embedding
from horizont.records.files import write_arrays, write_json, write_table
from horizont.records.results import InputMeasurement
from horizont.training.context import WorkerContext

EVALUATION_BATCH = 500
#: Streams into which a text is split for evaluation.
TEXT_STREAMS = 20


def write_summary(
    context: WorkerContext,
    trainer: Trainer,
    final_loss: float,
    input_measurement: InputMeasurement | None = None,
    communication_stats: CommunicationStats | None = None,
) -> None:
    """Write final loss and evaluation metric, and the final weights if they are to be saved.

    The communication is that of a timed step, if the framework measures it.
    """
    job = context.job
    summary = {
        "final_loss": final_loss,
        "parameters": sum(weight.size for weight in context.setup.weights.values()),
        "table_parameters": _table_parameters(context.setup),
        **evaluate(trainer, context.data, job.run),
        "input": input_measurement and input_measurement.model_dump(),
        "exchange_s": communication_stats and communication_stats.exchange_s,
        "overlap_s": communication_stats and communication_stats.overlap_s,
    }
    write_json(job.folder / "summary.json", summary)
    if job.run.save_weights:
        write_arrays(job.folder / "weights.npz", trainer.weights())


def _table_parameters(setup: TrainingSetup) -> int:
    tables = [layer.name for layer in setup.network.layers if isinstance(layer, Embedding)]
    return sum(setup.weights[f"{name}.weight"].size for name in tables)


def evaluate(trainer: Trainer, data: ImageData | TextData, run: Run) -> dict[str, float]:
    """Compute ``test_accuracy`` or ``test_perplexity``, if the run is to be evaluated."""
    count = run.evaluation.examples
    if not count:
        return {}
    if isinstance(data, ImageData):
        return {"test_accuracy": _accuracy(trainer, data.test_images, data.test_labels, count)}
    time_steps = run.workload.time_steps
    return {"test_perplexity": perplexity(trainer, data.test_tokens, count, time_steps)}


def _accuracy(
    trainer: Trainer, images: NDArray[np.uint8], labels: NDArray[Any], count: int
) -> float:
    """Compute the top-1 accuracy on the first `count` images."""
    images = images[:count]
    predicted = [
        trainer.predict(np.asarray(images[start : start + EVALUATION_BATCH])).argmax(axis=1)
        for start in range(0, len(images), EVALUATION_BATCH)
    ]
    return float(np.mean(np.concatenate(predicted) == np.asarray(labels[:count])))


def perplexity(trainer: Trainer, tokens: NDArray[np.int32], count: int, time_steps: int) -> float:
    """Compute the perplexity, exp of the mean loss per word, on at most `count` windows.

    The text is read in parallel streams, each from a zero state.
    """
    rows = min(TEXT_STREAMS, count, (len(tokens) - 1) // time_steps)
    windows = min(count // rows, (len(tokens) - 1) // rows // time_steps)
    order = window_starts(
        words=len(tokens),
        time_steps=time_steps,
        global_batch=rows,
        workers=1,
        rank=0,
        steps=windows,
    )
    text = TextWindows(np.asarray(tokens), time_steps, list(order))
    trainer.reset_recurrent_state()
    losses = []
    for starts in order:
        inputs, targets = text.inputs_and_targets(starts)
        scores = trainer.predict(inputs).astype(np.float64)
        losses.append(np.mean(cross_entropies(scores, targets)))
    return float(np.exp(np.mean(losses)))


def cross_entropies(scores: NDArray[np.float64], targets: NDArray[Any]) -> NDArray[np.float64]:
    """Compute the loss of each target: (..., classes) and (...) to (...)."""
    indices = targets[..., None].astype(np.int64)
    target_scores = np.take_along_axis(scores, indices, axis=-1)[..., 0]
    highest = scores.max(axis=-1)  # the exponential of a large score overflows
    sums = np.exp(scores - highest[..., None]).sum(axis=-1)
    return np.asarray(highest + np.log(sums) - target_scores)


@dataclass
class CheckpointedEvaluation:
    """Checkpoints taken between timed steps, evaluated after training.

    Attributes
    ----------
    checkpoints
        Number of steps, time on the monotonic clock, and a setup with the weights of that time.
    """

    context: WorkerContext
    checkpoints: list[tuple[int, float, TrainingSetup]] = field(default_factory=list)

    def segments(self, steps: int) -> Iterator[tuple[int, bool]]:
        """Split the timed steps at the checkpoints: (steps, whether a checkpoint follows)."""
        every = self.context.job.run.evaluation.every
        while steps:
            segment = min(every or steps, steps)
            steps -= segment
            yield segment, bool(every)

    def checkpoint(self, step: int, source: Trainer | Coordinator) -> None:
        """Save a copy of the weights after `step` steps."""
        time_s = time.monotonic()
        setup = replace(
            self.context.setup,
            weights=source.weights(),
            running_statistics=source.running_statistics(),
        )
        self.checkpoints.append((step, time_s, setup))

    def evaluate_and_write(self) -> None:
        """Write ``evaluation.parquet`` with a row per checkpoint, if there are any."""
        if not self.checkpoints:
            return
        context = self.context
        rows = []
        for step, time_s, setup in self.checkpoints:
            trainer, data, run = context.adapter.trainer(setup), context.data, context.job.run
            metrics = evaluate(trainer, data, run)
            if isinstance(data, ImageData):
                count = run.evaluation.examples
                metrics["train_accuracy"] = _accuracy(
                    trainer, data.train_images, data.train_labels, count
                )
            rows.append({"step": step, "time_s": time_s, **metrics})
        write_table(context.job.folder / "evaluation.parquet", pa.Table.from_pylist(rows))

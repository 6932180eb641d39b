"""What a run came to, as its leading process found it out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from horizont.config.run import Run
from horizont.data.prepared import ImageData, TextData
from horizont.data.sharding import window_starts
from horizont.frameworks.base import CommunicationStats, TextWindows, Trainer, Weights
from horizont.records.files import write_json, write_table
from horizont.records.results import InputMeasurement
from horizont.training.context import WorkerContext

EVALUATION_BATCH = 500
#: Streams into which a text is cut for evaluation.
TEXT_STREAMS = 20


def write_summary(
    context: WorkerContext,
    trainer: Trainer,
    final_loss: float,
    input_measurement: InputMeasurement | None = None,
    communication_stats: CommunicationStats | None = None,
) -> None:
    """Leave the last loss, how good the network is, and the weights if they are asked for.

    Parameters
    ----------
    needs
        What the input pipeline needed, if it was looked at alone.
    exchanged
        In a bare step, if the framework tells.
    """
    job = context.job
    found = {
        "final_loss": final_loss,
        "parameters": sum(weight.size for weight in context.setup.weights.values()),
        **evaluate(trainer, context.data, job.run),
        "input": input_measurement and input_measurement.model_dump(),
        "exchange_s": communication_stats and communication_stats.exchange_s,
        "overlap_s": communication_stats and communication_stats.overlap_s,
    }
    write_json(job.folder / "summary.json", found)
    if job.run.save_weights:
        np.savez(job.folder / "weights.npz", **trainer.weights())


def evaluate(trainer: Trainer, data: ImageData | TextData, run: Run) -> dict[str, float]:
    """Tell how good a network is: ``test_accuracy`` or ``test_perplexity``, if it is asked for."""
    count = run.evaluate_examples
    if not count:
        return {}
    if isinstance(data, ImageData):
        return {"test_accuracy": accuracy(trainer, data, count)}
    time_steps = run.workload.time_steps
    return {"test_perplexity": perplexity(trainer, data.test_tokens, count, time_steps)}


def accuracy(trainer: Trainer, data: ImageData, count: int) -> float:
    """Tell the share of the first `count` test images whose class has the best score."""
    images = data.test_images[:count]
    labels = np.asarray(data.test_labels[:count])
    best = [
        trainer.predict(np.asarray(images[start : start + EVALUATION_BATCH])).argmax(axis=1)
        for start in range(0, len(images), EVALUATION_BATCH)
    ]
    return float(np.mean(np.concatenate(best) == labels))


def perplexity(trainer: Trainer, tokens: NDArray[np.int32], count: int, time_steps: int) -> float:
    """Tell how many words the network hesitates between: exp of the mean loss of a word.

    The text is read in streams, each from a state of zeros, `count` windows in all at most.
    """
    from scipy.special import logsumexp

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
        found = np.take_along_axis(scores, targets[..., None].astype(np.int64), axis=-1)[..., 0]
        losses.append(np.mean(logsumexp(scores, axis=-1) - found))
    return float(np.exp(np.mean(losses)))


class WeightSource(Protocol):
    """Whoever can tell what the network is like now: a trainer or a coordinator."""

    def weights(self) -> Weights:
        """Read the weights."""
        ...

    def running_statistics(self) -> Weights:
        """Read the tracked statistics."""
        ...


@dataclass(frozen=True)
class Checkpoint:
    """A network as it was after some steps; `time_s` is of the monotonic clock."""

    step: int
    time_s: float
    weights: Weights
    running_statistics: Weights


@dataclass
class CheckpointedEvaluation:
    """The looks of one process at its network."""

    context: WorkerContext
    checkpoints: list[Checkpoint] = field(default_factory=list)

    def segments(self, steps: int) -> Iterator[tuple[int, bool]]:
        """Part the bare steps at the looks: steps of each piece, and whether a look follows."""
        every = self.context.job.run.evaluate_every or steps
        while steps:
            piece = min(every, steps)
            steps -= piece
            yield piece, bool(self.context.job.run.evaluate_every)

    def checkpoint(self, step: int, source: WeightSource) -> None:
        """Copy what there is after so many steps."""
        self.checkpoints.append(
            Checkpoint(step, time.monotonic(), source.weights(), source.running_statistics())
        )

    def evaluate_and_write(self) -> None:
        """Evaluate the copies, and leave a table of them if there are any."""
        if not self.checkpoints:
            return
        session = self.context
        rows = [
            {
                "step": look.step,
                "time_s": look.time_s,
                **evaluate(self._trainer(look), session.data, session.job.run),
            }
            for look in self.checkpoints
        ]
        write_table(session.job.folder / "evaluation.parquet", pa.Table.from_pylist(rows))

    def _trainer(self, checkpoint: Checkpoint) -> Trainer:
        recipe = replace(
            self.context.setup, weights=checkpoint.weights, running_statistics=checkpoint.running_statistics
        )
        return self.context.adapter.trainer(recipe)

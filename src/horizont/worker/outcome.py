"""What a run came to, as its leading process found it out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from horizont.data import ImageData, TextData, window_starts
from horizont.frameworks.base import Exchanged, Trainer, Windows
from horizont.records import write_json
from horizont.records.result import InputFacts
from horizont.spec import Run
from horizont.worker.session import Session

BATCH = 500
#: Streams into which a text is cut for evaluation.
ROWS = 20


def leave_outcome(
    session: Session,
    trainer: Trainer,
    final_loss: float,
    needs: InputFacts | None = None,
    exchanged: Exchanged | None = None,
) -> None:
    """Leave the last loss, how good the network is, and the weights if they are asked for.

    Parameters
    ----------
    needs
        What the input pipeline needed, if it was looked at alone.
    exchanged
        In a bare step, if the framework tells.
    """
    job = session.job
    found = {
        "final_loss": final_loss,
        "parameters": sum(weight.size for weight in session.recipe.weights.values()),
        **quality(trainer, session.data, job.run),
        "input": needs and needs.model_dump(),
        "exchange_s": exchanged and exchanged.exchange_s,
        "overlap_s": exchanged and exchanged.overlap_s,
    }
    write_json(job.folder / "summary.json", found)
    if job.run.keep_weights:
        np.savez(job.folder / "weights.npz", **trainer.weights())


def quality(trainer: Trainer, data: ImageData | TextData, run: Run) -> dict[str, float]:
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
        trainer.predict(np.asarray(images[start : start + BATCH])).argmax(axis=1)
        for start in range(0, len(images), BATCH)
    ]
    return float(np.mean(np.concatenate(best) == labels))


def perplexity(trainer: Trainer, words: NDArray[np.int32], count: int, time_steps: int) -> float:
    """Tell how many words the network hesitates between: exp of the mean loss of a word.

    The text is read in streams, each from a state of zeros, `count` windows in all at most.
    """
    from scipy.special import logsumexp

    rows = min(ROWS, count, (len(words) - 1) // time_steps)
    windows = min(count // rows, (len(words) - 1) // rows // time_steps)
    order = window_starts(
        words=len(words), time_steps=time_steps, global_batch=rows, workers=1, rank=0, steps=windows
    )
    text = Windows(np.asarray(words), time_steps, list(order))
    trainer.forget()
    losses = []
    for starts in order:
        inputs, targets = text.at(starts)
        scores = trainer.predict(inputs).astype(np.float64)
        found = np.take_along_axis(scores, targets[..., None].astype(np.int64), axis=-1)[..., 0]
        losses.append(np.mean(logsumexp(scores, axis=-1) - found))
    return float(np.exp(np.mean(losses)))

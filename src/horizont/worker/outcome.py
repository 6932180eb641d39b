"""What a run came to, as its leading process found it out."""

from __future__ import annotations

import numpy as np

from horizont.data import ImageData
from horizont.frameworks.base import Trainer
from horizont.records import write_json
from horizont.spec import ProcessJob

BATCH = 500


def leave_outcome(job: ProcessJob, trainer: Trainer, data: ImageData, final_loss: float) -> None:
    """Leave the last loss, the accuracy on test images, and the weights if they are asked for."""
    count = job.run.evaluate_examples
    found = accuracy(trainer, data, count) if count else None
    write_json(job.folder / "summary.json", {"final_loss": final_loss, "test_accuracy": found})
    if job.run.keep_weights:
        np.savez(job.folder / "weights.npz", **trainer.weights())


def accuracy(trainer: Trainer, data: ImageData, count: int) -> float:
    """Tell the share of the first `count` test images whose class has the best score."""
    images = data.test_images[:count]
    labels = np.asarray(data.test_labels[:count])
    best = [
        trainer.predict(np.asarray(images[start : start + BATCH])).argmax(axis=1)
        for start in range(0, len(images), BATCH)
    ]
    return float(np.mean(np.concatenate(best) == labels))

"""A short training that tells every tensor, for the comparator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.data import ImageData, batch_indices, load
from horizont.errors import UserError
from horizont.frameworks.base import Examples, Recipe, Trainer
from horizont.frameworks.registry import load_adapter
from horizont.spec import TraceJob, TracePass
from horizont.worker.faults import FAULTS
from horizont.worker.session import recipe_for


def trace(job: TraceJob) -> None:
    """Train as the job says, once for each pass, and write all tensors to its files.

    The arrays are named ``<quantity>/<step>/<tensor>``: ``initial/0/conv1.weight``,
    ``logits/0/logits``, ``loss/0/loss``, ``gradient/0/conv1.weight``,
    ``update/5/conv1.weight`` (weights after five steps minus initial weights).
    """
    adapter = load_adapter(job.framework)
    adapter.configure(job.threads)
    data = load(job.data_folder)
    if not isinstance(data, ImageData):
        raise UserError("dataset", str(job.data_folder), "a set of images")
    for training in job.passes:
        recipe, examples = traced(job, training, data)
        trainer = adapter.trainer(recipe)
        arrays = probe_first_batch(trainer, examples)
        if training.variant == "permuted":  # told in the order of the plain variant
            arrays["logits/0/logits"] = arrays["logits/0/logits"][::-1]
        arrays |= follow(trainer, examples, job.at_steps)
        np.savez(job.folder / training.file, **arrays)


def traced(job: TraceJob, training: TracePass, data: ImageData) -> tuple[Recipe, Examples]:
    """Describe a training, with its variant and the job's fault applied."""
    order = list(
        batch_indices(
            examples=len(data.train_labels),
            global_batch=job.batch,
            local_batch=job.batch,
            workers=1,
            rank=0,
            sharding="by_batch",
            seed=job.seed,
            steps=job.at_steps[-1],
        )
    )
    if training.variant == "permuted":
        order = [indices[::-1].copy() for indices in order]
    used = np.unique(np.concatenate(order))
    recipe = replace(recipe_for(job.workload, data, job.seed), dtype=training.dtype)
    examples = Examples(
        images=np.array(data.train_images[used]),
        labels=np.array(data.train_labels[used]),
        order=[np.searchsorted(used, indices) for indices in order],
    )
    if job.fault is None:
        return recipe, examples
    if job.fault not in FAULTS:
        raise UserError("fault", job.fault, sorted(FAULTS))
    return FAULTS[job.fault](recipe, examples)


def probe_first_batch(trainer: Trainer, examples: Examples) -> dict[str, NDArray[Any]]:
    """Tell initial weights, logits, loss and gradients of the first batch."""
    arrays = {f"initial/0/{name}": value for name, value in trainer.weights().items()}
    probe = trainer.probe(next(trainer.batches(replace(examples, order=examples.order[:1]))))
    arrays["logits/0/logits"] = probe.logits
    arrays["loss/0/loss"] = np.array(probe.loss)
    return arrays | {f"gradient/0/{name}": value for name, value in probe.gradients.items()}


def follow(
    trainer: Trainer, examples: Examples, at_steps: tuple[int, ...]
) -> dict[str, NDArray[Any]]:
    """Train, and tell how far each weight has moved after some numbers of steps."""
    before = trainer.weights()
    arrays = {}
    for step, batch in enumerate(trainer.batches(examples), start=1):
        trainer.settle(trainer.step(batch))
        if step in at_steps:
            for name, value in trainer.weights().items():
                arrays[f"update/{step}/{name}"] = value - before[name]
    return arrays

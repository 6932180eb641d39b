"""A short training that tells every tensor, for the comparator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.data import ImageData, batch_indices, load
from horizont.errors import UserError
from horizont.frameworks.base import Examples, Recipe, Trainer, Weights
from horizont.frameworks.registry import load_adapter
from horizont.spec import TraceJob, TracePass
from horizont.worker.faults import FAULTS
from horizont.worker.masks import Masks, with_fed_dropouts
from horizont.worker.session import recipe_for


def trace(job: TraceJob) -> None:
    """Train as the job says, once for each pass, and write all tensors to its files.

    The arrays are named ``<quantity>/<step>/<tensor>``: ``initial/0/conv1.weight``,
    ``logits/0/logits``, ``loss/0/loss``, ``gradient/0/conv1.weight``,
    ``update/5/conv1.weight`` (weights after five steps minus initial weights),
    ``statistics/5/norm1.mean``, ``optimizer/5/conv1.weight.velocity``.
    """
    for training in job.passes:
        if training.fault not in (None, *FAULTS):
            raise UserError("fault", training.fault, sorted(FAULTS))
    adapter = load_adapter(job.framework)
    adapter.configure(job.threads)
    data = load(job.data_folder)
    if not isinstance(data, ImageData):
        raise UserError("dataset", str(job.data_folder), "a set of images")
    for training in job.passes:
        recipe, examples = traced(job, training, data)
        masks = Masks(recipe.network, job.seed, reverse=training.variant == "permuted")
        trainer = adapter.trainer(recipe)
        arrays = probe_first_batch(trainer, examples, masks)
        if training.variant == "permuted":  # told in the order of the plain variant
            arrays["logits/0/logits"] = arrays["logits/0/logits"][::-1]
        arrays |= follow(trainer, examples, masks, job.at_steps)
        np.savez(job.folder / training.file, **arrays)


def traced(job: TraceJob, training: TracePass, data: ImageData) -> tuple[Recipe, Examples]:
    """Describe a training, with its variant and its fault applied."""
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
    if len(order) > 1:  # as at the end of an epoch: an uneven batch
        order[-1] = order[-1][: job.batch // 2]
    if training.variant == "permuted":
        order = [indices[::-1].copy() for indices in order]
    used = np.unique(np.concatenate(order))
    recipe = recipe_for(job.workload, data, job.seed)
    recipe = replace(recipe, dtype=training.dtype, network=with_fed_dropouts(recipe.network))
    if training.variant == "moved":
        recipe = replace(recipe, weights=moved(recipe.weights, training.dtype))
    examples = Examples(
        images=np.array(data.train_images[used]),
        labels=np.array(data.train_labels[used]),
        order=[np.searchsorted(used, indices) for indices in order],
    )
    if training.fault is None:
        return recipe, examples
    return FAULTS[training.fault](recipe, examples)


def moved(weights: Weights, dtype: str) -> Weights:
    """Move each weight up by one unit in the last place that the precision has."""
    return {
        name: np.nextafter(value.astype(dtype), np.array(np.inf, dtype))
        for name, value in weights.items()
    }


def probe_first_batch(
    trainer: Trainer, examples: Examples, masks: Masks
) -> dict[str, NDArray[Any]]:
    """Tell initial weights, logits, loss and gradients of the first batch."""
    arrays = {f"initial/0/{name}": value for name, value in trainer.weights().items()}
    trainer.feed_masks(masks.of_step(1, len(examples.order[0])))
    probe = trainer.probe(next(trainer.batches(replace(examples, order=examples.order[:1]))))
    arrays["logits/0/logits"] = probe.logits
    arrays["loss/0/loss"] = np.array(probe.loss)
    return arrays | {f"gradient/0/{name}": value for name, value in probe.gradients.items()}


def follow(
    trainer: Trainer, examples: Examples, masks: Masks, at_steps: tuple[int, ...]
) -> dict[str, NDArray[Any]]:
    """Train, and tell after some numbers of steps how far all has moved."""
    before = trainer.weights()
    arrays = {}
    for step, batch in enumerate(trainer.batches(examples), start=1):
        trainer.feed_masks(masks.of_step(step, len(examples.order[step - 1])))
        trainer.settle(trainer.step(batch))
        if step in at_steps:
            for name, value in trainer.weights().items():
                arrays[f"update/{step}/{name}"] = value - before[name]
            for name, value in trainer.statistics().items():
                arrays[f"statistics/{step}/{name}"] = value
            for name, value in trainer.optimizer_state().items():
                arrays[f"optimizer/{step}/{name}"] = value
    return arrays

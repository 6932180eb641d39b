"""A short training that tells every tensor, for the comparator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.data import ImageData, TextData, batch_indices, load, window_starts
from horizont.errors import UserError
from horizont.frameworks.base import Examples, Recipe, Trainer, Weights, Windows
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
    ``statistics/5/norm1.mean``, ``state/5/lstm1.cell``, ``optimizer/5/conv1.weight.velocity``.
    """
    for training in job.passes:
        if training.fault not in (None, *FAULTS):
            raise UserError("fault", training.fault, sorted(FAULTS))
    adapter = load_adapter(job.framework)
    adapter.configure(job.threads)
    data = load(job.data_folder)
    for training in job.passes:
        recipe, examples = traced(job, training, data)
        masks = Masks(recipe.network, job.seed, reverse=training.variant == "permuted")
        trainer = adapter.trainer(recipe)
        arrays = probe_first_batch(trainer, examples, masks)
        arrays |= follow(trainer, examples, masks, job.at_steps)
        if training.variant == "permuted":  # told in the order of the plain variant
            told_by_example = {name for name in arrays if name.startswith(("logits/", "state/"))}
            arrays |= {name: arrays[name][::-1] for name in told_by_example}
        np.savez(job.folder / training.file, **arrays)


def traced(
    job: TraceJob, training: TracePass, data: ImageData | TextData
) -> tuple[Recipe, Examples | Windows]:
    """Describe a training, with its variant and its fault applied."""
    read = _windows if isinstance(data, TextData) else _images
    examples: Examples | Windows = read(job, data)  # type: ignore[arg-type]
    if training.variant == "permuted":
        order = [indices[::-1].copy() for indices in examples.order]
        examples = replace(examples, order=order)
    recipe = recipe_for(job.workload, data, job.seed, job.build)
    recipe = replace(recipe, dtype=training.dtype, network=with_fed_dropouts(recipe.network))
    if training.variant == "moved":
        recipe = replace(recipe, weights=moved(recipe.weights, training.dtype))
    if training.fault is None:
        return recipe, examples
    return FAULTS[training.fault](recipe, examples)


def _images(job: TraceJob, data: ImageData) -> Examples:
    """Take the images that the training needs; the last batch is an uneven one."""
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
    if len(order) > 1:  # as at the end of an epoch
        order[-1] = order[-1][: job.batch // 2]
    used = np.unique(np.concatenate(order))
    return Examples(
        images=np.array(data.train_images[used]),
        labels=np.array(data.train_labels[used]),
        order=[np.searchsorted(used, indices) for indices in order],
    )


def _windows(job: TraceJob, data: TextData) -> Windows:
    """Take the text; its batches are all of one size, as each row goes on where it ended."""
    time_steps = job.workload.time_steps
    order = window_starts(
        words=len(data.train_tokens),
        time_steps=time_steps,
        global_batch=job.batch,
        workers=1,
        rank=0,
        steps=job.at_steps[-1],
    )
    return Windows(np.array(data.train_tokens), time_steps, list(order))


def moved(weights: Weights, dtype: str) -> Weights:
    """Move each weight up by one unit in the last place that the precision has."""
    return {
        name: np.nextafter(value.astype(dtype), np.array(np.inf, dtype))
        for name, value in weights.items()
    }


def probe_first_batch(
    trainer: Trainer, examples: Examples | Windows, masks: Masks
) -> dict[str, NDArray[Any]]:
    """Tell initial weights, logits, loss and gradients of the first batch."""
    arrays = {f"initial/0/{name}": value for name, value in trainer.weights().items()}
    trainer.feed_masks(masks.of_step(1, len(examples.order[0])))
    probe = trainer.probe(next(trainer.batches(replace(examples, order=examples.order[:1]))))
    arrays["logits/0/logits"] = probe.logits
    arrays["loss/0/loss"] = np.array(probe.loss)
    return arrays | {f"gradient/0/{name}": value for name, value in probe.gradients.items()}


def follow(
    trainer: Trainer, examples: Examples | Windows, masks: Masks, at_steps: tuple[int, ...]
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
            for name, value in trainer.carried().items():
                arrays[f"state/{step}/{name}"] = value
            for name, value in trainer.optimizer_state().items():
                arrays[f"optimizer/{step}/{name}"] = value
    return arrays

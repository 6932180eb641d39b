"""Dropout for the comparator: the same elements are dropped in every framework."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.config.jobs import TraceJob, TraceRun
from horizont.data.prepared import ImageData, TextData, load
from horizont.data.sharding import batch_indices, window_starts
from horizont.errors import UserError
from horizont.frameworks import load_adapter
from horizont.frameworks.base import InMemoryImages, TextWindows, Trainer, TrainingSetup, Weights
from horizont.networks.layers import Dropout
from horizont.networks.network import Network
from horizont.training.context import training_setup
from horizont.training.mutations import MUTATION_FUNCTIONS


def use_external_dropout_masks(network: Network) -> Network:
    """Let all dropouts of a network take their masks from outside."""
    layers = tuple(
        replace(layer, external_mask=True) if isinstance(layer, Dropout) else layer
        for layer in network.layers
    )
    return replace(network, layers=layers)


@dataclass(frozen=True)
class DropoutMasks:
    """The masks of all dropouts of a network, drawn for each step.

    Attributes
    ----------
    reverse
        The examples of each batch come in reverse, and so do their masks.
    """

    network: Network
    seed: int
    reverse: bool = False

    def for_step(self, step: int, examples: int) -> Weights:
        """Draw the masks of a step: zero with the layer's rate, else 1 / (1 - rate)."""
        masks = {}
        for place in self.network.layer_contexts:
            layer = place.layer
            if isinstance(layer, Dropout):
                random = np.random.default_rng([self.seed, step, zlib.crc32(layer.name.encode())])
                kept = random.random((examples, *place.shape)) >= layer.rate
                masks[layer.name] = (kept[::-1] if self.reverse else kept) / (1.0 - layer.rate)
        return masks


def record_trace(job: TraceJob) -> None:
    """Train as the job says, once for each pass, and write all tensors to its files.

    The arrays are named ``<quantity>/<step>/<tensor>``: ``initial/0/conv1.weight``,
    ``logits/0/logits``, ``loss/0/loss``, ``gradient/0/conv1.weight``,
    ``update/5/conv1.weight`` (weights after five steps minus initial weights),
    ``statistics/5/norm1.mean``, ``state/5/lstm1.cell``, ``optimizer/5/conv1.weight.velocity``.
    """
    for training in job.runs:
        if training.mutation not in (None, *MUTATION_FUNCTIONS):
            raise UserError("mutation", training.mutation, sorted(MUTATION_FUNCTIONS))
    adapter = load_adapter(job.framework)
    adapter.configure(job.threads)
    data = load(job.data_folder)
    for training in job.runs:
        recipe, examples = traced_setup(job, training, data)
        masks = DropoutMasks(
            recipe.network, job.seed, reverse=training.perturbation == "batch_order"
        )
        trainer = adapter.trainer(recipe)
        arrays = capture_first_batch(trainer, examples, masks)
        arrays |= capture_trajectory(trainer, examples, masks, job.at_steps)
        if training.perturbation == "batch_order":  # told in the order of the plain variant
            told_by_example = {name for name in arrays if name.startswith(("logits/", "state/"))}
            arrays |= {name: arrays[name][::-1] for name in told_by_example}
        np.savez(job.folder / training.file_name, **arrays)


def traced_setup(
    job: TraceJob, trace_run: TraceRun, data: ImageData | TextData
) -> tuple[TrainingSetup, InMemoryImages | TextWindows]:
    """Describe a training, with its variant and its fault applied."""
    read = _traced_windows if isinstance(data, TextData) else _traced_images
    examples: InMemoryImages | TextWindows = read(job, data)  # type: ignore[arg-type]
    if trace_run.perturbation == "batch_order":
        order = [indices[::-1].copy() for indices in examples.order]
        examples = replace(examples, order=order)
    recipe = training_setup(job.workload, data, job.seed, job.variant)
    recipe = replace(
        recipe, dtype=trace_run.dtype, network=use_external_dropout_masks(recipe.network)
    )
    if trace_run.perturbation == "weight_ulp":
        recipe = replace(
            recipe, weights=perturb_weights_by_one_ulp(recipe.weights, trace_run.dtype)
        )
    if trace_run.mutation is None:
        return recipe, examples
    return MUTATION_FUNCTIONS[trace_run.mutation](recipe, examples)


def _traced_images(job: TraceJob, data: ImageData) -> InMemoryImages:
    """Take the images that the training needs; the last batch is an uneven one."""
    order = list(
        batch_indices(
            examples=len(data.train_labels),
            global_batch=job.batch,
            local_batch=job.batch,
            workers=1,
            rank=0,
            sharding="global_batches",
            seed=job.seed,
            steps=job.at_steps[-1],
        )
    )
    if len(order) > 1:  # as at the end of an epoch
        order[-1] = order[-1][: job.batch // 2]
    used = np.unique(np.concatenate(order))
    return InMemoryImages(
        images=np.array(data.train_images[used]),
        labels=np.array(data.train_labels[used]),
        order=[np.searchsorted(used, indices) for indices in order],
    )


def _traced_windows(job: TraceJob, data: TextData) -> TextWindows:
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
    return TextWindows(np.array(data.train_tokens), time_steps, list(order))


def perturb_weights_by_one_ulp(weights: Weights, dtype: str) -> Weights:
    """Move each weight up by one unit in the last place that the precision has."""
    return {
        name: np.nextafter(value.astype(dtype), np.array(np.inf, dtype))
        for name, value in weights.items()
    }


def capture_first_batch(
    trainer: Trainer, examples: InMemoryImages | TextWindows, masks: DropoutMasks
) -> dict[str, NDArray[Any]]:
    """Tell initial weights, logits, loss and gradients of the first batch."""
    arrays = {f"initial/0/{name}": value for name, value in trainer.weights().items()}
    trainer.set_dropout_masks(masks.for_step(1, len(examples.order[0])))
    probe = trainer.forward_backward(
        next(trainer.batches(replace(examples, order=examples.order[:1])))
    )
    arrays["logits/0/logits"] = probe.logits
    arrays["loss/0/loss"] = np.array(probe.loss)
    return arrays | {f"gradient/0/{name}": value for name, value in probe.gradients.items()}


def capture_trajectory(
    trainer: Trainer,
    examples: InMemoryImages | TextWindows,
    masks: DropoutMasks,
    at_steps: tuple[int, ...],
) -> dict[str, NDArray[Any]]:
    """Train, and tell after some numbers of steps how far all has moved."""
    before = trainer.weights()
    arrays = {}
    for step, batch in enumerate(trainer.batches(examples), start=1):
        trainer.set_dropout_masks(masks.for_step(step, len(examples.order[step - 1])))
        trainer.synchronize(trainer.step(batch))
        if step in at_steps:
            for name, value in trainer.weights().items():
                arrays[f"update/{step}/{name}"] = value - before[name]
            for name, value in trainer.running_statistics().items():
                arrays[f"statistics/{step}/{name}"] = value
            for name, value in trainer.recurrent_state().items():
                arrays[f"state/{step}/{name}"] = value
            for name, value in trainer.optimizer_state().items():
                arrays[f"optimizer/{step}/{name}"] = value
    return arrays

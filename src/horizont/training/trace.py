"""A process of the comparator: trains for a few steps and records every tensor."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
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

#: Dropout masks by the number of the step and of its examples.
Masks = Callable[[int, int], Weights]


def record_trace(job: TraceJob) -> None:
    """Train once for each run of the job, and write all tensors of each to a file.

    The arrays are named ``<quantity>/<step>/<tensor>``: ``initial/0/conv1.weight``,
    ``logits/0/logits``, ``loss/0/loss``, ``gradient/0/conv1.weight``,
    ``update/5/conv1.weight`` (weights after five steps minus initial weights),
    ``statistics/5/norm1.mean``, ``state/5/lstm1.cell``, ``optimizer/5/conv1.weight.velocity``.

    Raises
    ------
    UserError
        If there is no mutation of a name.
    """
    for trace_run in job.runs:
        if trace_run.mutation not in (None, *MUTATION_FUNCTIONS):
            raise UserError("mutation", trace_run.mutation, sorted(MUTATION_FUNCTIONS))
    adapter = load_adapter(job.framework)
    adapter.configure(job.threads)
    data = load(job.data_folder)
    for trace_run in job.runs:
        setup, examples = traced_setup(job, trace_run, data)
        is_reversed = trace_run.perturbation == "batch_order"
        masks = partial(draw_dropout_masks, setup.network, job.seed, is_reversed=is_reversed)
        trainer = adapter.trainer(setup)
        arrays = capture_first_batch(trainer, examples, masks)
        arrays |= capture_trajectory(trainer, examples, masks, job.at_steps)
        if is_reversed:  # recorded in the order of the other runs
            by_example = {name for name in arrays if name.startswith(("logits/", "state/"))}
            arrays |= {name: arrays[name][::-1] for name in by_example}
        np.savez(job.folder / trace_run.file_name, **arrays)


def traced_setup(
    job: TraceJob, trace_run: TraceRun, data: ImageData | TextData
) -> tuple[TrainingSetup, InMemoryImages | TextWindows]:
    """Return setup and examples of a run, with its perturbation and its mutation."""
    examples: InMemoryImages | TextWindows
    examples = _windows(job, data) if isinstance(data, TextData) else _images(job, data)
    if trace_run.perturbation == "batch_order":
        order = [indices[::-1].copy() for indices in examples.order]
        examples = replace(examples, order=order)
    setup = training_setup(job.workload, data, job.seed, job.variant, job.device)
    # The comparator sets the dropout masks, so that all frameworks drop the same elements.
    layers = tuple(
        replace(layer, external_mask=True) if isinstance(layer, Dropout) else layer
        for layer in setup.network.layers
    )
    setup = replace(setup, dtype=trace_run.dtype, network=replace(setup.network, layers=layers))
    if trace_run.perturbation == "weight_ulp":
        infinity = np.array(np.inf, setup.dtype)
        weights = {
            name: np.nextafter(value.astype(setup.dtype), infinity)
            for name, value in setup.weights.items()
        }
        setup = replace(setup, weights=weights)
    if trace_run.mutation is None:
        return setup, examples
    return MUTATION_FUNCTIONS[trace_run.mutation](setup, examples)


def _images(job: TraceJob, data: ImageData) -> InMemoryImages:
    """Load the images that the run needs; the last batch is a partial one."""
    order = list(
        batch_indices(
            examples=len(data.train_labels),
            global_batch=job.batch,
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


def _windows(job: TraceJob, data: TextData) -> TextWindows:
    """Load the text; its batches are equal in size, as each row continues its previous window."""
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


def draw_dropout_masks(
    network: Network, seed: int, step: int, examples: int, *, is_reversed: bool
) -> Weights:
    """Draw the masks of all dropout layers: zero with the layer's rate, else 1 / (1 - rate).

    Parameters
    ----------
    is_reversed
        Whether the examples of the batch are in reverse order, and with them the masks.
    """
    masks = {}
    for context in network.layer_contexts:
        layer = context.layer
        if isinstance(layer, Dropout):
            random = np.random.default_rng([seed, step, zlib.crc32(layer.name.encode())])
            mask = random.random((examples, *context.shape)) >= layer.rate
            masks[layer.name] = (mask[::-1] if is_reversed else mask) / (1.0 - layer.rate)
    return masks


def capture_first_batch(
    trainer: Trainer, examples: InMemoryImages | TextWindows, masks: Masks
) -> dict[str, NDArray[Any]]:
    """Return initial weights, and logits, loss and gradients of the first batch."""
    arrays = {f"initial/0/{name}": value for name, value in trainer.weights().items()}
    trainer.set_dropout_masks(masks(1, len(examples.order[0])))
    first_batch = next(trainer.batches(replace(examples, order=examples.order[:1])))
    computed = trainer.forward_backward(first_batch)
    arrays["logits/0/logits"] = computed.logits
    arrays["loss/0/loss"] = np.array(computed.loss)
    return arrays | {f"gradient/0/{name}": value for name, value in computed.gradients.items()}


def capture_trajectory(
    trainer: Trainer,
    examples: InMemoryImages | TextWindows,
    masks: Masks,
    at_steps: Sequence[int],
) -> dict[str, NDArray[Any]]:
    """Train, and return updates, statistics and states after some numbers of steps."""
    initial = trainer.weights()
    arrays = {}
    for step, batch in enumerate(trainer.batches(examples), start=1):
        trainer.set_dropout_masks(masks(step, len(examples.order[step - 1])))
        trainer.synchronize(trainer.step(batch))
        if step in at_steps:
            for name, value in trainer.weights().items():
                arrays[f"update/{step}/{name}"] = value - initial[name]
            for name, value in trainer.running_statistics().items():
                arrays[f"statistics/{step}/{name}"] = value
            for name, value in trainer.recurrent_state().items():
                arrays[f"state/{step}/{name}"] = value
            for name, value in trainer.optimizer_state().items():
                arrays[f"optimizer/{step}/{name}"] = value
    return arrays

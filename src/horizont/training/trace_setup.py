"""What a process of the comparator trains: setup, examples, perturbations and dropout masks."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from horizont.config.jobs import TraceJob, TraceRun
from horizont.data.prepared import ImageData, TextData
from horizont.data.sharding import batch_indices, window_starts
from horizont.frameworks.base import InMemoryImages, TextWindows, TrainingSetup, Weights
from horizont.networks.layers import Dropout
from horizont.networks.network import Network
from horizont.training.context import training_setup

Examples = InMemoryImages | TextWindows


def traced_setup(job: TraceJob, trace_run: TraceRun, data: ImageData | TextData) -> TrainingSetup:
    """Return the setup of a run with its perturbation, without its mutation.

    Running statistics do not start with mean 0 and variance 1, so that they matter in an
    evaluation.
    """
    setup = training_setup(job.workload, data, job.seed, job.variant, job.device)
    random = np.random.default_rng([job.seed, 1])
    statistics = {
        name: (value + random.uniform(-0.2, 0.2, value.shape)).astype(value.dtype)
        for name, value in setup.running_statistics.items()
    }
    setup = replace(
        setup,
        dtype=trace_run.dtype,
        # The comparator sets the dropout masks, so that all frameworks drop the same elements.
        network=setup.network.with_fields(Dropout, external_mask=True),
        running_statistics=statistics,
    )
    towards = {"weight_ulp": np.inf, "weight_ulp_down": -np.inf}.get(trace_run.perturbation)
    if towards is None:
        return setup
    limit = np.array(towards, setup.dtype)
    weights = {
        name: np.nextafter(value.astype(setup.dtype), limit)
        for name, value in setup.weights.items()
    }
    return replace(setup, weights=weights)


def evaluated_setup(setup: TrainingSetup) -> TrainingSetup:
    """Return the setup with the framework's own dropout, as the study evaluates it."""
    return replace(setup, network=setup.network.with_fields(Dropout, external_mask=False))


def traced_examples(job: TraceJob, trace_run: TraceRun, data: ImageData | TextData) -> Examples:
    """Return the examples of a run: those of all steps, or of a step of each timed batch size.

    One batch of images is a partial one, as at the end of an epoch. The batches of a text are equal
    in size, as each row continues its previous window.
    """
    order = example_indices(job, trace_run, data)
    if trace_run.perturbation == "batch_order":
        order = [indices[batch_permutation(len(indices), job.seed)] for indices in order]
    if isinstance(data, TextData):
        return TextWindows(np.array(data.train_tokens), job.workload.time_steps, order)
    used = np.unique(np.concatenate(order))
    return InMemoryImages(
        images=np.array(data.train_images[used]),
        labels=np.array(data.train_labels[used]),
        order=[np.searchsorted(used, indices) for indices in order],
    )


def example_indices(
    job: TraceJob, trace_run: TraceRun, data: ImageData | TextData
) -> list[NDArray[np.int64]]:
    """Return the indices of the examples, batch by batch, in the same order for all frameworks."""
    if trace_run.path == "timed_batches":
        return [next(iter(_batches(job, data, size, 1))) for size in job.timed_batches]
    order = list(_batches(job, data, job.batch, job.steps_of(trace_run)[-1]))
    partial = job.at_steps[-1]
    if isinstance(data, ImageData) and 1 < partial <= len(order):
        order[partial - 1] = order[partial - 1][: job.batch // 2]
    return order


def _batches(job: TraceJob, data: ImageData | TextData, size: int, steps: int) -> NDArray[np.int64]:
    if isinstance(data, TextData):
        return window_starts(
            words=len(data.train_tokens),
            time_steps=job.workload.time_steps,
            global_batch=size,
            workers=1,
            rank=0,
            steps=steps,
        )
    return batch_indices(
        examples=len(data.train_labels),
        global_batch=size,
        workers=1,
        rank=0,
        sharding="global_batches",
        seed=job.seed,
        steps=steps,
    )


def batch_permutation(examples: int, seed: int) -> NDArray[np.int64]:
    """Return the permutation of the rows of a batch, the same in every step."""
    return np.random.default_rng([seed, examples]).permutation(examples)


def draw_dropout_masks(
    network: Network, seed: int, step: int, examples: int, *, is_permuted: bool
) -> Weights:
    """Draw the masks of all dropout layers: zero with the layer's rate, else 1 / (1 - rate).

    If the rows of the batch are permuted, so are those of the masks.
    """
    masks = {}
    for context in network.layer_contexts:
        layer = context.layer
        if isinstance(layer, Dropout):
            random = np.random.default_rng([seed, step, zlib.crc32(layer.name.encode())])
            mask = random.random((examples, *context.shape)) >= layer.rate
            rows = batch_permutation(examples, seed) if is_permuted else slice(None)
            masks[layer.name] = mask[rows] / (1.0 - layer.rate)
    return masks

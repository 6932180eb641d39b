"""The order of the examples: what each worker reads at each step, the same in every framework."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from horizont.config.run import Run
from horizont.config.topology import Sharding
from horizont.data.prepared import DatasetDescription
from horizont.errors import UserError

Indices = NDArray[np.int64]


def example_order(run: Run, rank: int, description: DatasetDescription) -> Indices:
    """Return indices of images, or starts of windows, of a worker, shape (steps, local batch)."""
    if description.kind == "text":
        return window_starts(
            words=description.splits["train"],
            time_steps=run.workload.time_steps,
            global_batch=run.global_batch,
            workers=run.topology.workers,
            rank=rank,
            steps=run.steps.total,
        )
    return batch_indices(
        examples=examples_read(run, description),
        global_batch=run.global_batch,
        workers=run.topology.workers,
        rank=rank,
        sharding=run.topology.sharding,
        seed=run.seed,
        steps=run.steps.total,
    )


def examples_read(run: Run, description: DatasetDescription) -> int:
    """Count the training images, or words of a text, that a run reads of its data set."""
    return description.splits["train"] // run.input.shards


def window_starts(
    *, words: int, time_steps: int, global_batch: int, workers: int, rank: int, steps: int
) -> Indices:
    """Return where the windows of a worker begin in a text, shape (steps, rows of the worker).

    The text is split into as many streams of equal length as the global batch has rows. Each row
    reads its stream window by window, so that a recurrent network can carry its state on; at its
    end a stream starts over. A worker has adjacent rows, hence a contiguous part of the text: the
    batches of all workers together are those of a single process, and still no worker reads the
    text of another. So both ways of sharding images are the same here.

    A window has `time_steps` words, and the word after each of them is to be predicted. A text
    that is too short for a single step is refused.
    """
    length = (words - 1) // global_batch
    windows = length // time_steps
    if not windows:
        allowed = f"at most {(words - 1) // time_steps} for a text of {words} words"
        raise UserError("global_batch", global_batch, allowed)
    rows = np.array_split(np.arange(global_batch, dtype=np.int64), workers)[rank]
    offsets = np.arange(steps, dtype=np.int64) % windows * time_steps
    return np.asarray(offsets[:, None] + length * rows)


def batch_indices(
    *,
    examples: int,
    global_batch: int,
    workers: int,
    rank: int,
    sharding: Sharding,
    seed: int,
    steps: int,
) -> Indices:
    """Return the examples of a worker, shape (steps, global_batch / workers).

    They are of as many epochs as necessary; examples that do not fill the last batch of an epoch
    are left out. Fewer than a batch are refused.

    Parameters
    ----------
    sharding
        ``global_batches``: every epoch's permutation is split into global batches, of which a
        worker takes its contiguous slice; together the workers read exactly the batches of a
        single process. ``static_shards``: example ``i`` belongs to worker ``i mod n`` for the
        whole run, and a worker reads its examples in the order of the epoch's permutation.
    """
    local_batch = global_batch // workers
    smallest_shard = examples // workers
    has_global_batches = sharding == "global_batches"
    per_epoch = examples // global_batch if has_global_batches else smallest_shard // local_batch
    if per_epoch == 0:
        raise UserError("global_batch", global_batch, f"at most {examples}, the examples")
    epochs: list[Indices] = []
    for epoch in range(steps // per_epoch + 1):  # the last one may not be needed
        order = epoch_order(examples, seed, epoch)
        if has_global_batches:
            batches = order[: per_epoch * global_batch].reshape(per_epoch, workers, local_batch)
            epochs.append(batches[:, rank])
        else:
            shard = order[order % workers == rank]
            epochs.append(shard[: per_epoch * local_batch].reshape(per_epoch, local_batch))
    return np.concatenate(epochs)[:steps]


def epoch_order(examples: int, seed: int, epoch: int) -> Indices:
    """Return the order of the examples in an epoch, a permutation, int64, shape (examples,)."""
    stream = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch])))
    return stream.permutation(examples).astype(np.int64, copy=False)

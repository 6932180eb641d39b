"""The order of the examples: what each worker reads at each step, the same in every framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args, overload

import numpy as np
from numpy.typing import NDArray

from horizont.config.run import Run
from horizont.data.prepared import DatasetDescription
from horizont.errors import UserError

Sharding = Literal["global_batches", "static_shards"]
LastBatch = Literal["drop", "keep"]
Indices = NDArray[np.int64]


def example_order(run: Run, rank: int, description: DatasetDescription) -> Indices:
    """Return the examples of each batch of a worker: indices of images or starts of windows.

    Returns
    -------
    ndarray of int64, shape (steps, local batch)
    """
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
        examples=description.splits["train"],
        global_batch=run.global_batch,
        local_batch=run.local_batch,
        workers=run.topology.workers,
        rank=rank,
        sharding=run.topology.sharding,
        seed=run.seed,
        steps=run.steps.total,
    )


def window_starts(
    *, words: int, time_steps: int, global_batch: int, workers: int, rank: int, steps: int
) -> Indices:
    """Return where the windows of a worker begin in a text, step by step.

    The text is split into as many streams of equal length as the global batch has rows. Each row
    reads its stream window by window, so that a recurrent network can carry its state on; at its
    end a stream starts over. A worker has adjacent rows, hence a contiguous part of the text: the
    batches of all workers together are those of a single process, and still no worker reads the
    text of another. So both ways of sharding images are the same here.

    A window has `time_steps` words, and the word after each of them is to be predicted.

    Parameters
    ----------
    words
        Length of the text.

    Returns
    -------
    ndarray of int64, shape (steps, global_batch / workers)

    Raises
    ------
    UserError
        If the text is too short for a single step.
    """
    length = (words - 1) // global_batch
    windows = length // time_steps
    if not windows:
        allowed = f"at most {(words - 1) // time_steps} for a text of {words} words"
        raise UserError("global_batch", global_batch, allowed)
    rows = np.array_split(np.arange(global_batch, dtype=np.int64), workers)[rank]
    offsets = np.arange(steps, dtype=np.int64) % windows * time_steps
    return np.asarray(offsets[:, None] + length * rows)


def epoch_order(examples: int, seed: int, epoch: int) -> Indices:
    """Return the order of the examples in an epoch, a permutation, int64, shape (examples,).

    Raises
    ------
    UserError
        If there are no examples, or seed or epoch are negative.
    """
    _check_minimum("examples", examples, 1)
    _check_minimum("seed", seed, 0)
    _check_minimum("epoch", epoch, 0)
    stream = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch])))
    return stream.permutation(examples).astype(np.int64, copy=False)


def steps_per_epoch(
    examples: int, local_batch: int, workers: int, sharding: Sharding, last: LastBatch = "drop"
) -> int:
    """Return the number of steps in an epoch, the same for every worker."""
    drop_last = last == "drop"
    if sharding == "global_batches":
        return _count_batches(examples, local_batch * workers, drop_last)
    # The smallest shard if batches are dropped, else the largest.
    shard = examples // workers if drop_last else -(-examples // workers)
    return _count_batches(shard, local_batch, drop_last)


def _count_batches(examples: int, size: int, drop_last: bool) -> int:
    return examples // size if drop_last else -(-examples // size)


@overload
def batch_indices(
    *,
    examples: int,
    global_batch: int,
    local_batch: int,
    workers: int,
    rank: int,
    sharding: Sharding,
    seed: int,
    steps: int,
    last: Literal["drop"] = "drop",
) -> Indices: ...


@overload
def batch_indices(
    *,
    examples: int,
    global_batch: int,
    local_batch: int,
    workers: int,
    rank: int,
    sharding: Sharding,
    seed: int,
    steps: int,
    last: Literal["keep"],
) -> list[Indices]: ...


def batch_indices(
    *,
    examples: int,
    global_batch: int,
    local_batch: int,
    workers: int,
    rank: int,
    sharding: Sharding,
    seed: int,
    steps: int,
    last: LastBatch = "drop",
) -> Indices | list[Indices]:
    """Return the examples of a worker, step by step, over as many epochs as necessary.

    Parameters
    ----------
    examples
        Size of the training split.
    sharding
        ``global_batches``: every epoch's permutation is split into global batches, of which a
        worker takes its contiguous slice; together the workers read exactly the batches of a
        single process. ``static_shards``: example ``i`` belongs to worker ``i mod n`` for the
        whole run, and a worker reads its examples in the order of the epoch's permutation.
    seed
        Of the permutations.
    last
        ``drop``: examples that do not fill the last global batch of an epoch are left out.
        ``keep``: they form a smaller batch; ``global_batches`` splits it as evenly as possible,
        and a worker's part may be empty.

    Returns
    -------
    ndarray of int64, shape (steps, local_batch), or with ``keep`` a list of arrays

    Raises
    ------
    UserError
        If the numbers are invalid.
    """
    _check_sizes(examples, global_batch, local_batch, workers)
    _check_choices(workers, rank, sharding, steps, last)
    step_count = steps_per_epoch(examples, local_batch, workers, sharding, last)
    if step_count == 0:
        raise UserError("global_batch", global_batch, f"at most {examples}, the examples")

    def global_batches(order: Indices) -> list[Indices]:
        starts = range(0, step_count * global_batch, global_batch)
        batches = [order[start : start + global_batch] for start in starts]
        return [np.array_split(batch, workers)[rank] for batch in batches]

    def static_shards(order: Indices) -> list[Indices]:
        shard = order[order % workers == rank]
        starts = range(0, step_count * local_batch, local_batch)
        return [shard[start : start + local_batch] for start in starts]

    split: Callable[[Indices], list[Indices]]
    split = global_batches if sharding == "global_batches" else static_shards
    epochs = range(-(-steps // step_count))
    batches = [batch for epoch in epochs for batch in split(epoch_order(examples, seed, epoch))]
    if last == "keep":
        return batches[:steps]
    return np.array(batches[:steps], np.int64).reshape(steps, local_batch)


def _check_sizes(examples: int, global_batch: int, local_batch: int, workers: int) -> None:
    _check_minimum("examples", examples, 1)
    _check_minimum("workers", workers, 1)
    _check_minimum("local_batch", local_batch, 1)
    if global_batch != local_batch * workers:
        allowed = f"{local_batch * workers} = {workers} workers x local batch {local_batch}"
        raise UserError("global_batch", global_batch, allowed)


def _check_choices(workers: int, rank: int, sharding: str, steps: int, last: str) -> None:
    _check_minimum("steps", steps, 0)
    if not 0 <= rank < workers:
        raise UserError("rank", rank, f"0 to {workers - 1}")
    if sharding not in get_args(Sharding):
        raise UserError("sharding", sharding, get_args(Sharding))
    if last not in get_args(LastBatch):
        raise UserError("last", last, get_args(LastBatch))


def _check_minimum(field: str, value: int, minimum: int) -> None:
    if value < minimum:
        raise UserError(field, value, f"{minimum} or more")

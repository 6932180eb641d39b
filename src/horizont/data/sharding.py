"""Which words of a text each worker reads at each step: the same in every framework.

The text is cut into as many streams as the global batch has rows, all of one length, and each row
reads its stream window by window, so that the state of a recurrent network can be carried on. A
worker has rows that lie side by side, hence one stretch of the text: the batches of all workers
together are those of one process, and still no worker sees the text of another. Both ways of
sharing images fall together here. After its end a stream begins anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args, overload

import numpy as np
from numpy.typing import NDArray

from horizont.config.run import Run
from horizont.data.prepared import DatasetDescription
from horizont.errors import UserError


def window_starts(
    *, words: int, time_steps: int, global_batch: int, workers: int, rank: int, steps: int
) -> NDArray[np.int64]:
    """Return where the windows of a worker begin, step by step.

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


Sharding = Literal["global_batches", "static_shards"]
LastBatch = Literal["drop", "keep"]
Indices = NDArray[np.int64]


def epoch_order(examples: int, seed: int, epoch: int) -> Indices:
    """Return the order of the examples in an epoch, a permutation, int64 (examples,).

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
    """Return how many steps an epoch has; the same for every worker."""
    whole = last == "drop"
    if sharding == "global_batches":
        return _count_batches(examples, local_batch * workers, whole)
    shard = examples // workers if whole else -(-examples // workers)  # the smallest; largest
    return _count_batches(shard, local_batch, whole)


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
    """Return the examples that a worker sees, step by step, over as many epochs as it takes.

    Parameters
    ----------
    examples
        Size of the training split.
    global_batch, local_batch, workers
        Examples a step in all; of one worker; their ratio.
    rank
        Which worker, 0..workers-1.
    sharding
        ``global_batches`` or ``static_shards``.
    seed
        Of the permutations.
    steps
        How many steps.
    last
        ``drop``: examples that do not fill an epoch's last global batch are left out of that
        epoch. ``keep``: they make a smaller batch; ``global_batches`` shares it as evenly as it goes,
        and a worker's part may be empty.

    Returns
    -------
    ndarray of int64, shape (steps, local_batch), or with ``keep`` a list of arrays

    Raises
    ------
    UserError
        If the numbers are impossible.
    """
    _check_sizes(examples, global_batch, local_batch, workers)
    _check_choices(workers, rank, sharding, steps, last)
    length = steps_per_epoch(examples, local_batch, workers, sharding, last)
    if length == 0:
        raise UserError("global_batch", global_batch, f"at most {examples}, the examples")
    cut: Callable[[Indices], list[Indices]] = {
        "global_batches": lambda order: _global_batch_slices(
            order, global_batch, workers, rank, length
        ),
        "static_shards": lambda order: _static_shard_batches(
            order, local_batch, workers, rank, length
        ),
    }[sharding]
    epochs = range(-(-steps // length))
    batches = [batch for epoch in epochs for batch in cut(epoch_order(examples, seed, epoch))]
    if last == "keep":
        return batches[:steps]
    return np.array(batches[:steps], np.int64).reshape(steps, local_batch)


def _global_batch_slices(
    order: Indices, global_batch: int, workers: int, rank: int, step_count: int
) -> list[Indices]:
    starts = range(0, step_count * global_batch, global_batch)
    return [np.array_split(order[start : start + global_batch], workers)[rank] for start in starts]


def _static_shard_batches(
    order: Indices, local_batch: int, workers: int, rank: int, step_count: int
) -> list[Indices]:
    own = order[order % workers == rank]
    starts = range(0, step_count * local_batch, local_batch)
    return [own[start : start + local_batch] for start in starts]


def _count_batches(total: int, size: int, drop_last: bool) -> int:
    return total // size if drop_last else -(-total // size)


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


def example_order(run: Run, rank: int, description: DatasetDescription) -> NDArray[np.int64]:
    """Tell the examples of each batch: numbers of images, or where windows of a text begin.

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

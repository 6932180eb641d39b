"""Which examples each worker sees at each step: the same in every framework, from NumPy.

Two ways to share the examples among n workers:

- ``by_batch``: every epoch's permutation is cut into global batches, and a worker takes its
  contiguous slice of each. Together the workers see exactly the batches of one process.
- ``by_shard``: a worker only ever sees its own n-th of the examples, fixed for the run (example
  ``i`` belongs to worker ``i mod n``), in the order that the epoch's permutation gives them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args, overload

import numpy as np
from numpy.typing import NDArray

from horizont.errors import UserError

Sharding = Literal["by_batch", "by_shard"]
Last = Literal["drop", "keep"]
Indices = NDArray[np.int64]


def epoch_order(examples: int, seed: int, epoch: int) -> Indices:
    """Return the order of the examples in an epoch, a permutation, int64 (examples,).

    Raises
    ------
    UserError
        If there are no examples, or seed or epoch are negative.
    """
    _at_least("examples", examples, 1)
    _at_least("seed", seed, 0)
    _at_least("epoch", epoch, 0)
    stream = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch])))
    return stream.permutation(examples).astype(np.int64, copy=False)


def steps_per_epoch(
    examples: int, local_batch: int, workers: int, sharding: Sharding, last: Last = "drop"
) -> int:
    """Return how many steps an epoch has; the same for every worker."""
    whole = last == "drop"
    if sharding == "by_batch":
        return _pieces(examples, local_batch * workers, whole)
    shard = examples // workers if whole else -(-examples // workers)  # the smallest; largest
    return _pieces(shard, local_batch, whole)


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
    last: Last = "drop",
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
        ``by_batch`` or ``by_shard``.
    seed
        Of the permutations.
    steps
        How many steps.
    last
        ``drop``: examples that do not fill an epoch's last global batch are left out of that
        epoch. ``keep``: they make a smaller batch; ``by_batch`` shares it as evenly as it goes,
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
        "by_batch": lambda order: _slices(order, global_batch, workers, rank, length),
        "by_shard": lambda order: _shard(order, local_batch, workers, rank, length),
    }[sharding]
    epochs = range(-(-steps // length))
    batches = [batch for epoch in epochs for batch in cut(epoch_order(examples, seed, epoch))]
    if last == "keep":
        return batches[:steps]
    return np.array(batches[:steps], np.int64).reshape(steps, local_batch)


def _slices(
    order: Indices, global_batch: int, workers: int, rank: int, length: int
) -> list[Indices]:
    starts = range(0, length * global_batch, global_batch)
    return [np.array_split(order[start : start + global_batch], workers)[rank] for start in starts]


def _shard(order: Indices, local_batch: int, workers: int, rank: int, length: int) -> list[Indices]:
    own = order[order % workers == rank]
    starts = range(0, length * local_batch, local_batch)
    return [own[start : start + local_batch] for start in starts]


def _pieces(total: int, size: int, whole: bool) -> int:
    return total // size if whole else -(-total // size)


def _check_sizes(examples: int, global_batch: int, local_batch: int, workers: int) -> None:
    _at_least("examples", examples, 1)
    _at_least("workers", workers, 1)
    _at_least("local_batch", local_batch, 1)
    if global_batch != local_batch * workers:
        allowed = f"{local_batch * workers} = {workers} workers x local batch {local_batch}"
        raise UserError("global_batch", global_batch, allowed)


def _check_choices(workers: int, rank: int, sharding: str, steps: int, last: str) -> None:
    _at_least("steps", steps, 0)
    if not 0 <= rank < workers:
        raise UserError("rank", rank, f"0 to {workers - 1}")
    if sharding not in get_args(Sharding):
        raise UserError("sharding", sharding, get_args(Sharding))
    if last not in get_args(Last):
        raise UserError("last", last, get_args(Last))


def _at_least(field: str, value: int, least: int) -> None:
    if value < least:
        raise UserError(field, value, f"{least} or more")

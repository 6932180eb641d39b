"""The order in which a worker of a run sees the examples of a data set."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from horizont.data.about import About
from horizont.data.batches import batch_indices
from horizont.data.windows import window_starts
from horizont.spec import Run


def order_for(run: Run, rank: int, about: About) -> NDArray[np.int64]:
    """Tell the examples of each batch: numbers of images, or where windows of a text begin.

    Returns
    -------
    ndarray of int64, shape (steps, local batch)
    """
    if about.kind == "text":
        return window_starts(
            words=about.splits["train"],
            time_steps=run.workload.time_steps,
            global_batch=run.global_batch,
            workers=run.topology.workers,
            rank=rank,
            steps=run.steps.total,
        )
    return batch_indices(
        examples=about.splits["train"],
        global_batch=run.global_batch,
        local_batch=run.local_batch,
        workers=run.topology.workers,
        rank=rank,
        sharding=run.topology.sharding,
        seed=run.seed,
        steps=run.steps.total,
    )

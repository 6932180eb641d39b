"""Which words of a text each worker reads at each step: the same in every framework.

The text is cut into as many streams as the global batch has rows, all of one length, and each row
reads its stream window by window, so that the state of a recurrent network can be carried on. A
worker has rows that lie side by side, hence one stretch of the text: the batches of all workers
together are those of one process, and still no worker sees the text of another. Both ways of
sharing images fall together here. After its end a stream begins anew.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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

"""The threads of PyTorch: few for recordings, all for what is timed.

It imports nothing of Horizont.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

#: Of so many cores one thread is used for recordings. These have small batches, in whose layers
#: more threads wait for each other: on two cores up to ten times as long as one computes.
_CORES_PER_THREAD = 4

_EVERY = torch.get_num_threads()
_RECORDING = max(1, _EVERY // _CORES_PER_THREAD)


def limit_threads() -> None:
    """Set the number of threads for recordings."""
    torch.set_num_threads(_RECORDING)


@contextlib.contextmanager
def all_threads() -> Iterator[None]:
    """Set all threads for the context, unless the model has set their number."""
    is_limited = torch.get_num_threads() == _RECORDING
    if is_limited:
        torch.set_num_threads(_EVERY)
    try:
        yield
    finally:
        if is_limited:
            limit_threads()

"""Reading the clock inside a graph.

An operation runs when its inputs are there, in whatever order; only control dependencies say
what comes before what. The clock is the wall clock of the process that runs the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf


def after(times: Sequence[Any]) -> AbstractContextManager[Any]:
    """Let nothing that is built inside start before the last of the times was read."""
    context: AbstractContextManager[Any] = tf.control_dependencies([times[-1]])
    return context


def time_after(tensors: Sequence[Any]) -> Any:
    """Read the clock once all of the tensors are there."""
    with tf.control_dependencies(list(tensors)):
        return tf.timestamp()

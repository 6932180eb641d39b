"""What a recurrent network carries from batch to batch, kept beside the network.

The network takes the states of its layers and hands the new ones back. They stay where the
training runs; only a worker that is led by a coordinator has to keep its own on a server, since
nothing stays with it between two steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from horizont.frameworks.base import Weights
from horizont.networks import Shape


class Carried:
    """The states of this process, (examples, units) each; zeros to begin with."""

    def __init__(self, shapes: Mapping[str, Shape], dtype: str) -> None:
        self.shapes = shapes
        with tf.init_scope():
            self.states = [
                tf.Variable(np.zeros((1, *shape), dtype), shape=(None, *shape), trainable=False)
                for shape in shapes.values()
            ]

    def read(self, examples: Any) -> list[Any]:
        """Tell the states for a batch of so many examples."""
        return [state + tf.zeros((examples, 1), state.dtype) for state in self.states]

    def keep(self, after: Sequence[Any]) -> None:
        """Keep the states after a batch; no gradient flows back through them."""
        for state, value in zip(self.states, after, strict=True):
            state.assign(tf.stop_gradient(value))

    def forget(self) -> None:
        """Begin with zeros."""
        for state in self.states:
            state.assign(tf.zeros((1, state.shape[1]), state.dtype))

    def copies(self) -> list[Any]:
        """Copy the states out."""
        return [state.numpy() for state in self.states]

    def named(self) -> Weights:
        """Read the states by canonical name."""
        return dict(zip(self.shapes, self.copies(), strict=True))


class ServedStates:
    """The states of all workers, on a server: (workers, examples, units) each."""

    def __init__(self, shapes: Mapping[str, Shape], dtype: str, workers: int, rows: int) -> None:
        self.states = [
            tf.Variable(np.zeros((workers, rows, *shape), dtype), trainable=False)
            for shape in shapes.values()
        ]

    def read(self, rank: Any) -> list[Any]:
        """Tell the states of a worker."""
        return [tf.gather(state.read_value(), tf.cast(rank, tf.int32)) for state in self.states]

    def keep(self, rank: Any, after: Sequence[Any]) -> None:
        """Keep the states of a worker after its batch."""
        for state, value in zip(self.states, after, strict=True):
            place = tf.reshape(tf.cast(rank, tf.int32), (1,))
            kept = tf.IndexedSlices(tf.stop_gradient(value)[tf.newaxis], place)
            state.scatter_update(kept)

"""What the recorder of Keras needs of TensorFlow as its backend: gradients, graphs, a profile."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

#: Characters that the names of nodes and their types do not have.
_OTHER_EVENTS = {" ", ":"}


def versions() -> dict[str, str]:
    """Return the version of the backend."""
    return {"tensorflow": tf.__version__}


def to_array(tensor: Any) -> Any:
    """Copy a tensor."""
    return np.array(tensor)


class Tape:
    """The operations of one forward pass."""

    def __init__(self) -> None:
        self._tape = tf.GradientTape()
        self._outputs: dict[str, Any] = {}

    def __enter__(self) -> Tape:
        self._tape.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._tape.__exit__(*error)

    def watch(self, name: str, tensor: Any) -> Any:
        """Record a tensor, the gradient with respect to which is of interest, and return it."""
        self._outputs[name] = tensor
        return tensor

    def gradients(
        self, loss: Any, variables: Sequence[Any], repeat: Callable[..., Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the gradients, None where there is none, and norms of those of tensors."""
        del repeat  # the pass is recorded already
        found, outer = self._tape.gradient(
            loss, [[each.value for each in variables], list(self._outputs.values())]
        )
        # That of an embedding is sparse.
        found = [None if each is None else tf.convert_to_tensor(each) for each in found]
        norms = {
            name: tf.norm(tf.convert_to_tensor(each))
            for name, each in zip(self._outputs, outer, strict=True)
            if each is not None
        }
        return found, norms


def compiled(
    function: Callable[[Any], Any], stateless: Callable[..., Any], values: Sequence[Any]
) -> Callable[[Any], Any]:
    """Return a function as the backend executes it in `fit` and `predict`: as a graph."""
    del stateless, values  # variables are changed in place
    return tf.function(function)


def evaluating(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that records no operations for gradients: a graph does not anyway."""
    return function


def operators(execute: Callable[[], object]) -> list[tuple[str, int, float, float, float]]:
    """Return the nodes that the graph executed: type, thread, start, and twice the seconds."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        execute()
        tf.profiler.experimental.stop()
        space = xplane_pb2.XSpace()
        for path in Path(folder).rglob("*.xplane.pb"):
            space.ParseFromString(path.read_bytes())
    found = []
    for plane in space.planes:
        names = {key: value.name for key, value in plane.event_metadata.items()}
        for line, event in ((one, each) for one in plane.lines for each in one.events):
            node, _, kind = names[event.metadata_id].rpartition(":")
            if node and kind and plane.name == "/host:CPU" and not _OTHER_EVENTS & {*node, *kind}:
                start_s = line.timestamp_ns / 1e9 + event.offset_ps / 1e12
                seconds = event.duration_ps / 1e12
                found.append((kind, int(line.id), start_s, seconds, seconds))
    return found

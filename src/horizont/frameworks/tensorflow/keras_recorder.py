"""The recorder of Keras on TensorFlow: builds a model, and records layers, gradients, one update.

It imports nothing of Horizont, and runs wherever Keras does.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import platform
from collections.abc import Callable
from typing import Any

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

from . import keras_changes as changes
from .keras_layers import Entry, entries_of

Arrays = dict[str, Any]


def versions() -> dict[str, str]:
    """Return the versions that the results depend on."""
    return {
        "python": platform.python_version(),
        "keras": keras.__version__,
        "tensorflow": tf.__version__,
    }


def first_tensor(value: Any) -> Any:
    """Return the first floating-point tensor in what a layer or model returned."""
    flat = tf.nest.flatten(value)
    return next((each for each in flat if tf.is_tensor(each) and each.dtype.is_floating), None)


def channels_first(value: Any) -> Any:
    """Move the channels of an image, or of a signal, before the axes of space."""
    return np.moveaxis(value, -1, 1) if value.ndim > 2 else value


def channels_last(value: Any) -> Any:
    """Move the channels back after the axes of space."""
    return np.moveaxis(value, 1, -1) if value.ndim > 2 else value


class Recorder:
    """A model in one floating-point type, and the runs of it."""

    def __init__(
        self,
        build: Callable[..., Any],
        arguments: dict[str, Any],
        batch: Any,
        dtype: str,
        functions: Any,
    ) -> None:
        self.dtype, self.functions = dtype, functions
        self._set_type()
        keras.backend.clear_session()  # so that the names of layers are those of the first model
        keras.utils.set_random_seed(0)
        self.is_image = batch.ndim > 3 and keras.config.image_data_format() == "channels_last"
        self.batch = self._own_layout(batch)
        arguments = dict(arguments)
        with contextlib.suppress(TypeError, ValueError):
            if "input_shape" in inspect.signature(build).parameters:
                arguments.setdefault("input_shape", self.batch.shape[1:])
        self.model = build(**arguments)
        if not isinstance(self.model, keras.layers.Layer):
            raise TypeError(f"the callable returned {type(self.model).__name__}, not a model")
        self._call(self.batch, training=False)
        self.entries = self._in_order(entries_of(self.model))

    def _set_type(self) -> None:
        """Make new layers and constants have this floating-point type."""
        keras.config.set_floatx(self.dtype)
        keras.config.set_dtype_policy(self.dtype)

    def _own_layout(self, batch: Any) -> Any:
        """Return a batch with the layout and type of the model."""
        value = channels_last(batch) if self.is_image else batch
        return tf.constant(value, self.dtype if np.issubdtype(value.dtype, np.floating) else None)

    def _call(self, batch: Any, training: bool) -> Any:
        return self.model(batch, training=training)

    def _in_order(self, entries: list[Entry]) -> list[Entry]:
        """Return the layers in the order of execution, and note the shapes of their inputs."""
        order: dict[str, int] = {}
        self.shapes: dict[str, Any] = {}
        with contextlib.ExitStack() as stack:
            for entry in entries:

                def wrap(call: Any, name: str = entry.name) -> Any:
                    def recorded(*args: Any, **kwargs: Any) -> Any:
                        order.setdefault(name, len(order))
                        if args and tf.is_tensor(args[0]):
                            self.shapes.setdefault(name, tuple(args[0].shape))
                        return call(*args, **kwargs)

                    return recorded

                stack.callback(changes.wrap_call(entry.layer, "call", wrap))
            self._call(self.batch, training=False)
        return sorted(entries, key=lambda entry: order.get(entry.name, len(order)))

    def layers(self) -> list[dict[str, Any]]:
        """Describe the layers in the order of execution."""
        return [
            {
                "name": entry.name,
                "kind": entry.kind,
                "class": type(entry.layer).__name__,
                "code": _code_of(type(entry.layer)),
                "roles": list(entry.read()),
                "settings": entry.settings(self.shapes.get(entry.name)),
                "fixed": changes.FIXED,
            }
            for entry in self.entries
        ]

    def weights(self) -> Arrays:
        """Return all weights by the name of their layer and their role."""
        return {
            f"{entry.name}|{role}": value
            for entry in self.entries
            for role, value in entry.read().items()
        }

    def run(
        self,
        *,
        weights: Arrays,
        feed: Arrays,
        projection: Any,
        repairs: list[dict[str, Any]],
        training: bool,
        rate: float,
        seed: int,
    ) -> Arrays:
        """Run the model once, and return what was recorded; all changes are undone."""
        self._set_type()
        keras.utils.set_random_seed(seed)
        for entry in self.entries:
            start = f"{entry.name}|"
            entry.write({k[len(start) :]: v for k, v in weights.items() if k.startswith(start)})
        recorded: Arrays = {}
        self._feed = feed
        self._live: dict[str, Any] = {}
        batch = self._own_layout(weights["batch"]) if "batch" in weights else self.batch
        with contextlib.ExitStack() as stack:
            for undo in changes.no_dropout(self.model):
                stack.callback(undo)
            by_name = {entry.name: entry for entry in self.entries}
            inputs = {r["layer"]: r["value"] for r in repairs if r["key"] == "input"}
            for repair in repairs:
                if repair["key"] not in ("input", "result"):
                    entry = by_name[repair["layer"]]
                    stack.callback(changes.change(entry, repair["key"], repair["value"]))
            for entry in self.entries:
                if not entry.is_container:
                    self._hook(entry, inputs.get(entry.name), recorded, stack)
            with tf.GradientTape() as tape:
                result = first_tensor(self._call(batch, training))
                for repair in repairs:
                    if repair["key"] == "result":
                        result = self.functions.repaired(
                            changes.Namespace, result, repair["value"], self._live
                        )
                is_image = self.is_image and len(result.shape) > 3
                recorded["result"] = (channels_first if is_image else np.array)(result.numpy())
                if projection is not None:
                    value = channels_last(projection) if is_image else projection
                    loss = tf.reduce_sum(result * tf.constant(value, result.dtype))
                    loss = loss / tf.cast(tf.shape(result)[0], result.dtype)
            if projection is not None:
                recorded["loss"] = loss.numpy()
                self._train(tape, loss, rate, recorded)
            for entry in self.entries if training else ():
                for role, value in entry.read().items():
                    recorded[f"after|{entry.name}|{role}"] = value
        return recorded

    def _train(self, tape: Any, loss: Any, rate: float, recorded: Arrays) -> None:
        """Compute gradients, and one update with the optimizer of Keras."""
        owned = [
            (entry, role, variable)
            for entry in self.entries
            for role, variable in entry.variables.items()
            if variable.trainable
        ]
        outputs = list(self._live.items())
        gradients = tape.gradient(
            loss, [[v.value for _, _, v in owned], [tensor for _, tensor in outputs]]
        )
        pairs = []
        for (entry, role, variable), found in zip(owned, gradients[0], strict=False):
            if found is None:
                continue
            gradient = tf.convert_to_tensor(found)  # that of an embedding is sparse
            pairs.append((gradient, variable))
            for name, value in entry.canonical(role, gradient.numpy()).items():
                recorded[f"gradient|{entry.name}|{name}"] = value
        for (name, _), gradient in zip(outputs, gradients[1], strict=False):
            if gradient is not None:
                recorded[f"outer|{name}"] = tf.norm(tf.convert_to_tensor(gradient)).numpy()
        if pairs:
            keras.optimizers.SGD(learning_rate=rate).apply(*map(list, zip(*pairs, strict=False)))

    def _hook(self, entry: Entry, repair: Any, recorded: Arrays, stack: Any) -> None:
        """Record input and output of a layer, repair its input, and feed other ones.

        The output of a layer with an activation is what the activation is applied to.
        """
        own: Callable[[Any], Any] = channels_last if entry.is_channels_last else np.array
        canonical: Callable[[Any], Any] = channels_first if entry.is_channels_last else np.array

        def fed(key: str, value: Any) -> Any:
            if (other := self._feed.get(key)) is not None:
                other = own(other)
                if other.shape == tuple(value.shape):
                    return tf.constant(other, value.dtype)
            return value

        def note(output: Any) -> Any:
            key = f"output|{entry.name}"
            tensor = first_tensor(output)
            if tensor is None or key in recorded:
                return output
            recorded[key] = canonical(tensor.numpy())
            other = fed(key, tensor)
            self._live[entry.name] = other
            return other if tf.is_tensor(output) else output

        def wrap(call: Any) -> Any:
            def hooked(*args: Any, **kwargs: Any) -> Any:
                key = f"input|{entry.name}"
                if args and tf.is_tensor(args[0]) and key not in recorded:
                    value = args[0]
                    if repair is not None:
                        value = self.functions.repaired(
                            changes.Namespace, value, _own_axis(repair, entry), self._live
                        )
                    recorded[key] = canonical(value.numpy())
                    args = (fed(key, value), *args[1:])
                return note(call(*args, **kwargs))

            return hooked

        has_activation = "convolution" in entry.kind or entry.kind == "dense"
        if has_activation and callable(getattr(entry.layer, "activation", None)):
            stack.callback(
                changes.wrap_call(entry.layer, "activation", lambda f: lambda x: f(note(x)))
            )
        stack.callback(changes.wrap_call(entry.layer, "call", wrap))


def _own_axis(change: dict[str, Any], entry: Entry) -> dict[str, Any]:
    """Return a change of an input with the axis of channels of this layout."""
    is_moved = entry.is_channels_last and change.get("axis") == 1
    return {**change, "axis": -1} if is_moved else change


def _code_of(cls: type) -> str:
    """Return file and line of a class."""
    try:
        return f"{inspect.getsourcefile(cls)}:{inspect.getsourcelines(cls)[1]}"
    except (OSError, TypeError):
        return ""

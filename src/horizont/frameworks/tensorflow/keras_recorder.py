"""The recorder of Keras: builds a model, and records its layers, gradients and one update.

It imports nothing of Horizont, and runs wherever Keras does. The backend is the one that
``KERAS_BACKEND`` names, or else the one that is installed; what is not the same in all of them is
in ``keras_<backend>.py`` in the folder of its framework.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import os
import platform
from collections.abc import Callable
from typing import Any

os.environ.setdefault(
    "KERAS_BACKEND", next(filter(importlib.util.find_spec, ("tensorflow", "torch", "jax")), "torch")
)

import keras
import numpy as np
from keras import ops

from . import keras_changes as changes
from .keras_layers import (
    Entry,
    entries_of,
    own_axis,
    read_weights,
    side_by_side,
    write_weights,
)
from .keras_order import executed
from .keras_parts import divided, separable
from .keras_script import script_of_layer, script_of_tensor
from .keras_tensors import canonical_results, first_tensor, loss_of, tensors_in
from .keras_timing import timed_part
from .keras_training import Loss, Optimizer, stateless
from .tensor_layouts import channels_last

# Keras' table of types has no double precision on PyTorch and JAX, so that a dense layer or a norm
# of doubles would be computed in single precision.
with contextlib.suppress(ImportError, AttributeError):
    dtypes = importlib.import_module("keras.src.backend.common.dtypes")
    dtypes.BIT64_TO_BIT32_DTYPE.pop("float64", None)

if keras.backend.backend() not in ("tensorflow", "torch", "jax"):
    raise ImportError(f"Keras on {keras.backend.backend()} cannot be recorded")
backend = importlib.import_module(f".keras_{keras.backend.backend()}", __package__)

Arrays = dict[str, Any]


def versions() -> dict[str, str]:
    """Return the versions that the results depend on."""
    return {
        "python": platform.python_version(),
        "keras": keras.__version__,
        **backend.versions(),
    }


#: Copies a tensor: an operation in place may overwrite it later.
to_array: Callable[[Any], Any] = backend.to_array

#: Some backends record with fewer threads than they are timed with.
limit_threads: Callable[[], object] = getattr(backend, "limit_threads", lambda: None)
all_threads: Any = getattr(backend, "all_threads", contextlib.nullcontext)


def operators(execute: Callable[[], object]) -> list[tuple[str, int, float, float, float]]:
    """Return the calls of operators: name, thread, start, seconds with and without inner calls."""
    found: list[tuple[str, int, float, float, float]] = backend.operators(execute)
    return found


#: The class of all layers.
LAYER_CLASS = keras.layers.Layer

#: Kinds of layers that can be recorded in parts.
DIVISIBLE = ("attention", "other")


class Recorder:
    """A model in one floating-point type, and the runs of it."""

    def __init__(
        self,
        build: Callable[..., Any],
        arguments: dict[str, Any],
        batch: Any,
        dtype: str,
        functions: Any,
        *,
        divisions: dict[str, Any] | None = None,
    ) -> None:
        self.dtype, self.functions = dtype, functions
        self.parts: dict[str, Any] = {}
        self._tape: Any = None
        self._set_type()
        keras.backend.clear_session()  # so that the names of layers are those of the first model
        keras.utils.set_random_seed(0)
        self.is_image = batch.ndim > 3 and keras.config.image_data_format() == "channels_last"
        self.batch = self._own_layout(batch)
        arguments = dict(arguments)
        with contextlib.suppress(TypeError, ValueError):
            if "input_shape" in inspect.signature(build).parameters:
                arguments.setdefault("input_shape", tuple(self.batch.shape[1:]))
        self.model = build(**arguments)
        given = ", ".join(f"{key}={each!r}" for key, each in arguments.items())
        #: The expression that builds the model.
        self.expression = f"build({given})"
        if not isinstance(self.model, keras.layers.Layer):
            packages = {each.__module__.partition(".")[0] for each in type(self.model).__mro__}
            hint = "; write tf: before one of Keras 2" if "tf_keras" in packages else ""
            raise TypeError(
                f"the callable returned {type(self.model).__name__}, not a model of Keras 3{hint}"
            )
        self.results = [path for path, _ in tensors_in(self._evaluate())]
        self.separable = separable(self.model)
        self.entries = self._in_order(entries_of(self.model, divisions or {}, self.separable))
        #: Whether results with three axes beside the examples have channels last.
        self.has_images = self.is_image or any(
            "convolution" in each.kind and each.is_channels_last for each in self.entries
        )
        optimizer = getattr(self.model, "optimizer", None)
        self.optimizer = Optimizer(optimizer, self.entries) if optimizer else None
        loss = getattr(self.model, "loss", None)
        self.loss = Loss(loss, backend.Tape) if loss else None

    def _set_type(self) -> None:
        """Make new layers and constants have this floating-point type."""
        keras.config.set_floatx(self.dtype)
        keras.config.set_dtype_policy(self.dtype)

    def _own_layout(self, batch: Any) -> Any:
        """Return a batch with the layout and type of the model."""
        value = channels_last(batch) if self.is_image else batch
        is_float = np.issubdtype(value.dtype, np.floating)
        return ops.convert_to_tensor(value, self.dtype if is_float else None)

    def _call(self, batch: Any, training: bool) -> Any:
        return self.model(batch, training=training)

    def _in_order(self, entries: list[Entry]) -> list[Entry]:
        """Return the layers in the order of execution, and note what they are called with."""
        with divided(self.separable), changes.drawing(self.model) as self.active:
            found, self.shapes, self.called = executed(entries, self._evaluate)
        return found

    def _evaluate(self) -> Any:
        return self._call(self.batch, training=False)

    def layers(self) -> list[dict[str, Any]]:
        """Describe the layers in the order of execution."""
        return [
            {
                "name": entry.name,
                "kind": entry.kind,
                "layer": entry.layer,
                "roles": list(entry.read()),
                "settings": entry.settings(self.shapes.get(entry.name))
                | self.called.get(entry.name, {}),
                "fixed": changes.FIXED,
            }
            for entry in self.entries
        ]

    def facts(self) -> dict[str, Any]:
        """Return what a comparison leaves out, and which norms add one to their weight."""
        # What follows such a dropout is not known.
        active = [(rate, "") for rate in self.active]
        found = changes.facts(self.model, self.entries)
        return {"results": self.results, "dropout in evaluation": active, **found}

    def weights(self) -> Arrays:
        """Return all weights by the name of their layer and their role."""
        return read_weights(self.entries)

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
        others: Arrays | None = None,
    ) -> Arrays:
        """Run the model once, and return what was recorded; all changes are undone."""
        self._set_type()
        keras.utils.set_random_seed(seed)
        write_weights(self.entries, weights)
        recorded: Arrays = {}
        self._feed = feed
        self._live: dict[str, Any] = {}
        batch = self._own_layout(weights["batch"]) if "batch" in weights else self.batch
        with contextlib.ExitStack() as stack:
            stack.enter_context(divided(self.separable))
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
            changed = [each["value"] for each in repairs if each["key"] == "result"]
            projections = {} if projection is None else {"": projection, **(others or {})}

            def forward(_: Any = None) -> Any:
                (_, result), *further = tensors_in(self._call(batch, training))
                for change in changed:
                    result = self.functions.repaired(changes.Namespace, result, change, self._live)
                results = {"": result, **dict(further)}
                recorded.update(canonical_results(results, to_array, has_images=self.has_images))
                return loss_of(results, projections, has_images=self.has_images)

            def repeat(_: Any) -> Any:
                found = dict(recorded)
                recorded.clear()
                loss = forward()
                recorded.clear()
                recorded.update(found)
                return loss

            with backend.Tape() as self._tape:
                loss = forward()
            if projection is not None:
                recorded["loss"] = to_array(loss)
                self._train(loss, rate, recorded, repeat)
            if training:
                after = read_weights(self.entries)
                recorded.update({f"after|{name}": value for name, value in after.items()})
        return recorded

    def _train(
        self, loss: Any, rate: float, recorded: Arrays, repeat: Callable[[Any], Any]
    ) -> None:
        """Compute gradients, and one update with the optimizer of Keras."""
        owned = [
            (entry, role, variable)
            for entry in self.entries
            for role, variable in entry.variables.items()
            if variable.trainable
        ]
        variables = [variable for _, _, variable in owned]
        again = stateless(repeat, variables)
        gradients, norms = self._tape.gradients(loss, variables, again)
        pairs = []
        for (entry, role, variable), gradient in zip(owned, gradients, strict=True):
            if gradient is None:
                continue
            pairs.append((gradient * entry.equal_variables.get(role, 1), variable))
            for name, value in entry.canonical(role, to_array(gradient)).items():
                recorded[f"gradient|{entry.name}|{name}"] = value
        for name, value in norms.items():
            recorded[f"outer|{name}"] = to_array(value)
        if pairs:
            keras.optimizers.SGD(learning_rate=rate).apply(*map(list, zip(*pairs, strict=True)))

    def script(self, layer: str, weights: Arrays, value: Any) -> tuple[str, Arrays]:
        """Return code that repeats the output of a layer for a value, or what precedes the layer.

        Without a layer, it repeats the result.
        """
        self._set_type()
        write_weights(self.entries, weights)
        entry = next((each for each in self.entries if each.name == layer), None)
        if entry is not None and value is not None:
            return script_of_layer(entry, self.model, self.expression, value)
        return script_of_tensor(entry, self.model, self.expression, self.batch)

    def part(self, name: str, rate: float) -> Callable[[], object]:
        """Return a part of the model as it is: ``evaluation``, ``forward`` or a training ``step``.

        It is executed as in `fit`. The loss is the mean of the squared result; the update is one
        of SGD.
        """
        self._set_type()
        if name not in self.parts:
            self.parts[name] = timed_part(self.model, backend, name, rate)
        execute = self.parts[name]
        return lambda: ops.convert_to_numpy(execute(self.batch))

    def _hook(self, entry: Entry, repair: Any, recorded: Arrays, stack: Any) -> None:
        """Record input and output of a layer, repair its input, and feed other ones.

        The output of a layer with an activation is what the activation is applied to.
        """

        def fed(key: str, value: Any) -> Any:
            if (other := self._feed.get(key)) is not None:
                other = entry.to_own(other, tuple(value.shape))
                if other.shape == tuple(value.shape):
                    return ops.convert_to_tensor(
                        other, keras.backend.standardize_dtype(value.dtype)
                    )
            return value

        def note(output: Any) -> Any:
            key = f"output|{entry.name}"
            tensor = first_tensor(output)
            if tensor is None or key in recorded:
                return output
            recorded[key] = entry.to_canonical(to_array(tensor))
            other = self._tape.watch(entry.name, fed(key, tensor))
            self._live[entry.name] = side_by_side(entry, other)
            return other if ops.is_tensor(output) else output

        def wrap(call: Any) -> Any:
            def hooked(*args: Any, **kwargs: Any) -> Any:
                key = f"input|{entry.name}"
                if args and ops.is_tensor(args[0]) and key not in recorded:
                    value = args[0]
                    if repair is not None:
                        value = self._repaired(entry, value, repair)
                    recorded[key] = entry.to_canonical(to_array(value))
                    self._live[key] = fed(key, value)
                    args = (self._live[key], *args[1:])
                return note(call(*args, **kwargs))

            return hooked

        has_activation = "convolution" in entry.kind or entry.kind == "dense"
        if has_activation and callable(getattr(entry.layer, "activation", None)):
            stack.callback(
                changes.wrap_call(entry.layer, "activation", lambda f: lambda x: f(note(x)))
            )
        stack.callback(changes.wrap_call(entry.layer, "call", wrap))

    def _repaired(self, entry: Entry, value: Any, repair: dict[str, Any]) -> Any:
        """Change the input of a layer; heads are side by side meanwhile."""
        change = own_axis(repair, entry)
        found = self.functions.repaired(
            changes.Namespace, side_by_side(entry, value), change, self._live
        )
        return ops.reshape(found, value.shape) if entry.part else found

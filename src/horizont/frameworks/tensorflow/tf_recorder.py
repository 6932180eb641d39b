"""The recorder of TensorFlow: records the layers of a module, gradients, and one update.

What builds the model returns a `tf.Module`, or what `tf.saved_model.load` returns; it is called
with the batch, and with ``training`` if it has such a parameter. Models of Keras have a recorder of
their own. It imports nothing of Horizont, and runs wherever TensorFlow does.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import numpy as np
import tensorflow as tf

from . import keras_tensorflow as backend
from .tensor_layouts import channels_first, channels_last
from .tf_entries import STATISTICS, Entry, read_weights
from .tf_graph import Graph, Interpreter, Variables, trace
from .tf_layers import find_layers
from .tf_norms import uses_batch
from .tf_run import Run

Arrays = dict[str, Any]

#: Settings that a layer shows and that cannot be changed here.
_FIXED = ("groups", "padding mode", "variance correction", "statistics", "form of a norm")

#: Functions that drop elements, which change nothing while a model is compared.
_DROPOUTS = tuple(
    (module, name)
    for api in (tf, tf.compat.v2, tf.compat.v1)
    for module in (api.nn, getattr(api.nn, "experimental", None))
    for name in ("dropout", "stateless_dropout", "general_dropout")
    if hasattr(module, name)
)

#: The function of a saved model that is used if there are several.
_SERVING = "serving_default"

operators = backend.operators


def versions() -> dict[str, str]:
    """Return the versions that the results depend on."""
    return {"python": platform.python_version(), **backend.versions()}


@contextlib.contextmanager
def _without_dropout() -> Iterator[None]:
    before = [getattr(module, name) for module, name in _DROPOUTS]
    for module, name in _DROPOUTS:
        setattr(module, name, lambda x, *_args, **_kwargs: x)
    try:
        yield
    finally:
        for (module, name), function in zip(_DROPOUTS, before, strict=True):
            setattr(module, name, function)


def _is_of_keras_2(model: Any) -> bool:
    """Whether a model is one of the package tf_keras."""
    return any(each.__module__.startswith("tf_keras.") for each in type(model).__mro__)


def _callable(model: Any) -> Callable[..., Any]:
    """Return what computes the result of a batch: the model, or its function for serving."""
    if hasattr(model, "_flatten_layers") and not _is_of_keras_2(model):
        raise TypeError("the callable returned a model of Keras: write keras: before it, not tf:")
    if callable(model):
        return model
    functions = dict(getattr(model, "signatures", {}))
    if len(functions) != 1 and _SERVING not in functions:
        raise TypeError(f"the callable returned {type(model).__name__}, which cannot be called")
    function = functions.get(_SERVING) or next(iter(functions.values()))
    (name,) = function.structured_input_signature[1]
    return lambda batch: function(**{name: batch})


def _traced(call: Any, mode: dict[str, bool], batch: Any, variables: Variables) -> Graph:
    def function(x: Any) -> Any:  # the control flow of the model becomes that of the graph
        return call(x, **mode)

    with _without_dropout():
        return trace(function, batch, variables)


def _has_mode(call: Any) -> bool:
    """Whether a model distinguishes training from evaluation."""
    function = getattr(call, "__call__", call)  # noqa: B004 - it may be decorated
    function = getattr(function, "python_function", function)
    try:
        return "training" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


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
        self.loss = self.optimizer = None
        self.parts: dict[str, Any] = {}
        tf.random.set_seed(0)
        self.model = build(**arguments)
        self.is_image = batch.ndim > 3
        value = channels_last(batch) if self.is_image else batch
        self.is_float = np.issubdtype(value.dtype, np.floating)
        #: As it was written: in single precision.
        self.given = tf.constant(value.astype(np.float32) if self.is_float else value)
        self.batch = self._cast(value) if self.is_float else self.given
        #: A function for serving is one of evaluation.
        self.can_train = callable(self.model)
        call = _callable(self.model)
        has_mode = _has_mode(call)
        modes = [{"training": each} for each in (False, True)] if has_mode else [{}, {}]
        call(self.given, **modes[0])  # some modules create their variables now
        variables = Variables(self.model)
        self.graphs = [
            _traced(call, mode, self.given, variables)
            for mode in (modes if has_mode else modes[:1])
        ]
        self.variables = variables.variables
        found = [find_layers(each, variables.names, self.variables) for each in self.graphs]
        self.entries = found[0]
        #: The layers where they are in evaluation and in training.
        self.placed = [self.entries, self._placed_in_training(found[-1])]
        self._call, self._modes = call, modes
        self.leaves = [self._read(each) for each in self.variables]
        if has_mode:
            functions.add_statistics(
                self.entries, partial(self._after_training, variables), functions.exact
            )

    def _after_training(
        self, variables: Variables, numbers: set[int], start: float, is_twice: bool
    ) -> dict[int, Any]:
        """Return all variables after a step, some of which had equal elements before it."""
        graph, batch = self.graphs[1], self.batch
        if is_twice:
            given, batch = (tf.concat([each] * 2, 0) for each in (self.given, batch))
            graph = _traced(self._call, self._modes[1], given, variables)
        leaves = list(self.leaves)
        for number in numbers:
            leaves[number] = tf.fill(leaves[number].shape, tf.cast(start, leaves[number].dtype))
        run = Run(graph, [], Interpreter(self.dtype, self.functions, leaves), {}, [])
        run.evaluate(batch)
        return dict(enumerate(run.interpreter.leaves))

    def _placed_in_training(self, found: list[Entry]) -> list[Entry]:
        """Return the layers with the operations that they are in training."""
        by_name, placed = {entry.name: entry for entry in found}, []
        for entry in self.entries:
            own = by_name.get(entry.name, entry)
            if entry.kind == "batch norm" and self.can_train:
                graph = self.graphs[-1 if entry.name in by_name else 0]
                is_of_batch = uses_batch(graph.operations[own.end])
                is_running = "variance" in own.weights and not is_of_batch
                entry.settings["statistics"] = "running" if is_running else "of the batch"
            placed.append(
                replace(own, kind=entry.kind, weights=entry.weights, settings=entry.settings)
            )
        return placed

    def _cast(self, value: Any) -> Any:
        return tf.constant(np.asarray(value), self.dtype)

    def _read(self, variable: Any) -> Any:
        value = variable.numpy()
        return self._cast(value) if variable.dtype.is_floating else tf.constant(value)

    def layers(self) -> list[dict[str, Any]]:
        """Describe the layers in the order of execution."""
        return [
            {
                "name": entry.name,
                "kind": entry.kind,
                "roles": list(entry.weights),
                "settings": {
                    **entry.settings,
                    "frozen": sorted(
                        role
                        for role, weight in entry.weights.items()
                        if not self.variables[weight.number].trainable and role not in STATISTICS
                    ),
                },
                "fixed": _FIXED,
            }
            for entry in self.entries
        ]

    def weights(self) -> Arrays:
        """Return all weights by the name of their layer and their role."""
        return read_weights(self.entries, self.leaves)

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
        """Run the model once, and return what was recorded."""
        tf.random.set_seed(seed)
        leaves = self._leaves(weights)
        before = list(leaves)
        numbers = self._trained(repairs)
        trained = [leaves[number] for number in numbers]
        interpreter = Interpreter(self.dtype, self.functions, leaves)
        graph, entries = self.graphs[-1 if training else 0], self.placed[training]
        run = Run(graph, entries, interpreter, feed, repairs)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(trained)
            result = run.evaluate(self._batch(weights))
            is_image = len(result.shape) > 3
            if projection is not None:
                factors = self._cast(channels_last(projection) if is_image else projection)
                loss = tf.reduce_sum(result * factors) / tf.cast(result.shape[0], self.dtype)
        recorded, after = run.recorded, interpreter.leaves
        self.functions.change_momentum(self.entries, repairs, before, after)
        recorded["result"] = channels_first(result.numpy()) if is_image else result.numpy()
        if projection is not None:
            recorded["loss"] = loss.numpy()
            own, outer = tape.gradient(loss, [trained, list(run.outputs.values())])
            gradients: list[Any] = [None] * len(leaves)
            for number, gradient in zip(numbers, own, strict=True):
                if gradient is not None:  # that of a table is sparse
                    gradients[number] = tf.convert_to_tensor(gradient)
                    after[number] = after[number] - rate * gradients[number]
            for key, value in read_weights(self.entries, gradients).items():
                recorded[f"gradient|{key}"] = value
            for name, value in zip(run.outputs, outer, strict=True):
                if value is not None:
                    recorded[f"outer|{name}"] = tf.norm(tf.convert_to_tensor(value)).numpy()
        for key, value in read_weights(self.entries, after).items() if training else ():
            recorded[f"after|{key}"] = value
        return recorded

    def _leaves(self, weights: Arrays) -> list[Any]:
        """Return the values of all variables, with other weights for those that are given."""
        leaves = list(self.leaves)
        for entry in self.entries:
            for role, weight in entry.weights.items():
                if (value := weights.get(f"{entry.name}|{role}")) is not None:
                    leaves[weight.number] = self._cast(weight.back(value))
        return leaves

    def _batch(self, weights: Arrays) -> Any:
        """Return the batch, or the one that is given with the weights."""
        if "batch" not in weights:
            return self.batch
        own = channels_last(weights["batch"]) if self.is_image else weights["batch"]
        return self._cast(own) if self.is_float else tf.constant(own)

    def _trained(self, repairs: list[dict[str, Any]]) -> list[int]:
        """Return the numbers of the variables that are trained, as repairs may change."""
        frozen = {each["layer"]: each["value"] for each in repairs if each["key"] == "frozen"}
        found = set()
        for entry in self.entries:
            for role, weight in entry.weights.items():
                is_trained = self._is_trained(self.variables[weight.number])
                if entry.name in frozen:
                    is_trained = role not in (*STATISTICS, *frozen[entry.name])
                if is_trained:
                    found.add(weight.number)
        return sorted(found)

    @staticmethod
    def _is_trained(variable: Any) -> bool:
        return bool(variable.trainable and variable.dtype.is_floating)

    def _execute(self, batch: Any, mode: int) -> Any:
        """Return the first result of the model as it is."""
        return tf.nest.flatten(self._call(batch, **self._modes[mode]))[0]

    def part(self, name: str, rate: float) -> Callable[[], object]:
        """Return a part of the model as it is: ``evaluation``, ``forward`` or a training ``step``.

        It is executed as a graph. The loss is the mean of the squared result; the update is one
        of SGD.
        """
        if name not in self.parts:
            trained = [each for each in self.variables if self._is_trained(each)]

            def loss(batch: Any) -> Any:
                return tf.reduce_mean(tf.square(self._execute(batch, 1)))

            def step(batch: Any) -> Any:
                with tf.GradientTape() as tape:
                    value = loss(batch)
                for each, gradient in zip(trained, tape.gradient(value, trained), strict=True):
                    if gradient is not None:
                        each.assign_sub(rate * tf.convert_to_tensor(gradient))
                return value

            parts: dict[str, Callable[[Any], Any]]
            parts = {"evaluation": lambda x: self._execute(x, 0), "forward": loss, "step": step}
            self.parts[name] = tf.function(parts[name])
        function = self.parts[name]
        return lambda: function(self.given).numpy()

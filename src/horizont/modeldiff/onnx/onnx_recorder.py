"""The recorder of ONNX graphs: executes a graph node by node, and records its layers.

It imports nothing of Horizont, and runs wherever the package `onnx` is installed. Graphs have no
gradients and are not trained. Times are those of ONNX Runtime, if that is installed, too.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import tempfile
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from .arrays import NumPyNamespace
from .onnx_entries import Entry
from .onnx_graph import Graph, compute, unfolded
from .onnx_layers import entries_of

Arrays = dict[str, np.ndarray[Any, Any]]

#: Kinds of layers that can be recorded in parts: a convolution and the norm folded into it.
DIVISIBLE = ("convolution",)

#: Nodes that are not executed as ONNX does; dropout is disabled.
_DROPOUT, _BATCH_NORM = "Dropout", "BatchNormalization"

#: Settings without an effect in evaluation.
_OF_TRAINING = ("momentum", "statistics", "variance correction", "parts")


def versions() -> dict[str, str]:
    """Return the versions that the results depend on."""
    found = {"python": platform.python_version(), "onnx": onnx.__version__}
    try:
        import onnxruntime
    except ImportError:
        return found
    return {**found, "onnxruntime": onnxruntime.__version__}


def operators(execute: Evaluation) -> list[tuple[str, int, float, float, float]]:
    """Return the calls of operators: name, thread, start, and twice the seconds."""
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "profile")
        session = execute.session_with(enable_profiling=True, profile_file_prefix=prefix)
        session.run(None, execute.feed)
        with open(session.end_profiling(), encoding="utf-8") as file:
            events = json.load(file)
    return [
        (event["args"]["op_name"], int(event["tid"]), event["ts"] / 1e6, *[event["dur"] / 1e6] * 2)
        for event in events
        if event["cat"] == "Node" and event["name"].endswith("_kernel_time")
    ]


def load(made: Any) -> onnx.ModelProto:
    """Return the model that a callable returned, or that lies at the path that it returned."""
    model = made if isinstance(made, onnx.ModelProto) else _read(made)
    own = {function.name for function in model.functions}
    kinds = {node.op_type for node in model.graph.node if node.domain not in ("", "ai.onnx")}
    if foreign := sorted(kinds - own):
        raise ValueError(f"ONNX does not define the operators {', '.join(foreign)}")
    return model


def _read(path: str) -> onnx.ModelProto:
    """Read a file, with the weights that lie beside it."""
    try:
        return onnx.load(path)
    except DecodeError:
        raise ValueError(f"{path} is no graph of ONNX") from None


class Recorder:
    """A graph in one floating-point type, and the runs of it; it is not trained."""

    can_train = False

    loss = optimizer = None

    def __init__(
        self,
        build: Callable[..., Any],
        arguments: dict[str, Any],
        batch: np.ndarray[Any, Any],
        dtype: str,
        functions: Any,
        *,
        divisions: dict[str, Any] | None = None,
    ) -> None:
        self.functions, self.dtype, self.given = functions, dtype, batch
        self.model = load(build(**arguments))
        self._prepare(self.model)
        if divisions:
            outputs = {
                entry.node.output[0]: {**divisions[entry.name], "name": entry.name}
                for entry in self.entries
                if entry.name in divisions
            }
            self._prepare(unfolded(self.model, outputs))

    def _prepare(self, model: onnx.ModelProto) -> None:
        """Read the layers of a graph, which is executed once to know the shapes of its tensors."""
        self.graph = Graph(model, self.dtype, self.functions)
        self.entering: dict[int, list[Entry]] = defaultdict(list)
        self.leaving: dict[int, list[Entry]] = defaultdict(list)
        values = self._execute(self._batch(self.given), training=False)
        shapes = {name: np.shape(value) for name, value in values.items()}
        self.entries = entries_of(self.graph, shapes)
        for entry in self.entries:
            for number in entry.readers:
                self.entering[number].append(entry)
            self.leaving[entry.writer].append(entry)

    def _batch(self, batch: Any) -> Any:
        """Return a batch as the graph has it: its type, and channels first or last."""
        sizes = self.graph.input_sizes
        if batch.ndim == len(sizes) == 4 and sizes[1] != batch.shape[1] == sizes[3]:
            batch = batch.transpose(0, 2, 3, 1)
        return batch.astype(self.dtype if self.graph.input_dtype.kind == "f" else np.int64)

    def layers(self) -> list[dict[str, Any]]:
        """Describe the layers in the order of execution."""
        return [
            {
                "name": entry.name,
                "kind": entry.kind,
                "roles": list(entry.tensors),
                "settings": entry.settings,
                "fixed": entry.fixed,
                "is_optional": entry.is_optional,
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
        """Execute the graph once, and return what was recorded; all changes are undone.

        In training, batch norms use the statistics of the batch, and these are recorded.
        """
        del projection, rate, seed  # without gradients or random numbers
        for entry in self.entries:
            names = {role: f"{entry.name}|{role}" for role in entry.tensors}
            entry.write({r: weights[name] for r, name in names.items() if name in weights})
        self._feed = feed
        self._recorded: Arrays = {}
        self._live: dict[str, Any] = {}
        self._inputs = {each["layer"]: each["value"] for each in repairs if each["key"] == "input"}
        by_name = {entry.name: entry for entry in self.entries}
        batch = self._batch(weights.get("batch", self.given))
        with contextlib.ExitStack() as stack:
            for each in repairs:
                if each["key"] not in ("input", "result", *_OF_TRAINING):
                    entry = by_name[each["layer"]]
                    stack.callback(entry.change(each["key"], each["value"]))
            values = self._execute(batch, training=training)
        result = values[self.graph.output]
        for each in repairs:
            if each["key"] == "result":
                result = self._repaired(result, each["value"])
        return {**self._recorded, "result": result}

    def _execute(self, batch: Any, *, training: bool) -> dict[str, Any]:
        """Execute all nodes, and return all tensors by name."""
        values: dict[str, Any] = {"": None, **self.graph.constants, self.graph.input: batch}
        for number, node in enumerate(self.graph.nodes):
            given = [values[name] for name in node.input]
            for entry in self.entering[number]:
                if entry.input:
                    place = list(node.input).index(entry.input)
                    given[place] = self._enter(entry, given[place])
            if node.op_type == _DROPOUT:
                outputs: tuple[Any, ...] = (given[0],)
            elif node.op_type == _BATCH_NORM:
                outputs = (self._batch_norm(node, given, self.entering[number], training),)
            else:
                outputs = compute(node, given, values)
            values.update(zip(node.output, outputs, strict=False))
            for entry in self.leaving[number]:
                if entry.output:
                    values[entry.output] = self._leave(entry, values[entry.output])
        return values

    def _batch_norm(self, node: Any, given: list[Any], entries: list[Entry], training: bool) -> Any:
        """Apply a batch norm; in training with the statistics of the batch, which are recorded."""
        x, scale, offset, mean, variance = given
        shape = (1, -1, *(1 for _ in x.shape[2:]))
        if training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(axes), x.var(axes)
            for entry in entries:
                self._recorded[f"after|{entry.name}|mean"] = mean
                self._recorded[f"after|{entry.name}|variance"] = variance
        mean, variance, scale, offset = (
            each.reshape(shape) for each in (mean, variance, scale, offset)
        )
        return (x - mean) / np.sqrt(variance + x.dtype.type(node.epsilon)) * scale + offset

    def _repaired(self, value: Any, change: dict[str, Any]) -> Any:
        return self.functions.repaired(NumPyNamespace, value, change, self._live)

    def _enter(self, entry: Entry, value: Any) -> Any:
        """Record the input of a layer, repair it and feed another one."""
        key = f"input|{entry.name}"
        if key in self._live:  # another node of the layer reads it
            return self._live[key]
        if entry.name in self._inputs:
            value = self._repaired(value, self._inputs[entry.name])
        self._recorded[key] = entry.canonical(value)
        self._live[key] = self._fed(entry, key, value)
        return self._live[key]

    def _leave(self, entry: Entry, value: Any) -> Any:
        """Record the output of a layer, and feed another one to what follows."""
        key = f"output|{entry.name}"
        self._recorded[key] = entry.canonical(value)
        self._live[entry.name] = self._fed(entry, key, value)
        return self._live[entry.name]

    def _fed(self, entry: Entry, key: str, value: Any) -> Any:
        """Return what a tensor is replaced by; itself if it is not."""
        fed = self._feed.get(key)
        if fed is None or fed.shape != self._recorded[key].shape:
            return value
        return entry.original(fed, value).astype(value.dtype)

    def part(self, name: str, rate: float) -> Callable[[], object]:
        """Return the evaluation of the graph as it is, by ONNX Runtime."""
        del rate
        if name != "evaluation":
            raise ValueError("a graph of ONNX is not trained")
        batch = self._batch(self.given).astype(self.graph.input_dtype)
        return Evaluation(self.model, {self.graph.input: batch})


class Evaluation:
    """The evaluation of a model by ONNX Runtime."""

    def __init__(self, model: onnx.ModelProto, feed: dict[str, Any]) -> None:
        self.model, self.feed = model, feed
        self.session = self.session_with()

    def session_with(self, **options: Any) -> Any:
        """Return a session of ONNX Runtime with some options."""
        import onnxruntime

        chosen = onnxruntime.SessionOptions()
        for name, value in options.items():
            setattr(chosen, name, value)
        content = self.model.SerializeToString()
        return onnxruntime.InferenceSession(content, chosen, providers=["CPUExecutionProvider"])

    def __call__(self) -> object:
        """Execute it once."""
        return self.session.run(None, self.feed)

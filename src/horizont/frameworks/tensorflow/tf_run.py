"""One run of a function of TensorFlow: its operations, and what layers see of them.

It imports nothing of Horizont.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import tensorflow as tf

from .keras_changes import Namespace
from .tensor_layouts import channels_first, channels_last
from .tf_entries import STATISTICS, Entry
from .tf_graph import Graph, Interpreter, Leaf, read

Arrays = dict[str, Any]

#: What an operation has as attributes, for settings of other names.
_ATTRIBUTES = {"stride": "strides", "dilation": "dilations"}


class Run:
    """One execution of the operations, in which layers are recorded, changed and fed.

    Attributes
    ----------
    outputs
        Outputs of layers, the gradients with respect to which are of interest.
    """

    def __init__(
        self,
        graph: Graph,
        entries: list[Entry],
        interpreter: Interpreter,
        feed: Arrays,
        repairs: list[dict[str, Any]],
    ) -> None:
        self.graph, self.entries, self.interpreter = graph, entries, interpreter
        self.functions, self.feed, self.repairs = interpreter.functions, feed, repairs
        self.recorded: Arrays = {}
        self.outputs: Arrays = {}
        self._live: dict[str, Any] = {}
        #: Norms without an update of their statistics, which are those of the batch in this run.
        self._calibrated = self.functions.without_update(entries, repairs)

    def evaluate(self, batch: Any) -> Any:
        """Execute the operations one by one; record, change and feed what layers see."""
        values: dict[Any, Any] = {self.graph.input: batch}
        starts = {entry.start: entry for entry in self.entries if entry.input is not None}
        changes = self._changed_attributes()
        ends = {entry.end: entry for entry in self.entries if entry.end >= 0}
        self._live |= self.functions.parameters_alone(self.entries, self.interpreter.leaves)

        for number, operation in enumerate(self.graph.operations):
            operands = [read(each, values) for each in operation.operands]
            if (entry := starts.get(number)) is not None and entry.input is not None:
                value = self._input(entry, operands[entry.input])
                if entry.name in self._calibrated:
                    self._calibrate(entry, value, number, values)
                    operands = [read(each, values) for each in operation.operands]
                operands[entry.input] = value
            results = self.interpreter.execute(operation.node, operands, changes.get(number))
            if (entry := ends.get(number)) is not None:
                results = [self._output(entry, results[0]), *results[1:]]
            values.update(zip(operation.results, results, strict=False))
        result = read(self.graph.output, values)
        for repair in self.repairs:
            if repair["key"] == "result":
                result = self.functions.repaired(Namespace, result, repair["value"], self._live)
        return result

    def _calibrate(self, entry: Entry, value: Any, number: int, values: dict[Any, Any]) -> None:
        """Set the statistics of a norm to those of its input, and repeat what has read them."""
        axes = list(range(value.ndim - 1)) if entry.is_last else [0, *range(2, value.ndim)]
        leaves = [Leaf(entry.weights[role].number) for role in STATISTICS]
        for leaf, statistic in zip(leaves, tf.nn.moments(value, axes), strict=True):
            self.interpreter.leaves[leaf.number] = statistic
        changed: set[Any] = set(leaves)
        for operation in self.graph.operations[:number]:
            if not changed.isdisjoint(operation.operands):
                self.interpreter.evaluate(operation, values)
                changed.update(operation.results)

    def _changed_attributes(self) -> dict[int, dict[str, Any]]:
        """Return the attributes that repairs change, by the number of the operation."""
        by_name = {entry.name: entry for entry in self.entries}
        found: dict[int, dict[str, Any]] = {}
        for repair in self.repairs:
            entry, key, value = by_name.get(repair["layer"]), repair["key"], repair["value"]
            if entry is None:
                continue
            if key == "epsilon" and entry.epsilon is not None:
                found.setdefault(entry.epsilon, {})["value"] = value
                continue
            own = found.setdefault(entry.start, {})
            if key == "epsilon":
                own["epsilon"] = value
            elif key == "padding":
                pads = _in_order([0, 0], value, entry.is_last)
                own |= {"padding": "EXPLICIT", "explicit_paddings": [*chain(*pads)]}
            elif key in _ATTRIBUTES:
                own[_ATTRIBUTES[key]] = _in_order(1, value, entry.is_last)
        return found

    def _input(self, entry: Entry, value: Any) -> Any:
        """Record the input of a layer, repair it and feed another one."""
        for repair in self.repairs:
            if (repair["layer"], repair["key"]) == (entry.name, "input"):
                change = dict(repair["value"])
                if change.get("axis") == 1 and entry.is_last:
                    change["axis"] = -1
                value = self.functions.repaired(Namespace, value, change, self._live)
        value = self._recorded(f"input|{entry.name}", entry, value)
        self._live[f"input|{entry.name}"] = value
        return value

    def _output(self, entry: Entry, value: Any) -> Any:
        for repair in self.repairs:
            if (repair["layer"], repair["key"]) == (entry.name, "padding index"):
                is_padding = self._live[f"input|{entry.name}"] == repair["value"]
                value = tf.where(is_padding[..., tf.newaxis], tf.stop_gradient(value), value)
        value = self._recorded(f"output|{entry.name}", entry, value)
        self._live[entry.name] = self.outputs[entry.name] = value
        return value

    def _recorded(self, key: str, entry: Entry, value: Any) -> Any:
        """Record a tensor in the canonical layout, and return it or what is fed in its place."""
        array = value.numpy()
        self.recorded[key] = channels_first(array) if entry.is_last else array
        other = self.feed.get(key)
        if other is None or other.shape != self.recorded[key].shape:
            return value
        own = channels_last(other) if entry.is_last else other
        return tf.constant(own, value.dtype)


def _in_order(edge: Any, space: list[Any], is_last: bool) -> list[Any]:
    """Return what an operation has for each axis: the examples, the axes of space, the channels."""
    own = [list(each) if isinstance(each, tuple | list) else each for each in space]
    return [edge, *own, edge] if is_last else [edge, edge, *own]

"""One run of a function of JAX: its operations, and what layers see of them.

It imports nothing of Horizont.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .jax_changes import Namespace
from .jax_operations import STATISTICS, Entry, Graph, View, read

Arrays = dict[str, Any]

#: The parameters of a convolution that repairs change.
_PARAMETERS = {"padding": "padding", "stride": "window_strides", "dilation": "rhs_dilation"}


class Run:
    """One execution of the operations, in which layers are recorded, changed and fed."""

    def __init__(
        self,
        graph: Graph,
        entries: list[Entry],
        functions: Any,
        feed: Arrays,
        repairs: list[dict[str, Any]],
    ) -> None:
        self.graph, self.entries, self.functions = graph, entries, functions
        self.feed, self.repairs = feed, repairs
        self.recorded: Arrays = {}
        self._live: Arrays = {}
        #: Norms without an update of their statistics, which are those of the batch in this run.
        self._calibrated = self.functions.without_update(entries, repairs)

    def evaluate(self, leaves: list[Any], batch: Any, moved: Arrays) -> list[Any]:
        """Execute the operations one by one; record, change and feed what layers see.

        Parameters
        ----------
        leaves
            The values of the variables; those of calibrated statistics are replaced.
        moved
            What is added to the output of each layer, by its name.
        """
        values: dict[Any, Any] = dict(zip(self.graph.inputs, [*leaves, batch], strict=True))
        readers: dict[int, list[Entry]] = {}
        for entry in self.entries:
            for number in entry.reads:
                readers.setdefault(number, []).append(entry)
        ends = {entry.end: entry for entry in self.entries if entry.end >= 0}
        params, constants = self._changes()
        inputs: Arrays = {}
        self._live |= self.functions.parameters_alone(self.entries, leaves)

        for number, operation in enumerate(self.graph.operations):
            for entry in readers.get(number, ()):
                if entry.name not in inputs:
                    value = read(operation.operands[entry.reads[number]], values)
                    inputs[entry.name] = value = self._input(entry, value)
                    if entry.name in self._calibrated:
                        self._calibrate(entry, value, number, values, leaves)
            operands = [read(each, values) for each in operation.operands]
            for entry in readers.get(number, ()):
                operands[entry.reads[number]] = inputs[entry.name]
            for place, constant in constants.get(number, {}).items():
                operands[place] = jnp.asarray(constant, operands[1 - place].dtype)
            results = operation.execute(operands, params.get(number))
            if entry_at_end := ends.get(number):
                results[0] = self._output(entry_at_end, results[0], moved)
            values.update(zip(operation.results, results, strict=True))
        return [read(each, values) for each in self.graph.outputs]

    def repaired_result(self, result: Any) -> Any:
        """Return a result with its repairs."""
        for repair in self.repairs:
            if repair["key"] == "result":
                result = self.functions.repaired(Namespace, result, repair["value"], self._live)
        return result

    def _changes(self) -> tuple[dict[int, dict[str, Any]], dict[int, dict[int, Any]]]:
        """Return other parameters and other constants of operations, by their numbers."""
        by_name = {entry.name: entry for entry in self.entries}
        params: dict[int, dict[str, Any]] = {}
        constants: dict[int, dict[int, Any]] = {}
        for repair in self.repairs:
            entry, key = by_name.get(repair["layer"]), repair["key"]
            if entry is None:
                continue
            if key in _PARAMETERS and entry.start >= 0:
                own = [tuple(e) if isinstance(e, list) else e for e in repair["value"]]
                params.setdefault(entry.start, {})[_PARAMETERS[key]] = tuple(own)
            elif key == "epsilon" and entry.epsilon is not None:
                number, place = entry.epsilon
                constants[number] = {place: repair["value"]}
        return params, constants

    def _input(self, entry: Entry, value: Any) -> Any:
        """Record the input of a layer, repair it and feed another one."""
        view = entry.input_view
        for repair in self.repairs:
            if (repair["layer"], repair["key"]) == (entry.name, "input"):
                change = dict(repair["value"])
                if change.get("axis") == 1 and view is not None:
                    change["axis"] = view.axes[1]
                value = self.functions.repaired(Namespace, value, change, self._live)
        value = self._recorded(f"input|{entry.name}", view, value)
        self._live[f"input|{entry.name}"] = value
        return value

    def _output(self, entry: Entry, value: Any, moved: Arrays) -> Any:
        view = entry.output_view
        if entry.name in moved:
            value = value + (view.back(moved[entry.name]) if view else moved[entry.name])
        for repair in self.repairs:
            if (repair["layer"], repair["key"]) == (entry.name, "padding index"):
                is_padding = self._live[f"input|{entry.name}"] == repair["value"]
                value = jnp.where(is_padding, jax.lax.stop_gradient(value), value)
        value = self._recorded(f"output|{entry.name}", view, value)
        self._live[entry.name] = value
        return value

    def _recorded(self, key: str, view: View | None, value: Any) -> Any:
        """Record a tensor in the canonical layout, and return it or what is fed in its place."""
        self.recorded[key] = canonical = view.forward(value) if view else value
        other = self.feed.get(key)
        if other is None or other.shape != canonical.shape:
            return value
        own = jnp.asarray(other, value.dtype)
        return view.back(own) if view else own

    def _calibrate(
        self, entry: Entry, value: Any, number: int, values: dict[Any, Any], leaves: list[Any]
    ) -> None:
        """Set the statistics of a norm to those of its input, and repeat what has read them."""
        channels = entry.input_view.axes[1] if entry.input_view else min(1, value.ndim - 1)
        axes = tuple(each for each in range(value.ndim) if each != channels)
        changed: set[Any] = set()
        statistics = (value.mean(axes), value.var(axes))
        for role, statistic in zip(STATISTICS, statistics, strict=True):
            leaf = entry.weights[role].number
            leaves[leaf] = values[self.graph.inputs[leaf]] = statistic
            changed.add(self.graph.inputs[leaf])
        for operation in self.graph.operations[:number]:
            own = [each for each in operation.operands if not hasattr(each, "val")]
            if not changed.isdisjoint(own):
                operands = [read(each, values) for each in operation.operands]
                values.update(zip(operation.results, operation.execute(operands), strict=True))
                changed.update(operation.results)

"""What a recorder has of a layer of an ONNX graph, and what layers are read from.

It imports nothing of Horizont.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .onnx_graph import FOLDED, Graph

Array = np.ndarray[Any, Any]
Shapes = Mapping[str, tuple[int, ...]]

#: Attributes for settings of other names.
_ATTRIBUTES = {"stride": "strides", "dilation": "dilations"}


@dataclass(frozen=True)
class Tensor:
    """What a layer has of constants: views whose rows, one below the other, are the tensor.

    A sum of two such tensors is written as the first of them.
    """

    views: list[Array]
    added: list[Array] = field(default_factory=list)

    def read(self) -> Array:
        """Return a copy."""
        value = np.concatenate(self.views)
        return value + np.concatenate(self.added) if self.added else value

    def write(self, value: Array) -> None:
        """Set all elements."""
        start = 0
        for view in self.views:
            view[...] = value[start : start + len(view)]
            start += len(view)
        for view in self.added:
            view[...] = 0.0


@dataclass(frozen=True)
class Entry:
    """A layer with weights, or one direction of a recurrent node.

    Attributes
    ----------
    node
        The one with the settings.
    input, output
        Names of tensors; empty if they are not recorded.
    readers
        Numbers of the nodes that read the input.
    writer
        The number of the node that writes the output.
    is_sequence
        Whether the steps of input and output come before the examples, with an axis of directions
        between them in the output.
    is_optional
        Whether it may be a constant, and no weight.
    fixed
        Settings that cannot be changed.
    """

    name: str
    kind: str
    node: Any
    tensors: dict[str, Tensor]
    readers: tuple[int, ...]
    writer: int
    input: str = ""
    output: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    is_sequence: bool = False
    is_optional: bool = False
    fixed: tuple[str, ...] = ()

    def read(self) -> dict[str, Array]:
        """Return the weights by role."""
        return {role: tensor.read() for role, tensor in self.tensors.items()}

    def owners(self) -> set[int]:
        """Return which constants have the weights, as `id` does."""
        views = [view for each in self.tensors.values() for view in (*each.views, *each.added)]
        return {id(view if view.base is None else view.base) for view in views}

    def write(self, weights: Mapping[str, Array]) -> None:
        """Set the weights of some roles."""
        for role, value in weights.items():
            self.tensors[role].write(value)

    def canonical(self, value: Array) -> Array:
        """Return an input or output with the examples first."""
        if not self.is_sequence:
            return value
        steps = value[:, 0] if value.ndim == 4 else value
        return steps.transpose(1, 0, 2)

    def original(self, value: Array, like: Array) -> Array:
        """Return a canonical input or output with the axes of another one."""
        return value.transpose(1, 0, 2).reshape(like.shape) if self.is_sequence else value

    def change(self, key: str, value: Any) -> Callable[[], object]:
        """Change a setting, and return what undoes it."""
        attributes = {_ATTRIBUTES.get(key, key): value}
        if key == "padding":
            before, after = zip(*value, strict=True)
            attributes = {"pads": [*before, *after], "auto_pad": "NOTSET"}
        old = {name: getattr(self.node, name) for name in attributes}
        vars(self.node).update(attributes)
        return lambda: vars(self.node).update(old)


class Following(NamedTuple):
    """A node that adds or multiplies a constant by channel: its number, the constant, its name."""

    number: int
    values: Array
    name: str


class Reader:
    """A graph with the shapes of its tensors, from which layers are read."""

    def __init__(self, graph: Graph, shapes: Shapes) -> None:
        self.graph, self.shapes, self.nodes = graph, shapes, graph.nodes
        self.writers: dict[str, int] = {}
        self.readers: dict[str, list[int]] = defaultdict(list)
        for number, node in enumerate(self.nodes):
            self.writers |= dict.fromkeys(filter(None, node.output), number)
            for name in set(node.input):
                self.readers[name].append(number)

    def constant(self, node: Any, place: int) -> Array | None:
        """Return an input of a node, if it is a constant."""
        name = node.input[place] if place < len(node.input) else ""
        return self.graph.constants.get(name)

    def number(self, node: Any) -> float:
        """Return the single number that a node adds or multiplies, 0 if there is none."""
        found = [self.constant(node, place) for place in (0, 1)]
        return next((each.item() for each in found if each is not None and each.size == 1), 0.0)

    def before(self, node: Any, place: int) -> Any:
        """Return the node that writes an input of a node; None if there is none."""
        number = self.writers.get(node.input[place]) if place < len(node.input) else None
        return None if number is None else self.nodes[number]

    def only_reader(self, number: int, kind: str) -> int | None:
        """Return the number of the only node that reads an output, if it is of a kind."""
        name = self.nodes[number].output[0]
        readers = self.readers[name]
        is_one = len(readers) == 1 and self.nodes[readers[0]].op_type == kind
        return readers[0] if is_one and name != self.graph.output else None

    def following(self, number: int, kind: str, size: int, axis: int) -> Following | None:
        """Return the node of a kind that reads an output and has a constant for each channel.

        The channels are on an axis, counted from the last one.
        """
        reader = self.only_reader(number, kind)
        if reader is None:
            return None
        node = self.nodes[reader]
        for place in (0, 1):
            value = self.constant(node, place)
            if value is None or value.size != size or value.ndim < -axis:
                continue
            if value.shape[axis] == size:
                return Following(reader, value.reshape(-1), name_of(node, place))
        return None


def name_of(node: Any, place: int) -> str:
    """Return the name of a layer: that of the module that owns its weights, or of the node."""
    if node.name.endswith(FOLDED):
        return str(node.name)
    owner, dot, _ = node.input[place].rpartition(".")
    if node.owner or (dot and not node.input[place].startswith("onnx::")):
        return str(node.owner or owner)
    name = (node.name or node.output[0]).strip("/")
    return str(name.removesuffix(f"/{node.op_type}"))

"""What a recorder has of a layer of a function of TensorFlow, and what layers are read from.

It imports nothing of Horizont.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from .tensor_layouts import Transform, permuted
from .tf_graph import Graph, Leaf, Operation

#: Operations whose result is the variable itself, perhaps in another type or order of axes.
_VIEWS = ("ReadVariableOp", "Identity", "Cast", "Transpose", "Pack")

#: Operations after which a vector is one along the last axis.
_RESHAPES = ("Reshape", "Squeeze", "ExpandDims")

#: The roles of running statistics.
STATISTICS = ("mean", "variance")


@dataclass(frozen=True)
class Weight:
    """A variable that is a weight: its number, and how to convert it, and back."""

    number: int
    forward: Transform
    back: Transform


@dataclass
class Entry:
    """A layer: its weights by role, and the operations where its input and output are.

    Attributes
    ----------
    start
        The number of the operation that reads its input; -1 if none does.
    end
        The number of the operation whose result is its output.
    input
        Which operand of the operation is its input; None if it is not known.
    is_last
        Whether the channels of input and output are last, after the axes of space.
    epsilon
        The number of the constant that is the epsilon of a norm; None for an attribute.
    """

    name: str
    kind: str
    weights: dict[str, Weight]
    start: int = -1
    end: int = -1
    input: int | None = None
    is_last: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    epsilon: int | None = None


class Reader:
    """The operations of a function and its variables, from which layers are read."""

    def __init__(self, graph: Graph, names: list[str], variables: list[Any]) -> None:
        self.operations, self.names, self.variables = graph.operations, names, variables
        self._writers = {
            result: number
            for number, operation in enumerate(graph.operations)
            for result in operation.results
        }
        #: Views of variables: which one, and the order of its axes.
        self._origin: dict[Any, tuple[Leaf, tuple[int, ...]]] = {}

    def writer(self, operand: Any) -> int | None:
        """Return the number of the operation whose result an operand is."""
        return self._writers.get(operand)

    def operation(self, operand: Any, kinds: tuple[str, ...]) -> Operation | None:
        """Return the operation whose result an operand is, if it is of some kinds."""
        number = self._writers.get(operand)
        found = None if number is None else self.operations[number]
        return found if found is not None and found.kind in kinds else None

    def constant(self, operand: Any) -> Any:
        """Return the value of a constant, None if an operand is none."""
        found = self.operation(operand, ("Const",))
        return None if found is None else tf.make_ndarray(found.node.get_attr("value"))

    def see_view(self, operation: Operation) -> bool:
        """Whether an operation reads a variable or changes its type or axes alone."""
        is_view = operation.kind in (*_VIEWS, *_RESHAPES)
        known = self.leaf(operation.operands[0]) if is_view else None
        if known is None:
            return False
        leaf, axes = known
        if operation.kind == "Pack" and len(operation.operands) > 1:  # of one, it adds an axis of 1
            return False
        if operation.kind in _RESHAPES:
            shape, size = operation.node.outputs[0].shape, self.variables[leaf.number].shape[0]
            if len(axes) != 1 or shape.num_elements() != size or shape[-1] != size:
                return False
        if operation.kind == "Transpose":
            order = self.constant(operation.operands[1])
            if order is None:
                return False
            axes = tuple(axes[each] for each in order)
        self._origin[operation.results[0]] = (leaf, axes)
        return True

    def leaf(self, operand: Any) -> tuple[Leaf, tuple[int, ...]] | None:
        """Return the variable that an operand is, with the order of its axes."""
        if isinstance(operand, Leaf):
            return operand, tuple(range(len(self.variables[operand.number].shape)))
        return self._origin.get(operand)

    def vector(self, operand: Any) -> Leaf | None:
        """Return the variable with one axis that an operand is; None if it is none."""
        known = self.leaf(operand)
        return known[0] if known is not None and len(known[1]) == 1 else None

    def weight(self, leaf: Leaf, axes: tuple[int, ...] = ()) -> Weight:
        """Return a variable as a weight, with axes in another order if it is given."""
        rank = len(self.variables[leaf.number].shape)
        return Weight(leaf.number, *permuted(axes or tuple(range(rank))))

    def shape(self, leaf: Leaf) -> tuple[int, ...]:
        """Return the shape of a variable."""
        return tuple(self.variables[leaf.number].shape)

    def flat(self, leaf: Leaf) -> Weight:
        """Return a variable as a weight with one axis."""
        shape = self.shape(leaf)
        return Weight(leaf.number, lambda value: value.reshape(-1), lambda own: own.reshape(shape))

    def name(self, leaf: Leaf) -> str:
        """Return the name of a variable."""
        return self.names[leaf.number]


def read_weights(entries: list[Entry], leaves: list[Any]) -> dict[str, Any]:
    """Return variables, or their gradients, by the names of layers and their roles."""
    return {
        f"{entry.name}|{role}": weight.forward(np.array(leaves[weight.number]))
        for entry in entries
        for role, weight in entry.weights.items()
        if leaves[weight.number] is not None
    }

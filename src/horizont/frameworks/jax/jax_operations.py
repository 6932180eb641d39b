"""The operations of a function of JAX, which is traced once, and what layers are read from.

It imports nothing of Horizont.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

#: Operations that contain others, which are executed one by one.
_INLINED = ("pjit", "jit", "closed_call", "core_call", "checkpoint", "remat", "remat2")

#: Operations whose result is their operand itself, in another shape or type.
_SHAPES = ("convert_element_type", "broadcast_in_dim", "reshape", "squeeze", "copy")

#: The roles of running statistics.
STATISTICS = ("mean", "variance")

#: The collection of a tree of variables that has what is trained.
PARAMETERS = "params"


class Name:
    """The result of one operation in one call."""


@dataclass(eq=False)
class Constant:
    """A value that the function holds."""

    value: Any


@dataclass(eq=False)
class Operation:
    """One operation with what it reads and what its results are called."""

    equation: Any
    operands: list[Any]
    results: list[Any]

    @property
    def kind(self) -> str:
        """Name of the primitive."""
        return str(self.equation.primitive.name)

    def execute(self, operands: list[Any], changes: dict[str, Any] | None = None) -> list[Any]:
        """Execute it, with other parameters than its own if some are changed."""
        primitive = self.equation.primitive
        bound = primitive.get_bind_params(self.equation.params)
        # Until JAX 0.9, functions among the parameters were returned beside them.
        functions, bound = bound if isinstance(bound, tuple) else ((), bound)
        results = primitive.bind(*functions, *operands, **{**bound, **(changes or {})})
        return list(results) if primitive.multiple_results else [results]


@dataclass(frozen=True)
class Graph:
    """The operations of a function in order, its inputs, and its results."""

    operations: list[Operation]
    inputs: list[Any]
    outputs: list[Any]


def read(operand: Any, values: dict[Any, Any]) -> Any:
    """Return the value of an operand, from those of the results of operations."""
    if isinstance(operand, Literal):
        return operand.val
    return operand.value if isinstance(operand, Constant) else values[operand]


def inlined(traced: Any) -> Graph:
    """Return all operations of a traced function, those of functions that it calls among them."""
    found: list[Operation] = []

    def visit(inner: Any, constants: Any, values: dict[Any, Any]) -> list[Any]:
        local = {**values, **dict(zip(inner.constvars, map(Constant, constants), strict=True))}
        for equation in inner.eqns:
            operands = [v if isinstance(v, Literal) else local[v] for v in equation.invars]
            sub = equation.params.get("jaxpr") if equation.primitive.name in _INLINED else None
            if sub is None:
                # Variables of a function that is called twice are the same objects.
                results: list[Any] = [Name() for _ in equation.outvars]
                found.append(Operation(equation, operands, results))
            else:
                body = getattr(sub, "jaxpr", sub)
                arguments = dict(zip(body.invars, operands, strict=True))
                results = visit(body, getattr(sub, "consts", ()), arguments)
            local.update(zip(equation.outvars, results, strict=True))
        return [v if isinstance(v, Literal) else local[v] for v in inner.outvars]

    names = [Name() for _ in traced.jaxpr.invars]
    ends = visit(traced.jaxpr, traced.consts, dict(zip(traced.jaxpr.invars, names, strict=True)))
    return Graph(found, names, ends)


@dataclass(frozen=True)
class View:
    """How an array is brought to the canonical layout, and back.

    Attributes
    ----------
    axes
        The order of its axes.
    sizes
        Of the last axes in that order, which become one; empty if none do.
    """

    axes: tuple[int, ...]
    sizes: tuple[int, ...] = ()

    def forward(self, value: Any) -> Any:
        """Return an array in the canonical layout."""
        value = value.transpose(self.axes)
        before = value.shape[: value.ndim - len(self.sizes)]
        return value.reshape(*before, -1) if self.sizes else value

    def back(self, value: Any) -> Any:
        """Return an array in its own layout."""
        value = value.reshape(*value.shape[:-1], *self.sizes) if self.sizes else value
        return value.transpose(tuple(np.argsort(self.axes)))


@dataclass(frozen=True)
class Weight:
    """A variable that is a weight of a layer.

    Attributes
    ----------
    axes
        The order of its axes.
    shape
        The canonical shape, of which each axis is one or several of the variable.
    sizes
        The shape of the variable in the order of axes.
    """

    number: int
    axes: tuple[int, ...]
    shape: tuple[int, ...]
    sizes: tuple[int, ...]

    def forward(self, value: Any) -> Any:
        """Return the variable, or its gradient, in the canonical layout."""
        return value.transpose(self.axes).reshape(self.shape)

    def back(self, value: Any) -> Any:
        """Return an array in the layout of the variable."""
        return value.reshape(self.sizes).transpose(tuple(np.argsort(self.axes)))


@dataclass
class Entry:
    """A layer: its weights by role, and the operations where its input and output are.

    Attributes
    ----------
    start
        The number of the operation that uses its kernel; -1 if none does.
    end
        The number of the operation whose result is its output.
    reads
        The operations that read its input, and which operand it is; empty if it is not known.
    input_view, output_view
        How they are brought to the canonical layout; None if they have it.
    epsilon
        The operation that adds the epsilon of a norm, and which operand it is.
    """

    name: str
    kind: str
    weights: dict[str, Weight]
    start: int = -1
    end: int = -1
    reads: dict[int, int] = field(default_factory=dict)
    input_view: View | None = None
    output_view: View | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    epsilon: tuple[int, int] | None = None


@dataclass(frozen=True)
class Origin:
    """A view of a variable: which one, and the order of its axes; None if some were joined."""

    number: int
    axes: tuple[int, ...] | None


class Reader:
    """The operations of a function and its variables, from which layers are read."""

    def __init__(self, graph: Graph, leaves: list[tuple[str, Any]]) -> None:
        self.operations, self.leaves = graph.operations, leaves
        self._origins = {
            each: Origin(number, tuple(range(np.ndim(leaves[number][1]))))
            for number, each in enumerate(graph.inputs[: len(leaves)])
        }
        self._writers = {
            result: number
            for number, operation in enumerate(graph.operations)
            for result in operation.results
        }
        for operation in graph.operations:
            self._see(operation)

    def _see(self, operation: Operation) -> None:
        """Record whether the result of an operation is a view of a variable."""
        operand = operation.operands[0] if operation.operands else None
        origin = self.origin(operand)
        if origin is None or operation.kind not in (*_SHAPES, "transpose"):
            return
        axes = origin.axes
        if axes is not None and operation.kind == "transpose":
            axes = tuple(axes[each] for each in operation.equation.params["permutation"])
        elif axes is not None and operation.equation.outvars[0].aval.ndim != len(axes):
            axes = None
        self._origins[operation.results[0]] = Origin(origin.number, axes)

    def origin(self, operand: Any) -> Origin | None:
        """Return the variable that an operand is a view of."""
        return None if isinstance(operand, Literal) else self._origins.get(operand)

    def shape(self, number: int) -> tuple[int, ...]:
        """Return the shape of a variable."""
        return tuple(np.shape(self.leaves[number][1]))

    def name(self, number: int) -> str:
        """Return the name of a variable."""
        return self.leaves[number][0]

    def vector(self, operand: Any) -> int | None:
        """Return the number of the variable with one axis that an operand is; None if none."""
        origin = self.origin(operand)
        found = None if origin is None else origin.number
        return found if found is not None and len(self.shape(found)) == 1 else None

    def writer(self, operand: Any) -> int:
        """Return the number of the operation whose result an operand is; -1 for an input."""
        return -1 if isinstance(operand, Literal) else self._writers.get(operand, -1)

    def before(self, operand: Any, kinds: tuple[str, ...] = _SHAPES) -> Any:
        """Return what an operand was before operations of some kinds; None for a literal."""
        if isinstance(operand, Literal):
            return None
        number = self.writer(operand)
        if number < 0 or self.operations[number].kind not in kinds:
            return operand
        return self.before(self.operations[number].operands[0], kinds)

    def readers(self, value: Any, end: int) -> dict[int, int]:
        """Return the operations that read a value on the way to a later operation.

        They are numbers of operations, and which operand the value is.
        """
        found: dict[int, int] = {}
        pending, seen, first = [end], {end}, self.writer(value)
        while pending:
            number = pending.pop()
            for place, operand in enumerate(self.operations[number].operands):
                if operand is value:
                    found[number] = place
                elif (writer := self.writer(operand)) > first and writer not in seen:
                    seen.add(writer)
                    pending.append(writer)
        return found

    def weight(self, number: int, axes: tuple[int, ...] = (), rows: int | None = None) -> Weight:
        """Return a variable as a weight, with its axes in another order if it is given.

        The first ``rows`` axes of that order become one, and the others another one.
        """
        own = self.shape(number)
        axes = axes or tuple(range(len(own)))
        sizes = shape = tuple(own[each] for each in axes)
        if rows is not None:
            shape = (math.prod(sizes[:rows]), math.prod(sizes[rows:]))
        return Weight(number, axes, shape, sizes)

    def flat(self, number: int) -> Weight:
        """Return a variable as a vector."""
        sizes = self.shape(number)
        return Weight(number, tuple(range(len(sizes))), (math.prod(sizes),), sizes)


def leaf_names(variables: Any) -> list[tuple[str, Any]]:
    """Return the variables with their paths, without the name of the collection of parameters."""
    paths, _ = jax.tree_util.tree_flatten_with_path(variables)
    named = ((jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in paths)
    return [(name.removeprefix(f"{PARAMETERS}."), leaf) for name, leaf in named]


def weights_of(entries: list[Entry]) -> Iterator[tuple[str, Weight]]:
    """Yield the weights of all layers, with the names of layer and role."""
    for entry in entries:
        for role, weight in entry.weights.items():
            yield f"{entry.name}|{role}", weight


def read_weights(entries: list[Entry], leaves: list[Any]) -> dict[str, Any]:
    """Return variables, or their gradients, by the names of layers and their roles."""
    return {
        key: weight.forward(np.asarray(leaves[weight.number]))
        for key, weight in weights_of(entries)
        if leaves[weight.number] is not None
    }

"""Layers of a function of JAX: found in its operations, which are traced once.

A layer is an operation that uses parameters: a matrix product or convolution with the bias that
is added to it, a look-up in a table, a scale with an offset. The operation also says the layout of
each parameter. It imports nothing of Horizont.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

#: Operations whose result is the parameter itself, in another layout or type.
_VIEWS = ("transpose", "convert_element_type", "broadcast_in_dim", "reshape", "squeeze", "copy")

#: Roots, and powers that may be roots, by which a norm divides.
_ROOTS = ("rsqrt", "sqrt", "pow")

#: Operations that contain others, which are executed one by one.
INLINED = ("pjit", "jit", "closed_call", "core_call")


@dataclass
class Entry:
    """A layer: its parameters by role, and the operations where its input and output are.

    Attributes
    ----------
    leaves
        The number of the parameter, and the axes that bring it to the canonical layout.
    start
        The number of the operation that uses its kernel.
    end
        The number of the operation whose result is its output.
    lhs
        Which operand of the operation is its input; None if it is not known.
    input_axes
        The axes that bring an input to the canonical layout, likewise of an output.
    """

    name: str
    kind: str
    leaves: dict[str, tuple[int, tuple[int, ...]]]
    start: int
    end: int
    lhs: int | None = None
    input_axes: tuple[int, ...] | None = None
    output_axes: tuple[int, ...] | None = None
    settings: dict[str, Any] = field(default_factory=dict)


def inlined(traced: Any) -> tuple[list[Operation], list[Any], list[Any]]:
    """Return all operations of a traced function in order, its inputs, and its results."""
    found: list[Operation] = []

    def visit(inner: Any, constants: Any, values: dict[Any, Any]) -> list[Any]:
        local = {**values, **dict(zip(inner.constvars, map(Constant, constants), strict=True))}
        for equation in inner.eqns:
            operands = [v if isinstance(v, Literal) else local[v] for v in equation.invars]
            sub = equation.params.get("jaxpr") if equation.primitive.name in INLINED else None
            if sub is None:
                # Variables of a function that is called twice are the same objects.
                results: list[Any] = [Name() for _ in equation.outvars]
                found.append(Operation(equation, operands, results))
            else:
                arguments = dict(zip(sub.jaxpr.invars, operands, strict=True))
                results = visit(sub.jaxpr, sub.consts, arguments)
            local.update(zip(equation.outvars, results, strict=True))
        return [v if isinstance(v, Literal) else local[v] for v in inner.outvars]

    names = [Name() for _ in traced.jaxpr.invars]
    ends = visit(traced.jaxpr, traced.consts, dict(zip(traced.jaxpr.invars, names, strict=True)))
    return found, names, ends


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


class Finder:
    """The search for layers in a list of operations; ``leaves`` are names and values."""

    def __init__(self, inputs: list[Any], leaves: list[tuple[str, Any]]) -> None:
        self.leaves = leaves
        self.found: list[Entry] = []
        #: Parameters, and views of them: which one, and the order of its axes.
        self.origin: dict[Any, tuple[int, tuple[int, ...]]] = {
            each: (number, tuple(range(np.ndim(leaves[number][1]))))
            for number, each in enumerate(inputs[: len(leaves)])
        }
        self.by_result: dict[Any, Entry] = {}
        self.producers: dict[Any, Operation] = {}

    def see(self, number: int, operation: Operation) -> None:
        """Find out whether an operation is the start of a layer, its bias or offset."""
        self.producers.update(dict.fromkeys(operation.results, operation))
        known = [None if isinstance(v, Literal) else self.origin.get(v) for v in operation.operands]
        first = operation.operands[0] if operation.operands else None
        if operation.kind in _VIEWS:
            if known[0] is not None:
                leaf, axes = known[0]
                if operation.kind == "transpose":
                    axes = tuple(axes[each] for each in operation.equation.params["permutation"])
                self.origin[operation.results[0]] = (leaf, axes)
            elif not isinstance(first, Literal) and first in self.by_result:
                self.by_result[operation.results[0]] = self.by_result[first]
            return
        places = [place for place, each in enumerate(known) if each is not None]
        if len(places) == 1:
            place = places[0]
            leaf, axes = known[place]  # type: ignore[misc]
            if np.ndim(self.leaves[leaf][1]) == 1:
                self._vector(number, operation, place, leaf)
            else:
                self._kernel(number, operation, place, (leaf, axes))

    def _kernel(
        self, number: int, operation: Operation, place: int, origin: tuple[int, tuple[int, ...]]
    ) -> None:
        """Start a layer with a kernel."""
        leaf, axes = origin
        name, rank = self.leaves[leaf][0], len(axes)
        params = operation.equation.params
        if operation.kind == "dot_general" and rank == 2:
            contracted = params["dimension_numbers"][0][place][0]
            kernel = (leaf, (axes[1 - contracted], axes[contracted]))
            self._add(
                Entry(name, "dense", {"kernel": kernel}, number, number, 1 - place), operation
            )
        elif operation.kind == "conv_general_dilated" and place == 1:
            self._add(_convolution(name, leaf, axes, number, params), operation)
        elif operation.kind == "gather" and rank == 2:
            self._add(Entry(name, "embedding", {"kernel": origin}, number, number), operation)

    def _vector(self, number: int, operation: Operation, place: int, leaf: int) -> None:
        """Add a bias or an offset to a layer, or start one with a scale."""
        if operation.kind == "mul":
            if not self._is_normalized(operation.operands[1 - place]):
                return  # a scale of its own
            scale: dict[str, tuple[int, tuple[int, ...]]] = {"scale": (leaf, (0,))}
            entry = Entry(self.leaves[leaf][0], "layer norm", scale, number, number)
            self._add(entry, operation)
        elif operation.kind == "add":
            other = operation.operands[1 - place]
            found = None if isinstance(other, Literal) else self.by_result.get(other)
            if found is not None:
                role = "offset" if found.kind == "layer norm" else "bias"
                if role not in found.leaves:
                    found.leaves[role] = (leaf, (0,))
                    found.end = number
                    self.by_result[operation.results[0]] = found

    def _is_normalized(self, value: Any) -> bool:
        """Whether a value is divided by a root, or is the inverse of a root itself."""
        operation = self._producer(value)
        if operation is None or operation.kind in ("rsqrt", "pow"):
            return operation is not None
        if operation.kind not in ("mul", "div"):
            return False
        inner = map(self._producer, operation.operands)
        return any(each is not None and each.kind in _ROOTS for each in inner)

    def _producer(self, value: Any) -> Operation | None:
        """Return the operation that computed a value, before it was brought to another shape."""
        found = None if isinstance(value, Literal) else self.producers.get(value)
        return self._producer(found.operands[0]) if found and found.kind in _VIEWS else found

    def _add(self, entry: Entry, operation: Operation) -> None:
        self.found.append(entry)
        self.by_result[operation.results[0]] = entry


def find_layers(
    operations: list[Operation], inputs: list[Any], leaves: list[tuple[str, Any]]
) -> list[Entry]:
    """Return the layers in the order of execution; a parameter used otherwise is one alone."""
    finder = Finder(inputs, leaves)
    for number, operation in enumerate(operations):
        finder.see(number, operation)
    used = {leaf for entry in finder.found for leaf, _ in entry.leaves.values()}
    rest = [
        Entry(name, "other", {"weight": (number, tuple(range(np.ndim(value))))}, -1, -1)
        for number, (name, value) in enumerate(leaves)
        if number not in used
    ]
    return finder.found + rest


def _convolution(
    name: str, leaf: int, axes: tuple[int, ...], number: int, params: dict[str, Any]
) -> Entry:
    """Return a convolution, whose layouts are in its dimension numbers."""
    layout = params["dimension_numbers"]
    return Entry(
        name,
        "convolution",
        {"kernel": (leaf, tuple(axes[each] for each in layout.rhs_spec))},
        number,
        number,
        0,
        tuple(layout.lhs_spec),
        tuple(layout.out_spec),
        {
            "padding": [list(map(int, pair)) for pair in params["padding"]],
            "stride": list(map(int, params["window_strides"])),
            "dilation": list(map(int, params["rhs_dilation"])),
            "groups": int(params["feature_group_count"]),
            "padding mode": "zeros",
        },
    )


def leaf_names(parameters: Any) -> list[tuple[str, Any]]:
    """Return the parameters with their paths."""
    paths, _ = jax.tree_util.tree_flatten_with_path(parameters)
    return [(jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in paths]


def read_weights(entries: list[Entry], leaves: list[Any]) -> dict[str, Any]:
    """Return parameters, or their gradients, by the names of layers and their roles."""
    return {
        f"{entry.name}|{role}": np.asarray(leaves[number]).transpose(axes)
        for entry in entries
        for role, (number, axes) in entry.leaves.items()
    }

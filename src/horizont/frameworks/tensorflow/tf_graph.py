"""A function of TensorFlow as a list of operations, executed one by one in any floating-point type.

It is traced once, in the type in which its author wrote it. Functions that it calls are inlined;
loops and branches are executed with what they contain. It imports nothing of Horizont.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context

from .tf_kernels import FUSED_NORMS, batch_norm, convolution

#: Operations that call a function, which is inlined.
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")

#: Operations without a result that matters.
_SKIPPED = ("NoOp", "Assert", "PrintV2", "Placeholder")


class Name:
    """The result of one operation in one call."""


@dataclass(frozen=True)
class Leaf:
    """A variable, by its number: what operations have as a resource."""

    number: int


@dataclass(eq=False)
class Constant:
    """A value that the function holds and that is no variable."""

    value: Any


@dataclass(eq=False)
class Operation:
    """One operation with what it reads and what its results are called."""

    node: Any
    operands: list[Any]
    results: list[Name]

    @property
    def kind(self) -> str:
        """Type of the operation."""
        return str(self.node.type)


class Variables:
    """The variables of a model, numbered, with the paths of their attributes."""

    def __init__(self, model: Any) -> None:
        self.names: list[str] = []
        self.variables: list[Any] = []
        self._numbers: dict[int, int] = {}
        for path, variable in _attributes(model):
            self._add(path, variable)

    def _add(self, name: str, variable: Any) -> None:
        if id(variable.handle) not in self._numbers:
            self._numbers[id(variable.handle)] = len(self.names)
            self.names.append(name if name not in self.names else f"{name}#{len(self.names)}")
            self.variables.append(variable)

    def leaf(self, handle: Any, others: Sequence[Any]) -> Leaf | None:
        """Return the variable with a handle, which a function of some variables holds."""
        for variable in others:  # of no attribute of the model
            self._add(variable.name.partition(":")[0], variable)
        number = self._numbers.get(id(handle))
        return None if number is None else Leaf(number)


def _attributes(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield the variables of a module, or of what was saved, with the paths of their attributes."""
    seen: set[int] = set()

    def visit(path: str, node: Any) -> Iterator[tuple[str, Any]]:
        if id(node) in seen:
            return
        seen.add(id(node))
        if isinstance(node, tf.Variable):
            own = node.name.partition(":")[0]  # of a layer, in what Keras has saved
            yield own if path.rpartition(".")[2].isdigit() and "/" in own else path, node
        elif hasattr(node, "_trackable_children"):
            for name, child in node._trackable_children().items():
                yield from visit(f"{path}.{name}" if path else name, child)

    yield from visit("", model)


@dataclass
class Graph:
    """All operations of a traced function in order, its input, and its first result."""

    operations: list[Operation]
    input: Any
    output: Any


def trace(function: Callable[[Any], Any], batch: Any, variables: Variables) -> Graph:
    """Trace a function of one tensor."""
    spec = tf.TensorSpec(batch.shape, batch.dtype)
    concrete = tf.function(function).get_concrete_function(spec)
    graph = concrete.graph
    captured = {inner.name: outer for outer, inner in graph.captures}
    own = Name()
    operands: list[Any] = []
    for each in graph.inputs:
        outer = captured.get(each.name)
        if outer is None:
            operands.append(own)
        else:
            leaf = variables.leaf(outer, concrete.variables)
            operands.append(Constant(outer) if leaf is None else leaf)
    operations, outputs = _inlined(graph, operands)
    if not outputs:
        raise TypeError("the model returns no tensor")
    return Graph(_needed(operations, outputs[0]), own, outputs[0])


def _inlined(graph: Any, arguments: list[Any]) -> tuple[list[Operation], list[Any]]:
    """Return all operations of a function in order, called with arguments, and its results."""
    found: list[Operation] = []

    def visit(inner: Any, operands: list[Any]) -> list[Any]:
        local = {each.name: value for each, value in zip(inner.inputs, operands, strict=True)}
        for node in inner.get_operations():
            if node.type in _SKIPPED:
                continue
            read = [local[each.name] for each in node.inputs]
            if node.type in _CALLS:
                results = visit(_function(inner, node, "f"), read)
            else:
                results = [Name() for _ in node.outputs]
                found.append(Operation(node, read, results))
            local.update(zip((each.name for each in node.outputs), results, strict=False))
        return [local[each.name] for each in inner.outputs]

    outputs = visit(graph, arguments)
    return found, outputs


@cache
def _body(graph: Any) -> tuple[list[Name], list[Operation], list[Any]]:
    """Return the names of a function's arguments, its operations, and its results."""
    names = [Name() for _ in graph.inputs]
    return names, *_inlined(graph, list(names))


def read(operand: Any, values: dict[Any, Any]) -> Any:
    """Return the value of an operand; of a variable, which operations read, itself."""
    if isinstance(operand, Leaf):
        return operand
    return operand.value if isinstance(operand, Constant) else values[operand]


def _needed(operations: list[Operation], output: Any) -> list[Operation]:
    """Return the operations that the output depends on, and those that change variables."""
    wanted, found = {output}, []
    for operation in reversed(operations):
        is_effect = operation.kind in ("While", "If") or operation.kind.startswith("Assign")
        if is_effect or not wanted.isdisjoint(operation.results):
            wanted.update(operation.operands)
            found.append(operation)
    return found[::-1]


def _function(graph: Any, node: Any, attribute: str) -> Any:
    """Return the graph of the function that an operation calls."""
    name = node.get_attr(attribute).name
    while graph is not None:
        if (found := graph._get_function(name)) is not None:
            return found.graph
        graph = getattr(graph, "outer_graph", None)
    raise LookupError(f"{node.name} calls a function without a graph")


class Interpreter:
    """What executes operations in a floating-point type, with values of the variables.

    Attributes
    ----------
    leaves
        The values of the variables, which assignments replace.
    """

    def __init__(self, dtype: str, functions: Any, leaves: list[Any]) -> None:
        self.dtype, self.functions, self.leaves = tf.as_dtype(dtype), functions, leaves
        self._special = {
            "Const": self._constant,
            "ReadVariableOp": self._variable,
            "ResourceGather": self._rows,
            "AssignVariableOp": self._assign,
            "AssignAddVariableOp": self._assign,
            "AssignSubVariableOp": self._assign,
            "While": self._loop,
            "StatelessWhile": self._loop,
            "If": self._branch,
            "StatelessIf": self._branch,
            "Conv2D": self._convolution,
            **dict.fromkeys(FUSED_NORMS, self._norm),
        }

    def execute(
        self, node: Any, operands: list[Any], changes: dict[str, Any] | None = None
    ) -> list[Any]:
        """Execute an operation, with other attributes than its own if some are changed."""
        return self._special.get(node.type, self._execute)(node, operands, changes or {})

    def evaluate(self, operation: Operation, values: dict[Any, Any]) -> None:
        """Execute an operation with values of other results, and add those of its own."""
        operands = [read(each, values) for each in operation.operands]
        results = self.execute(operation.node, operands)
        values.update(zip(operation.results, results, strict=False))

    def _call(self, graph: Any, operands: list[Any]) -> list[Any]:
        """Execute a function."""
        names, operations, outputs = _body(graph)
        values: dict[Any, Any] = dict(zip(names, operands, strict=True))
        for operation in operations:
            self.evaluate(operation, values)
        return [read(each, values) for each in outputs]

    def _variable(self, _: Any, operands: list[Any], changes: dict[str, Any]) -> list[Any]:
        del changes
        return [self.leaves[operands[0].number]]

    def _rows(self, node: Any, operands: list[Any], changes: dict[str, Any]) -> list[Any]:
        del changes
        table, dims = self.leaves[operands[0].number], node.get_attr("batch_dims")
        return [tf.gather(table, operands[1], batch_dims=dims)]

    def _branch(self, node: Any, operands: list[Any], changes: dict[str, Any]) -> list[Any]:
        del changes
        branch = "then_branch" if bool(operands[0]) else "else_branch"
        return self._call(_function(node.graph, node, branch), operands[1:])

    def _loop(self, node: Any, operands: list[Any], changes: dict[str, Any]) -> list[Any]:
        del changes
        condition, body = (_function(node.graph, node, each) for each in ("cond", "body"))
        while bool(self._call(condition, operands)[0]):
            operands = self._call(body, operands)
        return operands

    def _constant(self, node: Any, _: list[Any], changes: dict[str, Any]) -> list[Any]:
        if "value" in changes:
            return [tf.constant(changes["value"], self.dtype)]
        value = tf.make_ndarray(node.get_attr("value"))
        is_single = value.dtype == np.float32
        return [
            tf.constant(self.functions.converted(value, self.dtype.name) if is_single else value)
        ]

    def _assign(self, node: Any, operands: list[Any], changes: dict[str, Any]) -> list[Any]:
        del changes
        leaf, value = operands
        signs = {"AssignAddVariableOp": 1, "AssignSubVariableOp": -1}
        if node.type in signs:
            value = self.leaves[leaf.number] + signs[node.type] * value
        self.leaves[leaf.number] = value
        return []

    def _norm(self, node: Any, operands: list[Any], changes: dict[str, Any]) -> list[Any]:
        epsilon = changes.get("epsilon")
        if epsilon is None:
            epsilon = self.functions.exact(node.get_attr("epsilon"))
        return batch_norm(node, operands, tf.constant(epsilon, self.dtype))

    def _convolution(self, node: Any, operands: list[Any], changes: dict[str, Any]) -> list[Any]:
        found = convolution(node, operands, changes)
        return self._execute(node, operands, changes) if found is None else [found]

    def _execute(self, node: Any, operands: list[Any], changes: dict[str, Any]) -> list[Any]:
        """Execute an operation as those of `tf.raw_ops` are, whose arguments have other names."""
        definition, place = node.op_def, 0
        arguments: list[Any] = []
        inferred = set()
        for each in definition.input_arg:
            inferred |= {each.type_attr, each.number_attr, each.type_list_attr}
            if each.number_attr or each.type_list_attr:
                listed = node.get_attr(each.number_attr or each.type_list_attr)
                count = listed if each.number_attr else len(listed)
                arguments.append(operands[place : place + count])
                place += count
            else:
                arguments.append(operands[place])
                place += 1
        for each in definition.attr:
            if each.name not in inferred:
                value = changes.get(each.name)
                own = self._attribute(node.get_attr(each.name)) if value is None else value
                arguments += [each.name, own]
        results = pywrap_tfe.TFE_Py_FastPathExecute(context.context(), node.type, None, *arguments)
        if results is None:
            return []
        parts = list(results) if isinstance(results, list | tuple) else [results]
        flat = [one for each in parts for one in (each if isinstance(each, list) else [each])]
        return [self._cast(each) for each in flat]

    def _cast(self, value: Any) -> Any:
        is_single = isinstance(value, tf.Tensor) and value.dtype == tf.float32
        return tf.cast(value, self.dtype) if is_single else value

    def _attribute(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._attribute(each) for each in value]
        # A number may be equal to a type.
        is_single = isinstance(value, tf.DType) and value == tf.float32
        return self.dtype if is_single else value

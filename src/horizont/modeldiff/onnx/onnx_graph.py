"""An ONNX graph whose nodes are executed one by one, by the reference implementation of ONNX.

It imports nothing of Horizont. What does not depend on the input is computed once: weights that an
exporter has transposed or cast are constants like all others.

In float64 the constants and attributes of the graph are converted. What a file has rounded to
single precision gets the number that it stands for where that is evident, as of 0.7071068 or 1e-05.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Mapping
from math import erf, pi, sqrt
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpFunction, OpRun

Array = np.ndarray[Any, Any]

_HALF, _FLOAT, _DOUBLE = (
    getattr(onnx.TensorProto, name) for name in ("FLOAT16", "FLOAT", "DOUBLE")
)

#: The end of the name of a norm that was folded into a convolution.
FOLDED = "[norm]"

#: Nodes that change nothing but the order and the axes of what they read.
_REARRANGING = {
    "Cast", "CastLike", "Flatten", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose",
    "Unsqueeze",
}  # fmt: skip

#: Attributes of constants with single numbers, which have no type.
_NUMBERS = ("value_float", "value_floats")

_erf = np.vectorize(erf, otypes=[float])


def _convert(graph: onnx.GraphProto, types: Mapping[int, int], dtype: str, functions: Any) -> None:
    """Convert all tensors of some types, and casts to them, of a graph and those in it."""
    for tensor in graph.initializer:
        if tensor.data_type in types:
            array = functions.converted(numpy_helper.to_array(tensor), dtype)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                if attribute.t.data_type in types:
                    array = functions.converted(numpy_helper.to_array(attribute.t), dtype)
                    attribute.t.CopyFrom(numpy_helper.from_array(array))
            elif attribute.type == onnx.AttributeProto.GRAPH:
                _convert(attribute.g, types, dtype, functions)
            elif attribute.name in _NUMBERS and node.op_type == "Constant":
                value = np.array(helper.get_attribute_value(attribute), np.float32)
                array = functions.converted(value, dtype)
                attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(array)))
            elif attribute.name in ("to", "dtype"):
                attribute.i = types.get(attribute.i, attribute.i)


def _in_type(model: onnx.ModelProto, dtype: str, functions: Any) -> onnx.ModelProto:
    """Return a copy of a model that computes in one type what it computes in single precision.

    A model whose input has 16 bits computes all of that, too, in the other type.
    """
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    is_half = any(each.type.tensor_type.elem_type == _HALF for each in model.graph.input)
    types = {_FLOAT, _HALF} if is_half else {_FLOAT}
    own = _FLOAT if dtype == "float32" else _DOUBLE
    _convert(changed.graph, dict.fromkeys(types, own), dtype, functions)
    return changed


def _separate_vectors(graph: onnx.GraphProto) -> None:
    """Store the vectors of each node apart: an exporter stores those that are equal once."""
    vectors = {
        each.name: each
        for each in graph.initializer
        if sum(size > 1 for size in each.dims) == 1 and each.data_type in (_FLOAT, _DOUBLE)
    }
    used: set[str] = set()
    for node in graph.node:
        for place, name in enumerate(node.input):
            if name in used:
                copy = onnx.TensorProto()
                copy.CopyFrom(vectors[name])
                copy.name = node.input[place] = f"{name}:{node.output[0]}:{place}"
                graph.initializer.append(copy)
            elif name in vectors:
                used.add(name)


class Erf(OpRun):
    """The error function, which the reference implementation rounds to single precision."""

    def _run(self, x: Array) -> tuple[Array]:
        return (_erf(x).astype(x.dtype),)


class Gelu(OpRun):
    """GELU, for which the reference implementation has constants and Erf in single precision."""

    def _run(self, x: Array, approximate: str | None = None) -> tuple[Array]:
        if approximate == "tanh":
            inner = np.tanh(sqrt(2.0 / pi) * (x + 0.044715 * x**3))
        else:
            inner = _erf(x * sqrt(0.5)).astype(x.dtype)
        return ((0.5 * x * (1.0 + inner)).astype(x.dtype),)


class Graph:
    """A graph in one floating-point type.

    Attributes
    ----------
    constants
        Tensors that are not computed in each run, by name. They can be written.
    initializers
        Names of those that are stored in the file, or are stored ones with other axes.
    nodes
        What depends on the input or computes with weights, in the order of execution.
    input, output
        Names of the input, and of the first output.
    """

    def __init__(self, model: onnx.ModelProto, dtype: str, functions: Any) -> None:
        model = _in_type(model, dtype, functions)
        _separate_vectors(model.graph)
        evaluator = ReferenceEvaluator(model, new_ops=[Erf, Gelu])
        self.constants: dict[str, Array] = {
            name: np.array(value) for name, value in evaluator.rt_inits_.items()
        }
        self.initializers = set(self.constants)
        self.nodes: list[Any] = []
        for node, proto in zip(evaluator.rt_nodes_, model.graph.node, strict=True):
            if dtype == "float64":
                _make_exact(node, functions.exact)
            node.name, node.owner = proto.name, _owner(proto)
            if not self._is_constant(node):
                self.nodes.append(node)
                continue
            values = compute(node, [self.constants.get(name) for name in node.input], {})
            folded = {name: np.array(each) for name, each in zip(node.output, values, strict=False)}
            self.constants |= folded
            if self.initializers.intersection(node.input):
                self.initializers |= folded.keys()
        inputs = [each for each in model.graph.input if each.name not in evaluator.rt_inits_]
        if len(inputs) != 1:
            names = ", ".join(each.name for each in inputs)
            raise ValueError(f"the graph has {len(inputs)} inputs ({names}); one can be compared")
        self.input, self.output = inputs[0].name, model.graph.output[0].name
        tensor = inputs[0].type.tensor_type
        #: As the file declares it, whatever the graph computes in.
        self.input_dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        self.input_sizes = [each.dim_value for each in tensor.shape.dim]

    def _is_constant(self, node: Any) -> bool:
        """Whether a node is executed once: it depends neither on the input nor on weights.

        Weights with other axes are constants, too.
        """
        if node.need_context() or not all(name in self.constants for name in node.input if name):
            return False
        stored = (self.constants[name] for name in node.input if name in self.initializers)
        has_weights = any(each.size > 1 and each.dtype.kind == "f" for each in stored)
        return node.op_type in _REARRANGING or not has_weights


def _make_exact(node: Any, exact: Callable[[float], float]) -> None:
    """Set the attributes of a node, which have single precision, to what they stand for."""
    for name in node.attributes_names_:
        if isinstance(value := getattr(node, name, None), float | np.floating):
            setattr(node, name, exact(float(value)))
    if isinstance(node, OpFunction):  # an operator that ONNX defines by others
        for inner in node.impl_.rt_nodes_:
            _make_exact(inner, exact)


def _owner(proto: onnx.NodeProto) -> str:
    """Return the module that a node comes from; empty if the exporter has not recorded it."""
    for each in proto.metadata_props:
        if each.key.endswith(".name_scopes"):
            scopes = literal_eval(each.value)
            return scopes[-2] if len(scopes) > 1 else ""
    return ""


def compute(node: Any, values: list[Any], context: dict[str, Any]) -> tuple[Any, ...]:
    """Execute a node; those with a graph inside see all tensors of the context."""
    if node.need_context():
        return tuple(node.run(*values, context=context))
    return tuple(node.run(*values))


def unfolded(model: onnx.ModelProto, kernels: dict[str, dict[str, Any]]) -> onnx.ModelProto:
    """Return a model in which a batch norm follows some convolutions, as before they were folded.

    It has the bias of the convolution, if there is one, as its offset, and changes nothing else.

    Parameters
    ----------
    kernels
        By the output of the convolution: its ``name`` and ``channels``, the ``epsilon`` of the
        norm, and whether the convolution has a ``bias`` beside it, which is then zero.
    """
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    nodes = list(changed.graph.node)
    del changed.graph.node[:]
    for node in nodes:
        changed.graph.node.append(node)
        how = kernels.get(node.output[0])
        if how is None:
            continue
        convolution, output = changed.graph.node[-1], node.output[0]
        inner, size = f"{output}:unfolded", how["channels"]
        bias = convolution.input[2] if len(convolution.input) > 2 else f"{output}:zeros"
        added = {
            "scale": np.ones(size), "mean": np.zeros(size),
            "variance": np.full(size, 1.0 - how["epsilon"]), "zeros": np.zeros(size),
        }  # fmt: skip
        for role, array in added.items():
            tensor = numpy_helper.from_array(array.astype(np.float32), f"{output}:{role}")
            changed.graph.initializer.append(tensor)
        convolution.output[0] = inner
        del convolution.input[2:]
        if how["bias"]:
            convolution.input.append(f"{output}:zeros")
        norm = helper.make_node(
            "BatchNormalization",
            [inner, f"{output}:scale", bias, f"{output}:mean", f"{output}:variance"],
            [output],
            how["name"] + FOLDED,
            epsilon=how["epsilon"],
        )
        changed.graph.node.append(norm)
    return changed

"""Layers of an ONNX graph as a recorder sees them: kinds, weights in a canonical form, settings.

It imports nothing of Horizont. A layer is a node that reads weights, with the addition of its bias
if that is a node of its own; or the nodes that an exporter writes for a norm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from .onnx_entries import Entry, Reader, Shapes, Tensor, name_of
from .onnx_graph import Graph
from .onnx_norms import group_norm, layer_norm, norm, rms_norm

#: Nodes that use a constant which may be a weight, without being a layer of a known kind.
_USING = ("Add", "Sub", "Mul", "Div", "MatMul", "Gemm", "Concat", "Expand", "PRelu")

#: The gates in the canonical order, as numbers of those of ONNX.
_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2)}


def entries_of(graph: Graph, shapes: Shapes) -> list[Entry]:
    """List the layers of a graph in the order of execution.

    Parameters
    ----------
    shapes
        Of all tensors, by name.
    """
    reader = Reader(graph, shapes)
    found: list[Entry] = []
    for number, node in enumerate(graph.nodes):
        if (make := _KINDS.get(node.op_type)) is not None:
            found += make(reader, number)
    found += _constants(reader, {owner for entry in found for owner in entry.owners()})
    found.sort(key=lambda entry: entry.writer)
    counts: Counter[str] = Counter()
    for place, entry in enumerate(found):
        counts[entry.name] += 1
        if counts[entry.name] > 1:
            found[place] = replace(entry, name=f"{entry.name}:{counts[entry.name]}")
    return found


def _matrix(reader: Reader, number: int) -> Iterator[Entry]:
    """Read a product with a matrix, and the addition of its bias."""
    node = reader.nodes[number]
    kernel = reader.constant(node, 1)
    if kernel is None or kernel.ndim != 2:
        return
    is_general = node.op_type == "Gemm"
    rows = kernel if is_general and node.transB else kernel.T
    tensors, writer = {"kernel": Tensor([rows])}, number
    if is_general:
        bias = reader.constant(node, 2)
        if bias is not None and bias.size == len(rows):
            tensors["bias"] = Tensor([bias.reshape(-1)])
    elif (after := reader.following(number, "Add", len(rows), -1)) is not None:
        writer = after.number
        tensors["bias"] = Tensor([after.values])
    output = reader.nodes[writer].output[0]
    yield Entry(
        name_of(node, 1), "dense", node, tensors, (number,), writer, node.input[0], output
    )  # fmt: skip


def _convolution(reader: Reader, number: int) -> Iterator[Entry]:
    """Read a convolution, and the addition of its bias."""
    node = reader.nodes[number]
    kernel, bias = reader.constant(node, 1), reader.constant(node, 2)
    if kernel is None:
        return
    is_transposed = node.op_type == "ConvTranspose"
    kind = "transposed convolution" if is_transposed else "convolution"
    channels = kernel.shape[1] * (node.group or 1) if is_transposed else len(kernel)
    tensors, writer = {"kernel": Tensor([kernel])}, number
    if bias is None:
        after = reader.following(number, "Add", channels, 1 - kernel.ndim)
        if after is not None:
            writer, bias = after.number, after.values
    if bias is not None:
        tensors["bias"] = Tensor([bias])
    settings: dict[str, Any] = {}
    if not is_transposed:
        axes = kernel.ndim - 2
        settings = {
            "stride": list(node.strides or [1] * axes),
            "dilation": list(node.dilations or [1] * axes),
            "groups": node.group or 1,
            "padding mode": "zeros",
        }
        shape = reader.shapes[node.input[0]]
        settings["padding"] = _padding(node, shape[2:], kernel.shape[2:], settings)
    yield Entry(
        name_of(node, 1), kind, node, tensors, (number,), writer,
        node.input[0], reader.nodes[writer].output[0], settings, fixed=("groups", "padding mode"),
    )  # fmt: skip


def _padding(
    node: Any, sizes: tuple[int, ...], window: tuple[int, ...], settings: dict[str, Any]
) -> list[list[int]]:
    """Return the zeros before and after each axis of space."""
    automatic = node.auto_pad or "NOTSET"
    if automatic == "NOTSET":
        pads = list(node.pads or [0] * 2 * len(window))
        return [[pads[axis], pads[axis + len(window)]] for axis in range(len(window))]
    found = []
    each = zip(sizes, window, settings["stride"], settings["dilation"], strict=True)
    for size, kernel, stride, dilation in each:
        total = (-(-size // stride) - 1) * stride + dilation * (kernel - 1) + 1 - size
        total = 0 if automatic == "VALID" else max(total, 0)
        less, more = total // 2, total - total // 2
        found.append([less, more] if automatic == "SAME_UPPER" else [more, less])
    return found


def _embedding(reader: Reader, number: int) -> Iterator[Entry]:
    """Read a look-up of rows."""
    node = reader.nodes[number]
    kernel = reader.constant(node, 0)
    if kernel is None or kernel.ndim != 2 or kernel.dtype.kind != "f" or node.axis:
        return
    yield Entry(
        name_of(node, 0), "embedding", node, {"kernel": Tensor([kernel])}, (number,), number,
        node.input[1], node.output[0],
    )  # fmt: skip


def _recurrent(reader: Reader, number: int) -> Iterator[Entry]:
    """Read the directions of a recurrent node."""
    node = reader.nodes[number]
    weights, recurrent = reader.constant(node, 1), reader.constant(node, 2)
    biases = reader.constant(node, 3)
    if weights is None or recurrent is None:
        return
    gates, units = _GATES[node.op_type], recurrent.shape[2]
    rows = [slice(gate * units, (gate + 1) * units) for gate in gates]
    is_one = len(weights) == 1 and not node.layout
    for direction, way in enumerate(("", "_reverse")[: len(weights)]):
        tensors = {
            "kernel": Tensor([weights[direction, each] for each in rows]),
            "recurrent": Tensor([recurrent[direction, each] for each in rows]),
        }
        if biases is not None:
            own, other = np.split(biases[direction], 2)
            both = [[half[each] for each in rows] for half in (own, other)]
            if node.op_type == "GRU":
                tensors |= {"bias": Tensor(both[0]), "recurrent bias": Tensor(both[1])}
            else:
                tensors["bias"] = Tensor(*both)
        yield Entry(
            f"{name_of(node, 1)}{way}", node.op_type, node, tensors, (number,), number,
            node.input[0] if is_one else "", node.output[0] if is_one else "", is_sequence=True,
        )  # fmt: skip


def _constants(reader: Reader, taken: set[int]) -> Iterator[Entry]:
    """Read the constants that no layer has, each where it is used first."""
    for number, node in enumerate(reader.nodes):
        for place, name in enumerate(node.input if node.op_type in _USING else ()):
            value = reader.graph.constants.get(name)
            if value is None or id(value) in taken or name not in reader.graph.initializers:
                continue
            if value.dtype.kind != "f" or value.size < 2:
                continue
            taken.add(id(value))
            role = name.rpartition(".")[2]
            is_activation = node.op_type == "PRelu"
            yield Entry(
                name_of(node, place), "other", node, {role: Tensor([value])}, (number,), number,
                node.input[0] if is_activation else "", node.output[0] if is_activation else "",
                is_optional=True,
            )  # fmt: skip


#: What reads the layers that begin with, or are found by, a kind of node.
_KINDS: dict[str, Callable[[Reader, int], Iterator[Entry]]] = {
    "Gemm": _matrix,
    "MatMul": _matrix,
    "Conv": _convolution,
    "ConvTranspose": _convolution,
    "BatchNormalization": norm,
    "LayerNormalization": norm,
    "RMSNormalization": norm,
    "GroupNormalization": norm,
    "InstanceNormalization": group_norm,
    "Div": layer_norm,
    "Reciprocal": rms_norm,
    "Gather": _embedding,
    "LSTM": _recurrent,
    "GRU": _recurrent,
}

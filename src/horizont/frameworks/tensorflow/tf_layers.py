"""Layers of a function of TensorFlow: found in its operations, which are traced once.

A layer is an operation that uses variables: a matrix product or convolution with the bias that is
added to it, a look-up in a table, a norm. It imports nothing of Horizont.
"""

from __future__ import annotations

from typing import Any

from .tensor_layouts import depthwise, same_padding
from .tf_entries import Entry, Reader, Weight
from .tf_graph import Graph, Leaf, Operation
from .tf_norms import ADDITIONS, NormFinder

#: Operations between a product and its bias that leave the channels where they are.
_SHAPES = ("Reshape", "Squeeze", "Identity")

#: Products of matrices, and the start of the names of their attributes.
_PRODUCTS = {"MatMul": "transpose_", "BatchMatMul": "adj_", "BatchMatMulV2": "adj_"}

_CONVOLUTIONS = ("Conv2D", "Conv3D", "DepthwiseConv2dNative")


class _Finder:
    """The search for layers in the operations of a function."""

    def __init__(self, reader: Reader) -> None:
        self.reader, self.norms = reader, NormFinder(reader)
        self.found: dict[str, Entry] = {}
        self._by_result: dict[Any, Entry] = {}

    def see(self, number: int, operation: Operation) -> None:
        """Find out whether an operation is the start of a layer, its bias or a part of a norm."""
        operands = operation.operands
        if not operands or self.reader.see_view(operation):
            return
        if operation.kind in _SHAPES and operands[0] in self._by_result:
            self._by_result[operation.results[0]] = self._by_result[operands[0]]
            return
        norm = self.norms.see(number, operation)
        if isinstance(norm, Entry):
            self._add(norm, operation)
        elif not norm:
            places = [n for n, each in enumerate(operands) if self.reader.leaf(each) is not None]
            if len(places) == 1:
                self._layer(number, operation, places[0])

    def _add(self, entry: Entry, operation: Operation) -> None:
        """Add a layer; one that is used again is where it is used first."""
        other = self.found.get(entry.name)
        if other is not None and other.kind != entry.kind:  # a table that is also a matrix
            entry.name = f"{entry.name} ({entry.kind})"
        self._by_result[operation.results[0]] = self.found.setdefault(entry.name, entry)

    def _layer(self, number: int, operation: Operation, place: int) -> None:
        known = self.reader.leaf(operation.operands[place])
        assert known is not None
        (leaf, axes), node, kind = known, operation.node, operation.kind
        other = operation.operands[1 - place] if len(operation.operands) > 1 else None
        name, entry = self.reader.name(leaf), None
        is_row = kind in ADDITIONS and len(axes) == 2 and self.reader.shape(leaf)[0] == 1
        if is_row or (len(axes) == 1 and kind in (*ADDITIONS, "BiasAdd")):
            self._add_vector(number, operation, other, leaf)
        elif len(axes) == 1 and kind == "Mul" and self.reader.constant(other) is None:
            entry = self.norms.scaled(number, leaf, other)
        elif kind in ("ResourceGather", "GatherV2") and place == 0 and len(axes) == 2:
            kernel = self.reader.weight(leaf, axes)
            settings = {"padding index": None}
            entry = Entry(
                name, "embedding", {"kernel": kernel}, number, number, 1, settings=settings
            )
        elif kind in _CONVOLUTIONS and place == 1 and axes == tuple(range(len(axes))):
            entry = self._convolution(number, node, leaf)
        elif kind == "Conv2DBackpropInput" and place == 1:
            kernel = self.reader.weight(leaf, tuple(axes[each] for each in (3, 2, 0, 1)))
            is_last = node.get_attr("data_format") == b"NHWC"
            weights = {"kernel": kernel}
            entry = Entry(name, "transposed convolution", weights, number, number, 2, is_last)
        elif len(axes) == 2 and (contracted := _contracted(node, place)) is not None:
            kernel = self.reader.weight(leaf, (axes[1 - contracted], axes[contracted]))
            start, own = self._before_reshape(number, 1 - place)
            entry = Entry(name, "dense", {"kernel": kernel}, start, number, own)
        if entry is not None:
            self._add(entry, operation)

    def _before_reshape(self, number: int, place: int) -> tuple[int, int]:
        """Return where a product reads its input, before the axes in front of it are joined."""
        operand = self.reader.operations[number].operands[place]
        before = self.reader.operation(operand, ("Reshape",))
        if before is None:
            return number, place
        own, joined = before.node.inputs[0].shape, before.node.outputs[0].shape
        writer = self.reader.writer(operand)
        if writer is not None and len(joined) == 2 < len(own) and own[-1] == joined[-1]:
            return writer, 0
        return number, place

    def _convolution(self, number: int, node: Any, leaf: Leaf) -> Entry:
        """Return a convolution, whose kernel has its channels last whatever the layout is."""
        is_last = node.get_attr("data_format").endswith(b"C")
        own = slice(1, -1) if is_last else slice(2, None)
        sizes, kernel = node.inputs[0].shape.as_list(), node.inputs[1].shape.as_list()
        channels, space = sizes[-1 if is_last else 1], len(sizes) - 2
        weight, groups = self.reader.weight(leaf, (space + 1, space, *range(space))), channels
        if node.type == "DepthwiseConv2dNative":
            weight = Weight(leaf.number, *depthwise(tuple(kernel)))
        else:
            groups = channels // kernel[-2]
        stride, dilation = (list(node.get_attr(each))[own] for each in ("strides", "dilations"))
        settings = {
            "stride": stride,
            "dilation": dilation,
            "groups": groups,
            "padding mode": "zeros",
        }
        settings["padding"] = _padding(node, sizes[own], kernel[:space], settings, own)
        name = self.reader.name(leaf)
        return Entry(name, "convolution", {"kernel": weight}, number, number, 0, is_last, settings)

    def _add_vector(self, number: int, operation: Operation, other: Any, leaf: Leaf) -> None:
        """Add a bias or an offset to the layer whose result the other operand is."""
        entry = self._by_result.get(other)
        if entry is None:
            return
        role = "offset" if entry.kind.endswith("norm") else "bias"
        if role not in entry.weights:
            entry.weights[role] = self.reader.flat(leaf)
            entry.end = number
            self._by_result[operation.results[0]] = entry


def find_layers(graph: Graph, names: list[str], variables: list[Any]) -> list[Entry]:
    """Return the layers in the order of execution; a variable that is read otherwise is one."""
    reader = Reader(graph, names, variables)
    finder = _Finder(reader)
    for number, operation in enumerate(graph.operations):
        finder.see(number, operation)
    used = {weight.number for entry in finder.found.values() for weight in entry.weights.values()}
    read = {
        operand.number
        for operation in graph.operations
        for operand in operation.operands
        if isinstance(operand, Leaf)
    }
    rest = [
        Entry(name, "other", {"weight": reader.weight(Leaf(number))})
        for number, name in enumerate(names)
        if number in read - used and variables[number].dtype.is_floating
    ]
    return sorted(finder.found.values(), key=lambda entry: entry.end) + rest


def _contracted(node: Any, place: int) -> int | None:
    """Return the axis of a matrix over which a product sums; None if it is no such product."""
    if node.type == "Einsum":
        left, _, result = node.get_attr("equation").decode().partition("->")
        labels = left.split(",")[place]
        summed = [n for n, label in enumerate(labels) if label not in result]
        return summed[0] if len(labels) == 2 and len(summed) == 1 else None
    if node.type not in _PRODUCTS:
        return None
    operand = ("ab" if node.type == "MatMul" else "xy")[place]
    is_transposed = node.get_attr(f"{_PRODUCTS[node.type]}{operand}")
    return (1 - place) ^ int(is_transposed)


def _padding(
    node: Any, sizes: list[int], window: list[int], settings: dict[str, Any], own: slice
) -> list[list[int]]:
    """Return the zeros before and after each axis of space."""
    padding = node.get_attr("padding")
    if padding == b"VALID":
        return [[0, 0] for _ in sizes]
    if padding == b"EXPLICIT":
        pads = list(node.get_attr("explicit_paddings"))
        return [list(pair) for pair in zip(pads[::2], pads[1::2], strict=True)][own]
    return same_padding(sizes, window, settings["stride"], settings["dilation"])

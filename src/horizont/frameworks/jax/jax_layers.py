"""Layers of a function of JAX: found in its operations, which are traced once.

A layer is an operation that uses parameters: a matrix product or convolution with the bias that
is added to it, a look-up in a table, a norm. The operation also says the layout of each parameter.
It imports nothing of Horizont.
"""

from __future__ import annotations

from typing import Any

from jax.extend.core import Literal

from .jax_norms import NormFinder
from .jax_operations import Entry, Graph, Operation, Origin, Reader, View

#: Operations between a product and its bias that leave the channels where they are.
_VIEWS = ("convert_element_type", "copy", "transpose")


class _Finder:
    """The search for layers in the operations of a function."""

    def __init__(self, reader: Reader) -> None:
        self.reader, self.norms = reader, NormFinder(reader)
        self.found: dict[str, Entry] = {}
        #: Layers by their results, and how these are brought to the canonical layout.
        self._by_result: dict[Any, tuple[Entry, View | None]] = {}

    def see(self, number: int, operation: Operation) -> None:
        """Find out whether an operation is the start of a layer, its bias or a part of a norm."""
        operands = operation.operands
        if not operands or self.reader.origin(operation.results[0]) is not None:
            return
        first = operands[0]
        if operation.kind in _VIEWS and not isinstance(first, Literal):
            if first in self._by_result:
                entry, view = self._by_result[first]
                self._by_result[operation.results[0]] = (entry, _transposed(view, operation))
            return
        if self._is_vector_added(number, operation):
            return
        norm = self.norms.see(number, operation)
        if isinstance(norm, Entry):
            self._add(norm, operation)
        elif not norm:
            known = [(n, self.reader.origin(each)) for n, each in enumerate(operands)]
            places = [(place, each) for place, each in known if each is not None]
            if len(places) == 1:
                self._kernel(number, operation, *places[0])

    def _add(self, entry: Entry, operation: Operation) -> None:
        """Add a layer; one that is used again is where it is used first."""
        other = self.found.get(entry.name)
        if other is not None and other.kind != entry.kind:  # a table that is also a matrix
            entry.name = f"{entry.name} ({entry.kind})"
        entry = self.found.setdefault(entry.name, entry)
        self._by_result[operation.results[0]] = (entry, entry.output_view)

    def _kernel(self, number: int, operation: Operation, place: int, origin: Origin) -> None:
        """Start a layer with a kernel."""
        axes, leaf, entry = origin.axes, origin.number, None
        if axes is None:
            return
        if operation.kind == "dot_general" and len(axes) > 1:
            entry = self._dense(number, operation, place, leaf, axes)
        elif operation.kind == "conv_general_dilated" and place == 1:
            entry = _convolution(self.reader, number, operation, leaf, axes)
        elif operation.kind == "gather" and len(axes) == 2 and place == 0:
            weights = {"kernel": self.reader.weight(leaf, axes)}
            entry = Entry(self.reader.name(leaf), "embedding", weights, number, number)
            sizes = operation.equation.invars[1].aval.shape
            if len(sizes) > 1 and sizes[-1] == 1:  # indices of rows
                entry.reads = {number: 1}
                entry.input_view = View(tuple(range(len(sizes))), sizes[-2:])
                entry.settings["padding index"] = None
        if entry is not None:
            self._add(entry, operation)

    def _dense(
        self, number: int, operation: Operation, place: int, leaf: int, axes: tuple[int, ...]
    ) -> Entry | None:
        """Return a product with a matrix, whose rows or columns may be several axes."""
        contracted, batched = operation.equation.params["dimension_numbers"]
        own, others = contracted[place], contracted[1 - place]
        if batched[place] or not own:
            return None
        rows = [each for each in range(len(axes)) if each not in own]
        weight = self.reader.weight(leaf, tuple(axes[n] for n in (*rows, *own)), len(rows))
        rank = operation.equation.invars[1 - place].aval.ndim
        lead = [each for each in range(rank) if each not in others]
        # A matrix that is the first operand has its rows before the axes of the other operand.
        order = range(len(lead) + len(rows))
        result = order if place == 1 else [*order[len(rows) :], *order[: len(rows)]]
        return Entry(
            self.reader.name(leaf),
            "dense",
            {"kernel": weight},
            number,
            number,
            {number: 1 - place},
            _view((*lead, *others), weight.sizes[len(rows) :]),
            _view(tuple(result), weight.sizes[: len(rows)]),
        )

    def _is_vector_added(self, number: int, operation: Operation) -> bool:
        """Whether an operation adds a bias or an offset to a layer."""
        if operation.kind not in ("add", "add_any"):
            return False
        for place in (0, 1):
            one, other = operation.operands[place], operation.operands[1 - place]
            origin = self.reader.origin(one)
            found = None if isinstance(other, Literal) else self._by_result.get(other)
            if origin is None or found is None:
                continue
            entry, view = found
            role = "offset" if entry.kind.endswith("norm") else "bias"
            shape = self.reader.shape(origin.number)
            if role not in entry.weights and (
                len(shape) == 1 or (view is not None and shape == view.sizes)
            ):
                entry.weights[role] = self.reader.flat(origin.number)
                entry.end, entry.output_view = number, view
                self._by_result[operation.results[0]] = found
                return True
        return False


def _view(axes: tuple[int, ...], sizes: tuple[int, ...]) -> View | None:
    """Return a view; None if it leaves an array as it is."""
    is_same = axes == tuple(range(len(axes))) and len(sizes) < 2
    return None if is_same else View(axes, sizes if len(sizes) > 1 else ())


def _transposed(view: View | None, operation: Operation) -> View | None:
    """Return how a result is brought to the canonical layout after its axes were exchanged."""
    if operation.kind != "transpose":
        return view
    permutation = [int(each) for each in operation.equation.params["permutation"]]
    before = view or View(tuple(range(len(permutation))))
    return View(tuple(map(permutation.index, before.axes)), before.sizes)


def find_layers(graph: Graph, leaves: list[tuple[str, Any]]) -> list[Entry]:
    """Return the layers in the order of execution; a parameter used otherwise is one alone."""
    reader = Reader(graph, leaves)
    finder = _Finder(reader)
    for number, operation in enumerate(graph.operations):
        finder.see(number, operation)
    used = {weight.number for entry in finder.found.values() for weight in entry.weights.values()}
    rest = [
        Entry(name, "other", {"weight": reader.weight(number)})
        for number, (name, _) in enumerate(leaves)
        if number not in used
    ]
    return sorted(finder.found.values(), key=lambda entry: entry.end) + rest


def _convolution(
    reader: Reader, number: int, operation: Operation, leaf: int, axes: tuple[int, ...]
) -> Entry:
    """Return a convolution, whose layouts are in its dimension numbers."""
    params = operation.equation.params
    layout = params["dimension_numbers"]
    return Entry(
        reader.name(leaf),
        "convolution",
        {"kernel": reader.weight(leaf, tuple(axes[each] for each in layout.rhs_spec))},
        number,
        number,
        {number: 0},
        View(tuple(layout.lhs_spec)),
        View(tuple(layout.out_spec)),
        {
            "padding": [list(map(int, pair)) for pair in params["padding"]],
            "stride": list(map(int, params["window_strides"])),
            "dilation": list(map(int, params["rhs_dilation"])),
            "groups": int(params["feature_group_count"]),
            "padding mode": "zeros",
        },
    )

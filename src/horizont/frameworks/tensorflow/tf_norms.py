"""Norms of a function of TensorFlow: one operation, or those of `tf.nn` or of an author for it.

`tf.nn.batch_normalization` computes x * inverse + (offset - mean * inverse), where the inverse is
scale / root(variance + epsilon); authors write scale * (x - mean) / root(variance + epsilon). It
imports nothing of Horizont.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .tf_entries import Entry, Reader
from .tf_graph import Leaf, Operation
from .tf_kernels import FUSED_NORMS

ADDITIONS = ("Add", "AddV2")


@dataclass(frozen=True)
class _Inverse:
    """One over the root of a variance and an epsilon, perhaps times a scale.

    The variance is a variable or computed, the epsilon the number of a constant.
    """

    variance: Leaf | None
    epsilon: int
    scale: Leaf | None = None


def uses_batch(operation: Operation) -> bool:
    """Whether an operation is a norm that computes statistics, and reads others to update them."""
    return operation.kind in FUSED_NORMS and bool(operation.node.get_attr("is_training"))


def _fused_settings(operation: Operation) -> dict[str, Any]:
    return {"epsilon": float(str(np.float32(operation.node.get_attr("epsilon"))))}


class NormFinder:
    """The search for norms in a list of operations."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        #: Variances with an epsilon, and their inverse roots.
        self._shifted: dict[Any, _Inverse] = {}
        self._inverses: dict[Any, _Inverse] = {}
        #: What is multiplied by an inverse: the operation, the operand, the inverse.
        self._products: dict[Any, tuple[int, int, _Inverse]] = {}
        #: Offsets less a mean times an inverse.
        self._rests: dict[Any, tuple[Leaf | None, Leaf | None]] = {}

    def see(self, number: int, operation: Operation) -> Entry | bool:
        """Return the norm that an operation completes, or whether it is a part of one."""
        if operation.kind in FUSED_NORMS:
            return self._fused(number, operation) or False
        if operation.kind in ADDITIONS:
            return self._addition(number, operation)
        if operation.kind == "Rsqrt" and operation.operands[0] in self._shifted:
            self._inverses[operation.results[0]] = self._shifted[operation.operands[0]]
            return True
        if operation.kind == "Mul":
            return self._multiplication(number, operation)
        if operation.kind in ("Sub", "Neg") and operation.operands[-1] in self._products:
            mean = self.reader.vector(self._factor(operation.operands[-1]))
            is_offset = operation.kind == "Sub"
            offset = self.reader.vector(operation.operands[0]) if is_offset else None
            self._rests[operation.results[0]] = (offset, mean)
            return True
        return False

    def _factor(self, product: Any) -> Any:
        number, place, _ = self._products[product]
        return self.reader.operations[number].operands[place]

    def _addition(self, number: int, operation: Operation) -> Entry | bool:
        for place in (0, 1):
            one, other = operation.operands[place], operation.operands[1 - place]
            if one in self._products and other in self._rests:
                return self._completed(number, one, other) or True
            value = self.reader.constant(one)
            if value is not None and value.size == 1:
                epsilon = self.reader.writer(one)
                assert epsilon is not None
                self._shifted[operation.results[0]] = _Inverse(self.reader.vector(other), epsilon)
        return False

    def _multiplication(self, number: int, operation: Operation) -> bool:
        for place in (0, 1):
            inverse = self._inverses.get(operation.operands[place])
            if inverse is None:
                continue
            leaf = self.reader.vector(operation.operands[1 - place])
            if leaf is not None and inverse.scale is None and not self._is_mean(leaf, inverse):
                self._inverses[operation.results[0]] = replace(inverse, scale=leaf)
            else:
                self._products[operation.results[0]] = (number, 1 - place, inverse)
            return True
        return False

    def _is_mean(self, leaf: Leaf, inverse: _Inverse) -> bool:
        """Whether a variable is a running mean, which is trained as little as a variance."""
        return inverse.variance is not None and not self.reader.variables[leaf.number].trainable

    def _completed(self, number: int, product: Any, rest: Any) -> Entry | None:
        """Return the norm of `tf.nn.batch_normalization`."""
        start, place, inverse = self._products[product]
        offset, mean = self._rests[rest]
        roles = {"scale": inverse.scale, "offset": offset}
        if inverse.variance is not None:
            roles |= {"mean": mean, "variance": inverse.variance}
        entry = self._entry(roles, number, inverse)
        if entry is not None and inverse.variance is not None:
            entry.start, entry.input = start, place  # moments would be those of another input
        return entry

    def _entry(self, roles: dict[str, Leaf | None], end: int, inverse: _Inverse) -> Entry | None:
        known = {role: leaf for role, leaf in roles.items() if leaf is not None}
        if not known:
            return None
        value = self.reader.constant(self.reader.operations[inverse.epsilon].results[0])
        return Entry(
            self.reader.name(next(iter(known.values()))),
            "layer norm" if inverse.variance is None else "batch norm",
            {role: self.reader.weight(leaf) for role, leaf in known.items()},
            end, end, None, inverse.variance is not None,
            {"epsilon": float(str(np.float32(value.flat[0])))}, inverse.epsilon,
        )  # fmt: skip

    def _fused(self, number: int, operation: Operation) -> Entry | None:
        """Return a batch norm that is one operation."""
        roles = ("scale", "offset", "mean", "variance")
        leaves = {
            role: leaf
            for role, operand in zip(roles, operation.operands[1:5], strict=True)
            if (leaf := self.reader.vector(operand)) is not None
        }
        if not leaves:
            return None
        node = operation.node
        return Entry(
            self.reader.name(next(iter(leaves.values()))),
            "batch norm",
            {role: self.reader.weight(leaf) for role, leaf in leaves.items()},
            number, number, 0, node.get_attr("data_format") == b"NHWC",
            _fused_settings(operation),
        )  # fmt: skip

    def scaled(self, number: int, leaf: Leaf, operand: Any) -> Entry | None:
        """Return the norm that ends with a scale of what an author has normalised."""
        roles: dict[str, Leaf | None] = {"scale": leaf}
        mean: Leaf | None = None
        inverse, centered = self._normalised(operand)
        if inverse is None:
            return self._scaled_fused(number, leaf, operand)
        centering = self.reader.operation(centered, ("Sub",))
        if centering is not None:
            mean = self.reader.vector(centering.operands[1])
        if inverse.variance is None or mean is None:
            inverse = replace(inverse, variance=None)
        else:
            roles |= {"mean": mean, "variance": inverse.variance}
        entry = self._entry(roles, number, inverse)
        assert entry is not None
        if inverse.variance is not None:
            start = self.reader.writer(centered)
            assert start is not None
            entry.start, entry.input = start, 0
        return entry

    def _scaled_fused(self, number: int, leaf: Leaf, operand: Any) -> Entry | None:
        """Return the layer norm that is a batch norm whose channels are the examples."""
        shaped = self.reader.operation(operand, ("Reshape",))
        start = self.reader.writer(operand if shaped is None else shaped.operands[0])
        if start is None or self.reader.operations[start].kind not in FUSED_NORMS:
            return None
        return Entry(
            self.reader.name(leaf), "layer norm", {"scale": self.reader.weight(leaf)},
            start, number, settings=_fused_settings(self.reader.operations[start]),
        )  # fmt: skip

    def _normalised(self, operand: Any) -> tuple[_Inverse | None, Any]:
        """Return by which inverse a value was divided or multiplied, and what the value was."""
        if operand in self._products:
            return self._products[operand][2], self._factor(operand)
        if (division := self.reader.operation(operand, ("RealDiv", "Div"))) is not None:
            root = self.reader.operation(division.operands[1], ("Sqrt",))
            if root is not None:
                return self._shifted.get(root.operands[0]), division.operands[0]
        return None, None

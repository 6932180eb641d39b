"""Norms of a function of JAX: found in its operations, whoever has written them.

Something is divided by the root of a variance and an epsilon, or multiplied by its inverse; the
scale is a factor of the inverse, as in Flax and Haiku, or of the result. It imports nothing of
Horizont.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jax.extend.core import Literal

from .jax_operations import STATISTICS, Entry, Operation, Reader, View

#: Operations that change the type of a value alone.
_TYPES = ("convert_element_type", "copy")

#: Operations between a quotient and its scale, or offset, which may be one of groups of channels.
_AFTER = ("reshape", *_TYPES)


@dataclass(frozen=True)
class _Root:
    """The root of a variance and an epsilon, or one over it, perhaps times a scale.

    The variance is a variable or computed; the epsilon is an operation and one of its operands.
    """

    variance: int | None
    epsilon: tuple[int, int]
    scale: int | None = None


@dataclass(frozen=True)
class _Quotient:
    """Something that was divided by a root: its number, the operand, and the root."""

    number: int
    operand: Any
    root: _Root


class NormFinder:
    """The search for norms in a list of operations."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self._shifted: dict[Any, _Root] = {}
        self._roots: dict[Any, _Root] = {}
        self._inverses: dict[Any, _Root] = {}
        self._quotients: dict[Any, _Quotient] = {}

    def see(self, number: int, operation: Operation) -> Entry | bool:
        """Return the norm that an operation completes, or whether it is a part of one."""
        operands, result = operation.operands, operation.results[0]
        if operation.kind in ("add", "add_any"):
            return self._addition(number, operation)
        if operation.kind in ("rsqrt", "sqrt", "pow"):
            root = self._shifted.get(self.reader.before(operands[0]))
            if root is not None:
                found = self._roots if operation.kind == "sqrt" else self._inverses
                found[result] = root
            return root is not None
        if operation.kind == "mul":
            return self._multiplication(number, operation)
        if operation.kind == "div":
            root = self._roots.get(self.reader.before(operands[1]))
            if root is not None and isinstance(operands[0], Literal):
                self._inverses[result] = root
                return True
            if root is not None:
                return self._quotient(number, result, operands[0], root)
        return False

    def _addition(self, number: int, operation: Operation) -> Entry | bool:
        for place in (0, 1):
            one, other = operation.operands[place], operation.operands[1 - place]
            quotient = self._quotients.get(self.reader.before(one, _AFTER))
            if quotient is not None and (offset := self.reader.vector(other)) is not None:
                return self._entry(number, quotient, None, offset)
            if isinstance(one, Literal) and np.ndim(one.val) == 0:
                variance = self.reader.vector(other)
                self._shifted[operation.results[0]] = _Root(variance, (number, place))
        return False

    def _shape(self, number: int) -> tuple[int, ...]:
        return tuple(self.reader.operations[number].equation.outvars[0].aval.shape)

    def _multiplication(self, number: int, operation: Operation) -> Entry | bool:
        for place in (0, 1):
            one, other = operation.operands[place], operation.operands[1 - place]
            leaf = self.reader.vector(other)
            inverse = self._inverses.get(self.reader.before(one))
            if inverse is not None:
                if leaf is not None and inverse.scale is None:
                    self._inverses[operation.results[0]] = replace(inverse, scale=leaf)
                    return True
                return self._quotient(number, operation.results[0], other, inverse)
            quotient = self._quotients.get(self.reader.before(one, _AFTER))
            if quotient is not None and leaf is not None:
                return self._entry(number, quotient, leaf, None)
        return False

    def _quotient(self, number: int, result: Any, operand: Any, root: _Root) -> Entry | bool:
        quotient = _Quotient(number, operand, root)
        if root.scale is not None:
            return self._entry(number, quotient, root.scale, None)
        self._quotients[result] = quotient
        return True

    def _entry(self, end: int, quotient: _Quotient, scale: int | None, offset: int | None) -> Entry:
        """Return the norm that has divided something and has a scale or an offset."""
        root, value, mean = quotient.root, self.reader.before(quotient.operand, _TYPES), None
        writer = self.reader.writer(value)
        if writer >= 0 and self.reader.operations[writer].kind == "sub":
            centering = self.reader.operations[writer]
            value, mean = centering.operands[0], self.reader.vector(centering.operands[1])
        is_running = root.variance is not None and mean is not None
        roles = {"scale": scale, "offset": offset}
        if is_running:
            roles |= dict(zip(STATISTICS, (mean, root.variance), strict=True))
        known = {role: leaf for role, leaf in roles.items() if leaf is not None}
        epsilon = self.reader.operations[root.epsilon[0]].operands[root.epsilon[1]].val
        rank, of_variance = len(self._shape(end)), self._shape(root.epsilon[0])
        if len(of_variance) != rank:  # of groups of channels, as axes of their own
            value = self.reader.before(value, _AFTER)
        is_group = not is_running and (len(of_variance) != rank or of_variance[-1] > 1)
        reads = self.reader.readers(value, quotient.number)
        view = None
        if rank > 2 and (is_group or (is_running and of_variance[-1] > 1)):
            view = View((0, rank - 1, *range(1, rank - 1)))
        return Entry(
            self.reader.name(next(iter(known.values()))),
            "batch norm" if is_running else "group norm" if is_group else "layer norm",
            {role: self.reader.weight(leaf) for role, leaf in known.items()},
            min(reads, default=-1),
            end,
            reads,
            view,
            view,
            {"epsilon": float(str(np.float32(epsilon)))},
            root.epsilon,
        )

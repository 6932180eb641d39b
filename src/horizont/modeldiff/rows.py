"""Sequences of rows of an output and of parameters, written with the operations of any framework.

See :mod:`horizont.modeldiff.functions` for the operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

#: What the names of parameters begin with that belong to no layer.
PARAMETER = "parameter|"


def parameters_alone(entries: Iterable[Any], leaves: Sequence[Any]) -> dict[str, Any]:
    """Return the variables of entries without an operation at their end, by prefixed names."""
    return {
        f"{PARAMETER}{entry.name}": leaves[weight.number]
        for entry in entries
        if entry.end < 0
        for weight in entry.weights.values()
    }


def sequence_of(m: Any, rows: Mapping[str, Any], live: Mapping[str, Any]) -> Any:
    """Return sequences, (examples, steps, features), as vision transformers put them together.

    Parameters
    ----------
    rows
        ``from``, the name of an output, an image or a sequence; its ``factor``; ``at``, which of
        its steps each step of the sequence is, -1 if it is none; ``plus``, likewise the rows of
        parameters by their names, which are added.
    """
    value = steps_of(m, live[rows["from"]])
    features = value.shape[2]
    value = rows["factor"] * m.linear(value, _places(rows["at"], value.shape[1]), 1)
    for name, at in rows["plus"].items():
        table = live[PARAMETER + name]
        count = int(np.prod(tuple(table.shape))) // features
        table = m.linear(m.reshape(table, (count, features)), _places(at, count), 0)
        value = value + m.reshape(table, (1, len(at), features))
    return value


def steps_of(m: Any, value: Any) -> Any:
    """Return an output as sequences: the places of an image row by row, or one step."""
    if len(value.shape) == 2:
        return m.reshape(value, (value.shape[0], 1, value.shape[1]))
    if len(value.shape) == 3:
        return value
    space = [*m.spatial(value)]
    (channels,) = {*range(1, len(value.shape))} - {*space}
    count = int(np.prod([value.shape[axis] for axis in space]))
    if channels == 1:
        return m.swapaxes(m.reshape(value, (*value.shape[:2], count)), 1, 2)
    return m.reshape(value, (value.shape[0], count, value.shape[channels]))


def _places(at: Sequence[int], count: int) -> Any:
    """Return the matrix that multiplies as many rows to put them in their places."""
    matrix = np.zeros((count, len(at)))
    for step, row in enumerate(at):
        if row >= 0:
            matrix[row, step] = 1.0
    return matrix

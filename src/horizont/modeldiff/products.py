"""Products of two tensors, one of them after a function: the gates of gated linear units.

Both may be outputs of layers, or the halves of one output.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Any

import numpy as np

from horizont.modeldiff.functions import FUNCTIONS, Function
from horizont.modeldiff.glue import Glue, glue_candidate
from horizont.modeldiff.identification import (
    IDENTITY_BOUND,
    ArrayNamespace,
    Part,
    largest,
    output_parts,
)
from horizont.modeldiff.recording import Array
from horizont.modeldiff.repairs import UNKNOWN, Candidate

#: How many elements exclude most functions.
_FEW = 64


def product(glue: Glue) -> Candidate | None:
    """Find a product whose function is applied to the other factor, or is another one."""
    parts = _parts(glue.outputs, glue.b)
    theirs = _identified(parts, glue.b)
    if theirs is None:
        return None
    own = _identified(parts, glue.a)
    change = {"product": theirs}
    if own is None:
        value_b = f"{theirs['function']} of {_shown(theirs)}"
        return glue_candidate(glue, "product", UNKNOWN, value_b, change)
    if own["function"] != theirs["function"]:
        names = own["function"], theirs["function"]
        return glue_candidate(glue, "activation in a product", *names, change)
    return glue_candidate(
        glue, f"argument of {own['function']} in a product", _shown(own), _shown(theirs), change
    )


def _parts(outputs: Mapping[str, Array], target: Array) -> dict[Part, Array]:
    """Return the outputs with the shape of an array, and the halves of those twice as wide."""
    counts = (1, 2) if target.ndim < 4 else (1,)  # the last axis of an image is one of space
    parts = output_parts(outputs, target.shape[-1], counts)
    return {source: part for source, part in parts if part.shape == target.shape}


def _identified(parts: Mapping[Part, Array], target: Array) -> dict[str, Any] | None:
    """Return the function, its argument and the factor that give an array; None if none do."""
    few = [slice(None, None, max(target.size // _FEW, 1)), slice(None)]
    limit = IDENTITY_BOUND * largest(target)
    for (one, first), (other, second) in permutations(parts.items(), 2):
        arrays = [each.reshape(-1) for each in (first, second, target)]
        for name, function in FUNCTIONS.items():
            if all(_distance(function, *(each[part] for each in arrays)) <= limit for part in few):
                return {"function": name, "argument": list(one), "factor": list(other)}
    return None


def _distance(function: Function, x: Array, y: Array, z: Array) -> float:
    with np.errstate(all="ignore"):
        return float(np.max(np.abs(function(ArrayNamespace, x) * y - z)))


def _shown(found: Mapping[str, Any]) -> str:
    """Name the argument of the function."""
    name, number, count = found["argument"]
    return f"the {('first', 'second')[number]} half of {name}" if count == 2 else str(name)

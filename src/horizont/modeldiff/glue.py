"""What two models compute between their layers, as far as it was recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from horizont.modeldiff.common_shapes import same_examples, unpadded, without_zeros
from horizont.modeldiff.identification import IDENTITY_BOUND, largest
from horizont.modeldiff.pairing import Pair, flattened
from horizont.modeldiff.recording import Array, Recording, Repair
from horizont.modeldiff.repairs import Candidate

#: The parts of what lies between two layers, and how a candidate calls them.
PARTS = {
    "function": "activation",
    "pool": "pooling",
    "size": "size of pooling",
    "stride": "stride of pooling",
    "padding": "padding of pooling",
    "counted": "zeros in the mean of pooling",
    "resize": "interpolation",
    "times larger": "factor of interpolation",
    "unflatten": "order of features that become images",
    "sizes": "sizes of features that become images",
    "steps": "reduction of steps",
    "flatten": "order of flattened features",
}


#: What differs if a side computes what no rule identifies: none of its parts is known to differ.
BETWEEN = "what is between layers"

#: Parts of others, which say nothing if one side has no such other one.
_OF_PARTS = {
    **dict.fromkeys(("size", "stride", "padding", "counted"), "pool"),
    "times larger": "resize",
    "sizes": "unflatten",
}


#: How many layers before one are searched for what its input is computed from.
_REACH = 10

#: With fewer, functions of other elements may look like one of each.
_LEAST_ELEMENTS = 100

#: The axis of features or channels, of an array with so many axes.
FEATURE_AXIS = {2: 1, 3: 2, 4: 1}


@dataclass(frozen=True)
class Glue:
    """What both sides compute between layers from the same outputs, up to one input.

    Attributes
    ----------
    outputs
        Outputs of the layers before, the last one first, by their names on side A.
    inputs
        Inputs of these layers on side B, as ``input|name``.
    inputs_a
        The same of side A.
    parameters
        What belongs to no layer, by names on side A; both sides have the same.
    zeros
        What side A pads its input with before and after each axis of space, which is not in `a`.
    """

    layer: str
    outputs: dict[str, Array]
    a: Array
    b: Array
    inputs: dict[str, Array] = field(default_factory=dict)
    inputs_a: dict[str, Array] = field(default_factory=dict)
    zeros: list[list[int]] = field(default_factory=list)
    parameters: dict[str, Array] = field(default_factory=dict)

    @property
    def sources(self) -> dict[str, Array]:
        """Outputs and inputs of the layers before, as side B has them."""
        return {**self.outputs, **self.inputs}

    @property
    def sources_a(self) -> dict[str, Array]:
        """The same of side A."""
        return {**self.outputs, **self.inputs_a}


def glue_before(
    pairs: Sequence[Pair], number: int, a: Recording, b: Recording, weights: Mapping[str, Array]
) -> Glue:
    """Return what both sides compute before a layer; after the last one, before the result.

    Parameters
    ----------
    weights
        The weights of both sides by their names on side A.
    """
    outputs, inputs, inputs_a = {}, {}, {}
    for before in reversed(pairs[max(number - _REACH, 0) : number]):
        name, own = f"output|{before.b.name}", f"output|{before.a.name}"
        if name in b and own in a:
            outputs[before.a.name] = all_steps(a[own], b[name])
        name, own = f"input|{before.b.name}", f"input|{before.a.name}"
        if name in b and own in a:
            inputs[own], inputs_a[own] = b[name], a[own]
    if number == len(pairs):
        return Glue("", outputs, a["result"], b["result"], inputs, inputs_a)
    pair = pairs[number]
    one, other = a[f"input|{pair.a.name}"], b[f"input|{pair.b.name}"]
    one, other, (zeros, _) = unpadded(pair, *same_examples(one, flattened(other, one)))
    sizes = {each.shape[2:] for each in outputs.values()}
    if pair.a.kind == "convolution" and not (np.any(zeros) or one.shape[2:] in sizes):
        one, other, zeros = without_zeros(one, other)
    alone = [each for each in pairs if f"output|{each.a.name}" not in a]
    parameters = {
        each.a.name: weights[f"{each.a.name}|{role}"]
        for each in alone
        if len(each.shared_roles) == 1
        for role, _ in each.shared_roles
    }
    return Glue(pair.a.name, outputs, one, other, inputs, inputs_a, zeros, parameters)


def glue_candidate(glue: Glue, what: str, a: str, b: str, value: dict[str, Any]) -> Candidate:
    """Return a candidate that changes the input of the layer."""
    return Candidate(what, a, b, (glue.layer,), (glue_repair(glue, value),))


def change_of_pair(found: dict[str, Any], first: str, second: str) -> dict[str, Any]:
    """Return a change for `repaired` from a function of two tensors, with their names."""
    named: dict[str, Any] = {key: second for key in ("plus", "times") if key in found}
    return {**found, **named, "from": first}


def glue_repair(glue: Glue, value: dict[str, Any]) -> Repair:
    """Return a repair that changes the input of the layer."""
    zeros = {"zeros": glue.zeros} if np.any(glue.zeros) else {}
    return Repair(glue.layer, "input", {**value, **zeros})


def differing_parts(own: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """List the parts in which two functions differ, of which one side may have no such part."""
    return [
        key
        for key in PARTS
        if own.get(key) != theirs.get(key)
        and ((whole := _OF_PARTS.get(key, key)) == key or (whole in own and whole in theirs))
    ]


def may_be_elementwise(x: Array, y: Array) -> bool:
    """Whether one array may be a function of each element of another one.

    Sorted by x, such a y rises and falls a few times; of what depends on other elements, too, it
    rises and falls from each element to the next. Nothing is known of images of other sizes, as
    after another padding.
    """
    if x.shape != y.shape:
        return x.ndim == y.ndim
    if x.size < _LEAST_ELEMENTS:
        return False
    changes = np.abs(np.diff(y.ravel()[np.argsort(x, axis=None)]))
    return bool(changes.sum() <= 2 * (y.max() - y.min()))


def all_steps(own: Array, theirs: Array) -> Array:
    """Return an output of side B; that of side A, if side B has only the last one of its steps."""
    is_last = own.ndim == 3 and own[:, -1].shape == theirs.shape and is_close(own[:, -1], theirs)
    return own if is_last else theirs


def is_close(a: Array, b: Array) -> bool:
    """Whether two arrays of one shape are the same within rounding."""
    return float(np.max(np.abs(a - b), initial=0.0)) <= IDENTITY_BOUND * largest(b)

"""Which function each of two models applies between its layers. A rule is a function in `GLUE`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np

from horizont.modeldiff.attention import identify_attention
from horizont.modeldiff.concatenations import concatenation
from horizont.modeldiff.functions import (
    FUNCTIONS,
    RESULTS,
    ROUNDINGS,
    SINGLE,
    function_of,
    repaired,
)
from horizont.modeldiff.glue import (
    BETWEEN,
    PARTS,
    Glue,
    change_of_pair,
    differing_parts,
    glue_candidate,
    glue_repair,
    is_close,
    may_be_elementwise,
)
from horizont.modeldiff.identification import (
    IDENTITY_BOUND,
    ArrayNamespace,
    identify,
    identify_pair,
    identity_bound,
)
from horizont.modeldiff.orders import channel_order, feature_order, flatten_order
from horizont.modeldiff.pairing import Pair
from horizont.modeldiff.products import product
from horizont.modeldiff.recording import Array, Recording, Repair
from horizont.modeldiff.repairs import (
    SINGLE_ROUNDING,
    UNKNOWN,
    Candidate,
    both_shown,
    is_rounding,
)
from horizont.modeldiff.rotations import described
from horizont.modeldiff.row_rules import sequence_rows
from horizont.modeldiff.step_weights import weighted_steps
from horizont.modeldiff.summands import linear_difference

GlueRule = Callable[[Glue], Candidate | None]


#: Through two numbers there is always a line.
_LEAST_NUMBERS = 5

#: How the place of an axis is called in a message.
_AXIS = {"first": "channels first", "last": "channels last"}


def chain(glue: Glue) -> Candidate | None:
    """Find an activation, with pooling and flattening after it: ReLU6, or the other GELU.

    A branch may start with it, so that it is applied to the input of another layer.
    """
    on_a = glue.sources_a
    for name, source in glue.sources.items():
        theirs = identify(source, glue.b, identity_bound(glue.b))
        if theirs is None or (name in glue.inputs and theirs == {"function": "none"}):
            continue
        own = identify(on_a[name], glue.a, identity_bound(glue.a))
        if own and own["function"] != theirs["function"]:
            # The maximum after ReLU is the maximum, if it is positive.
            as_theirs = _identify_with(theirs, on_a[name], glue.a)
            theirs = theirs if as_theirs else _identify_with(own, source, glue.b) or theirs
            own = as_theirs or own
        if own == theirs:  # which one side computes in single precision
            return None
        if own is None and (summand := _summand(glue, name)):
            return glue_candidate(glue, "summand", summand, "none", {"from": name, **theirs})
        if own is None and (scaled := scaled_input(glue)):
            return scaled
        if own is None and [*theirs] == ["function"] and may_be_elementwise(on_a[name], glue.a):
            own = {**theirs, "function": UNKNOWN}
        parts = differing_parts(own or {}, theirs)
        both = {key: PARTS[key] for key in parts}, own, theirs
        found = _differing(glue, *both, {"from": name, **theirs})
        one, other = (each.removesuffix(SINGLE) for each in (found.value_a, found.value_b))
        return replace(found, of_framework=parts == ["function"] and one == other)
    return None


def _identify_with(other: dict[str, Any], x: Array, y: Array) -> dict[str, Any] | None:
    """Find what maps one array to another with the function of the other side; None if nothing."""
    name = other["function"]
    found = identify(x, y, identity_bound(y), {name: function_of(name)})
    return found if found and found["function"] == name else None


def _summand(glue: Glue, name: str) -> str:
    """Return what side A adds to an output or input of a layer; empty if it adds nothing."""
    sources = glue.sources_a
    for other, array in sources.items():
        found = identify_pair(sources[name], array, glue.a, IDENTITY_BOUND)
        if other != name and found is not None and "plus" in found:
            return _source(other)
    return ""


def _source(name: str) -> str:
    """Name an output, or an input, of a layer."""
    kind, _, layer = name.rpartition("|")
    return f"{kind or 'output'} of {layer}"


def rounded_input(glue: Glue) -> Candidate | None:
    """Find an input that is rounded to a type with 16 bits."""
    if glue.a.shape != glue.b.shape or not np.issubdtype(glue.a.dtype, np.floating):
        return None
    for name in ROUNDINGS:
        change = {"function": name}
        if np.array_equal(repaired(ArrayNamespace, glue.a, change, {}), glue.b):
            return glue_candidate(glue, "precision of an input", "whole", name, change)
    return None


def scaled_input(glue: Glue) -> Candidate | None:
    """Find a linear function between the inputs, of all numbers or of each channel of an image.

    Pixels from 0 to 1 against -1 to 1, or without the mean and deviation of their channel.
    """
    if glue.a.shape != glue.b.shape:
        return None
    if np.issubdtype(glue.a.dtype, np.integer):
        return _offset(glue) if glue.a.size > 2 else None
    scale, shift = _line(glue.a.ravel(), glue.b.ravel())
    value: dict[str, Any] = {"scale": scale, "shift": shift}
    shown_b = _shown_line(scale, shift)
    if (not scale or not is_close(scale * glue.a + shift, glue.b)) and glue.a.ndim == 4:
        channels = zip(*(np.moveaxis(each, 1, 0) for each in (glue.a, glue.b)), strict=True)
        lines = [_line(x.ravel(), y.ravel()) for x, y in channels]
        scale, shift = np.array(lines).T.reshape(2, 1, -1, 1, 1)
        value = {"scales": scale.ravel().tolist(), "shifts": shift.ravel().tolist(), "axis": 1}
        shown_b = f"{_shown_line(scale.flat[0], shift.flat[0])} and others by channel"
    if not np.all(scale) or not is_close(scale * glue.a + shift, glue.b):
        return None
    found = glue_candidate(glue, "scale of an input", "x", shown_b, value)
    # The same scale, which one framework has rounded to single precision.
    return replace(found, of_framework=bool(np.all(np.abs(scale - 1.0) < SINGLE_ROUNDING)))


def _offset(glue: Glue) -> Candidate | None:
    """Find indices, of positions for example, that start elsewhere."""
    offset = int(glue.b.flat[0] - glue.a.flat[0])
    if not np.array_equal(glue.a + offset, glue.b):
        return None
    value: dict[str, Any] = {"scale": 1, "shift": offset}
    return glue_candidate(glue, "offset of indices", "i", _shown_line(1, offset, "i"), value)


def _shown_line(scale: float, shift: float, x: str = "x") -> str:
    digits = 9 if abs(scale - 1.0) < SINGLE_ROUNDING else 6
    factor = "" if scale == 1 else f"{scale:.{digits}g} "
    is_shifted = abs(shift) > IDENTITY_BOUND * abs(scale)
    summand = f" {'-' if shift < 0 else '+'} {abs(shift):.6g}" if is_shifted else ""
    return f"{factor}{x}{summand}"


def _line(x: Array, y: Array) -> tuple[Any, Any]:
    """Return scale and shift from the smallest and the largest number; scale 0 if unknown."""
    i, j = int(x.argmin()), int(x.argmax())
    if x.size < _LEAST_NUMBERS or not x[j] > x[i]:
        return 0.0, 0.0
    scale = float((y[j] - y[i]) / (x[j] - x[i]))
    return scale, float(y[i] - scale * x[i])


def combination(glue: Glue) -> Candidate | None:
    """Find a function of two tensors: an activation after a sum, or a gate of channels.

    One summand is often the input of an earlier layer, around which a model has a connection.
    """
    sources, on_a = glue.sources, glue.sources_a
    for first, second in permutations(sources, 2):
        x, y = sources[first], sources[second]
        theirs = identify_pair(x, y, glue.b, IDENTITY_BOUND)
        if theirs is None:
            continue
        own = identify_pair(on_a[first], on_a[second], glue.a, IDENTITY_BOUND)
        if own:  # the maximum after ReLU is the maximum, if it is positive
            theirs = identify_pair(x, y, glue.b, IDENTITY_BOUND, [own["function"]]) or theirs
        mine = own or {}
        parts = [key for key in _JOINED if key in theirs and mine.get(key) != theirs[key]]
        change = change_of_pair(theirs, first, second)
        for alone, missing in ((first, second), (second, first)) if own is None else ():
            if "plus" in change and identify(on_a[alone], glue.a, IDENTITY_BOUND):
                return glue_candidate(glue, "summand", "none", _source(missing), change)
        if not parts:  # the difference is one of a summand
            arises = [name.removeprefix("input|") for name in (first, second) if "|" in name]
            repairs = (glue_repair(glue, change),)
            return Candidate("", "", "", (), repairs, follows=arises[0] if arises else "")
        return _differing(glue, {key: _JOINED[key] for key in parts}, own, theirs, change)
    return None


#: What is done with two tensors, and how a candidate calls it.
_JOINED = {
    "function": "activation after a sum or before a product",
    "factor": "factor of a summand",
    "gate": "function of a gate",
    "pool": "pooling",
    "steps": "reduction of steps",
}


def attention(glue: Glue) -> Candidate | None:
    """Find attention with another scale, mask or number of heads."""
    change = identify_attention(glue.outputs, glue.b, IDENTITY_BOUND)
    if change is None:
        return None
    own = described(identify_attention(glue.outputs, glue.a, IDENTITY_BOUND))
    theirs = described(change)
    names = {
        k: name
        for k, name in _ATTENTION.items()
        if own.get(k) != theirs.get(k) and (k not in _OF_ROTATION or (k in own and k in theirs))
    }
    if not names:
        names = {"frequencies": "frequencies of the rotary embedding"}
    found = _differing(glue, names, own or None, theirs, {"attention": change})
    scale = own["scale"] if own and [*names] == ["scale"] else None
    is_precision = [*names] == ["precision"] or is_rounding(scale, theirs["scale"])
    return replace(found, of_framework=is_precision)


#: The settings of attention, and how a candidate calls them.
_ATTENTION = {
    "heads": "number of heads",
    "scale": "scale of attention",
    "mask": "mask of attention",
    "queries": "queries of attention",
    "keys": "keys of attention",
    "values": "values of attention",
    "groups": "groups of heads with the same keys and values",
    "group": "heads of a group",
    "rotation": "pairs of features in the rotary embedding",
    "rotated": "rotated features of a head",
    "base": "base of the rotary embedding",
    "precision": "precision of the rotary embedding",
}

#: What no side has without a rotation.
_OF_ROTATION = ("rotated", "precision")

GLUE: tuple[GlueRule, ...] = (
    rounded_input,
    chain,
    flatten_order,
    channel_order,
    scaled_input,
    combination,
    product,
    attention,
    concatenation,
    feature_order,
)


#: Rules for what no other one identifies on both sides.
_IF_UNKNOWN: tuple[GlueRule, ...] = (sequence_rows, linear_difference, weighted_steps)


def input_candidate(glue: Glue) -> Candidate | None:
    """Find what both sides compute before a layer, by the first rule that does."""
    found = next((each for rule in GLUE if (each := rule(glue))), None)
    if found is None or found.value_a == UNKNOWN:
        return next((each for rule in _IF_UNKNOWN if (each := rule(glue))), found)
    return found


def same_inputs(pairs: Sequence[Pair], a: Recording, b: Recording) -> dict[str, str]:
    """Return layers of side A that have the same input as an earlier one, which branches share."""
    found: dict[str, str] = {}
    earlier: list[Pair] = []
    for pair in pairs:
        names = f"input|{pair.a.name}", f"input|{pair.b.name}"
        if names[0] not in a or names[1] not in b:
            continue
        for other in earlier:
            others = a[f"input|{other.a.name}"], b[f"input|{other.b.name}"]
            if np.array_equal(others[0], a[names[0]]) and np.array_equal(others[1], b[names[1]]):
                found[pair.a.name] = other.a.name
                break
        else:
            earlier.append(pair)
    return found


def result_candidate(glue: Glue) -> Candidate | None:
    """Find what follows the last layer: nothing, softmax or another function."""
    for name, output in glue.outputs.items():
        every = {**RESULTS, **FUNCTIONS}
        theirs = identify(output, glue.b, IDENTITY_BOUND, every)
        if theirs is not None:
            own = identify(output, glue.a, IDENTITY_BOUND, every)
            repair = Repair("", "result", {"from": name, **theirs})
            mine = own["function"] if own else UNKNOWN
            return Candidate("function of the result", mine, theirs["function"], (), (repair,))
    return None


def _differing(
    glue: Glue,
    names: dict[str, str],
    own: dict[str, Any] | None,
    theirs: dict[str, Any],
    change: dict[str, Any],
) -> Candidate:
    """Return a candidate for the parts that differ, with their names and the values of both."""
    both = [
        [_AXIS.get(each, each) for each in both_shown((own or {}).get(key), theirs.get(key))]
        for key in names
    ]
    value_a, value_b = (", ".join(values) for values in zip(*both, strict=True))
    if own is None:
        named = [f"{other} ({name})" for name, (_, other) in zip(names.values(), both, strict=True)]
        return glue_candidate(glue, BETWEEN, UNKNOWN, ", ".join(named), change)
    return glue_candidate(glue, " and ".join(names.values()), value_a, value_b, change)

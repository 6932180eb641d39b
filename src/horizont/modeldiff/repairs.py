"""The catalogue of known differences between implementations, and what repairs each.

A repair changes side A to what side B does. It is a candidate where the sides differ in a setting,
or where recorded tensors show which function each side applies between two layers. Whether it is
a cause is decided by runs, see `search`.

Differences of settings have a line in `SETTINGS`; those between layers a function in `GLUE`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any

import numpy as np

from horizont.modeldiff.distances import unpadded
from horizont.modeldiff.functions import FUNCTIONS, RESULTS, SINGLE
from horizont.modeldiff.identification import identify, identify_pair
from horizont.modeldiff.pairing import Pair
from horizont.modeldiff.recording import Array, Recording, Repair

#: The largest relative difference at which a function is identified in float64.
IDENTITY_BOUND = 1e-12

#: A function that is none of the catalogue.
UNKNOWN = "another"


@dataclass(frozen=True)
class Candidate:
    """A difference between the sides with its repair, of one layer or of many.

    Attributes
    ----------
    what
        The setting or function that differs.
    layers
        Names of layers on side A.
    of_framework
        Whether a framework defines it, and no model chose it.
    is_training_only
        Whether it has no effect in evaluation.
    follows
        The layer from whose input the difference comes; empty if it arises here.

    Without repairs, side A cannot be changed so.
    """

    what: str
    value_a: str
    value_b: str
    layers: tuple[str, ...]
    repairs: tuple[Repair, ...]
    of_framework: bool = False
    is_training_only: bool = False
    follows: str = ""

    def __str__(self) -> str:
        first = self.layers[0] if self.layers else ""
        more = f" and {len(self.layers) - 1} more" if len(self.layers) > 1 else ""
        where = f" in {first}{more}" if first else ""
        return f"{self.what}: {self.value_a} against {self.value_b}{where}"


@dataclass(frozen=True)
class Setting:
    """A setting of a layer that implementations choose otherwise."""

    key: str
    what: str
    of_framework: bool = False
    is_training_only: bool = False


SETTINGS = (
    Setting("padding", "padding of a convolution"),
    Setting("stride", "stride of a convolution"),
    Setting("dilation", "dilation of a convolution"),
    Setting("epsilon", "epsilon of a norm"),
    Setting("momentum", "momentum of running statistics", is_training_only=True),
    Setting("variance correction", "correction of the running variance", True, True),
    Setting("biases", "biases of a recurrent layer", is_training_only=True),
    Setting("padding index", "row of an embedding without a gradient", is_training_only=True),
    Setting("frozen", "tensors that are not trained", is_training_only=True),
)
_BY_KEY = {setting.key: setting for setting in SETTINGS}


def setting_candidates(pairs: Sequence[Pair], a: Recording, b: Recording) -> list[Candidate]:
    """List the settings in which paired layers differ, layers with the same values together."""
    groups: dict[tuple[str, str], list[tuple[Pair, Any, Any]]] = {}
    for pair in pairs:
        for key in _BY_KEY:
            if key not in pair.a.settings or key not in pair.b.settings:
                continue
            one, other = pair.a.settings[key], pair.b.settings[key]
            if key == "padding":
                one, other = _whole_padding(pair, one, other, a, b)
            if key == "frozen":
                shared = {role for role, _ in pair.shared_roles}
                one, other = sorted(shared & set(one)), sorted(shared & set(other))
            if not _equal(one, other):
                # Paddings are one cause, whatever the sizes are.
                values = "" if key == "padding" else f"{shown(one)}|{shown(other)}"
                groups.setdefault((key, values), []).append((pair, one, other))
    return [
        Candidate(
            _BY_KEY[key].what,
            *both_shown(*found[0][1:]),
            tuple(pair.a.name for pair, _, _ in found),
            tuple(
                Repair(
                    pair.a.name,
                    key,
                    _own_padding(pair, other, a, b) if key == "padding" else other,
                )
                for pair, _, other in found
                if key not in pair.a.fixed
            ),
            _BY_KEY[key].of_framework,
            _BY_KEY[key].is_training_only,
        )
        for (key, _), found in groups.items()
    ]


def _equal(one: Any, other: Any) -> bool:
    """Whether two values of a setting are the same but for the rounding of a subtraction."""
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= 1e-12 * max(abs(one), abs(other))
    return bool(one == other)


def both_shown(one: Any, other: Any) -> tuple[str, str]:
    """Return two different values as different texts."""
    if isinstance(one, float) and isinstance(other, float) and shown(one) == shown(other):
        return f"{one:.9g}", f"{other:.9g}"
    return shown(one), shown(other)


def shown(value: Any) -> str:
    """Return a value as text: numbers short, zeros around an image as pairs."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list) and value and isinstance(value[0], list):
        pairs = [f"({', '.join(map(str, pair))})" for pair in value]
        return pairs[0] if len(set(pairs)) == 1 else " ".join(pairs)
    if isinstance(value, list) and value and isinstance(value[0], int):
        return str(tuple(value))
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _zeros(pair: Pair, a: Recording, b: Recording) -> list[list[list[int]]]:
    """Return the zeros that a layer before a convolution has added, of each side."""
    one, other = a.get(f"input|{pair.a.name}"), b.get(f"input|{pair.b.name}")
    if one is None or other is None:
        return [[[0, 0]] * 3] * 2
    return unpadded(pair, one, other)[2]


def _whole_padding(
    pair: Pair, one: list[list[int]], other: list[list[int]], a: Recording, b: Recording
) -> tuple[list[list[int]], list[list[int]]]:
    """Return the padding of each side with the zeros that a layer before it has added."""
    before_a, before_b = _zeros(pair, a, b)
    return _add(one, before_a), _add(other, before_b)


def _own_padding(pair: Pair, whole: list[list[int]], a: Recording, b: Recording) -> Any:
    """Return what the convolution of side A itself has to pad."""
    before, _ = _zeros(pair, a, b)
    return [
        [x - y for x, y in zip(*each, strict=True)] for each in zip(whole, before, strict=False)
    ]


def _add(one: list[list[int]], other: list[list[int]]) -> list[list[int]]:
    return [[x + y for x, y in zip(*each, strict=True)] for each in zip(one, other, strict=False)]


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
    """

    layer: str
    outputs: dict[str, Array]
    a: Array
    b: Array
    inputs: dict[str, Array] = field(default_factory=dict)
    inputs_a: dict[str, Array] = field(default_factory=dict)


GlueRule = Callable[[Glue], Candidate | None]


#: The parts of what lies between two layers, and how a candidate calls them.
_PARTS = {
    "function": "activation",
    "pool": "pooling",
    "size": "size of pooling",
    "stride": "stride of pooling",
    "padding": "padding of pooling",
    "counted": "zeros in the mean of pooling",
    "resize": "interpolation",
    "flatten": "order of flattened features",
}


def chain(glue: Glue) -> Candidate | None:
    """Find an activation, with pooling and flattening after it: ReLU6, or the other GELU."""
    for name, output in glue.outputs.items():
        theirs = identify(output, glue.b, IDENTITY_BOUND)
        if theirs is None:
            continue
        own = identify(output, glue.a, IDENTITY_BOUND)
        parts = [key for key in _PARTS if own is None or own.get(key) != theirs.get(key)]
        parts = [key for key in parts if key in theirs] or ["function"]
        what = " and ".join(_PARTS[key] for key in parts)
        mine = ", ".join(shown(own.get(key)) for key in parts) if own else UNKNOWN
        value = ", ".join(shown(theirs[key]) for key in parts)
        found = _candidate(glue, what, mine, value, {"from": name, **theirs})
        is_rounded = parts == ["function"] and mine.removesuffix(SINGLE) == value.removesuffix(
            SINGLE
        )
        return replace(found, of_framework=is_rounded)
    return None


def flatten_order(glue: Glue) -> Candidate | None:
    """Find features of an image that are flattened with channels last against channels first."""
    if glue.a.ndim != 2 or glue.a.shape != glue.b.shape:
        return None
    features = glue.a.shape[1]
    for output in glue.outputs.values():
        channels = output.shape[1]
        if output.ndim < 3 or features % channels or features == channels:
            continue
        order = np.arange(features).reshape(channels, -1)
        for permutation, names in (
            (order.T.ravel(), ("channels first", "channels last")),
            (order.reshape(-1, channels).T.ravel(), ("channels last", "channels first")),
        ):
            if _close(glue.a[:, permutation], glue.b):
                value = {"order": permutation.tolist(), "axis": 1}
                return _candidate(glue, "order of flattened features", *names, value)
    return None


def channel_order(glue: Glue) -> Candidate | None:
    """Find images whose channels are reversed: RGB against BGR."""
    if glue.a.ndim < 3 or glue.a.shape != glue.b.shape or glue.outputs:
        return None
    if not _close(glue.a[:, ::-1], glue.b):
        return None
    order = list(range(glue.a.shape[1]))[::-1]
    value = {"order": order, "axis": 1}
    return _candidate(glue, "order of channels", "given", "reversed", value)


def scaled_input(glue: Glue) -> Candidate | None:
    """Find a linear function between the inputs: pixels from 0 to 1 against -1 to 1."""
    if glue.a.shape != glue.b.shape or not np.issubdtype(glue.a.dtype, np.floating):
        return None
    x, y = glue.a.ravel(), glue.b.ravel()
    if x.size < 3 or not np.ptp(x) > 0:
        return None
    i, j = int(x.argmin()), int(x.argmax())
    scale = float((y[j] - y[i]) / (x[j] - x[i]))
    shift = float(y[i] - scale * x[i])
    if scale == 0 or not _close(scale * glue.a + shift, glue.b):
        return None
    value = {"scale": scale, "shift": shift}
    return _candidate(glue, "scale of an input", "x", f"{scale:.6g} x + {shift:.6g}", value)


def combination(glue: Glue) -> Candidate | None:
    """Find a function of two tensors: an activation after a sum, or a gate of channels.

    One summand is often the input of an earlier layer, around which a model has a connection.
    """
    sources = {**glue.outputs, **glue.inputs}
    for first, second in permutations(sources, 2):
        x, y = sources[first], sources[second]
        theirs = identify_pair(x, y, glue.b, IDENTITY_BOUND)
        if theirs is None:
            continue
        on_a = {**glue.outputs, **glue.inputs_a}
        own = identify_pair(on_a[first], on_a[second], glue.a, IDENTITY_BOUND)
        mine = own or {}
        parts = [key for key in _JOINED if key in theirs and mine.get(key) != theirs[key]]
        named: dict[str, Any] = {key: second for key in ("plus", "times") if key in theirs}
        change: dict[str, Any] = {**theirs, **named, "from": first}
        if not parts:  # the difference is one of a summand
            arises = [name.removeprefix("input|") for name in (first, second) if "|" in name]
            repairs = (Repair(glue.layer, "input", change),)
            return Candidate("", "", "", (), repairs, follows=arises[0] if arises else "")
        what = " and ".join(_JOINED[key] for key in parts)
        value_a = ", ".join(shown(own.get(key)) for key in parts) if own else UNKNOWN
        value_b = ", ".join(shown(theirs[key]) for key in parts)
        return _candidate(glue, what, value_a, value_b, change)
    return None


#: What is done with two tensors, and how a candidate calls it.
_JOINED = {
    "function": "activation after a sum or before a product",
    "factor": "factor of a summand",
    "gate": "function of a gate",
}

GLUE: tuple[GlueRule, ...] = (chain, flatten_order, channel_order, scaled_input, combination)


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
            mine = own["function"] if own else "another"
            return Candidate("function of the result", mine, theirs["function"], (), (repair,))
    return None


def merged(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return one candidate for all layers with the same difference."""
    groups: dict[tuple[str, str, str], list[Candidate]] = {}
    for each in candidates:
        groups.setdefault((each.what, each.value_a, each.value_b), []).append(each)
    return [
        replace(
            found[0],
            layers=tuple(layer for each in found for layer in each.layers),
            repairs=tuple(repair for each in found for repair in each.repairs),
        )
        for found in groups.values()
    ]


def _candidate(glue: Glue, what: str, a: str, b: str, value: dict[str, Any]) -> Candidate:
    return Candidate(what, a, b, (glue.layer,), (Repair(glue.layer, "input", value),))


def _close(a: Array, b: Array) -> bool:
    scale = max(float(np.max(np.abs(b), initial=0.0)), 1e-300)
    return float(np.max(np.abs(a - b), initial=0.0)) <= IDENTITY_BOUND * scale

"""The catalogue of known differences between implementations, and what repairs each.

A repair changes side A to what side B does. It is a candidate where the sides differ in a setting,
or where recorded tensors show which function each side applies between two layers. Whether it is
a cause is decided by runs, see `search`.

Differences of settings have a line in `SETTINGS`; those between layers a function in
:mod:`horizont.modeldiff.glue_rules`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from horizont.modeldiff.common_shapes import unpadded
from horizont.modeldiff.pairing import Pair
from horizont.modeldiff.recording import Recording, Repair

#: What a batch norm uses in training, unless it is frozen and uses the running statistics.
OF_BATCH = "of the batch"

#: Into how many parts a batch is divided, each of which a batch norm normalizes alone.
PARTS = "parts"

#: What differs if one side alone computes no gradient of a tensor, or does not apply it.
NOT_TRAINED = "tensors that are not trained"

#: A function that is none of the catalogue.
UNKNOWN = "not identified"


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


#: What numbers with the rounding of single precision differ by at most, relative to them.
SINGLE_ROUNDING = 1.2e-7


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
    Setting("cropping", "cropping of a transposed convolution"),
    Setting("padding mode", "padding mode of a convolution"),
    Setting("heads", "number of heads"),
    Setting("scale", "scale of attention"),
    Setting("mask", "mask of attention"),
    Setting("first axis", "first axis of sequences"),
    Setting("epsilon", "epsilon of a norm"),
    Setting("groups", "number of groups"),
    Setting("statistics", "statistics of a norm in training", is_training_only=True),
    Setting("statistics in evaluation", "statistics of a norm in evaluation"),
    Setting(PARTS, "parts of the batch in a norm", is_training_only=True),
    Setting("momentum", "momentum of running statistics", is_training_only=True),
    Setting("variance correction", "correction of the running variance", True, True),
    Setting("activation", "activation of a recurrent layer"),
    Setting("gates", "function of the gates of a recurrent layer"),
    Setting("initial state", "initial state of a recurrent layer"),
    Setting("reset gate", "reset gate of a GRU"),
    Setting("power iteration", "power iteration of a spectral norm", is_training_only=True),
    Setting("biases", "biases of a recurrent layer", is_training_only=True),
    Setting("padding index", "row of an embedding without a gradient", is_training_only=True),
    Setting("frozen", NOT_TRAINED, is_training_only=True),
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
            _BY_KEY[key].of_framework or is_rounding(*found[0][1:]),
            _BY_KEY[key].is_training_only,
        )
        for (key, _), found in groups.items()
    ]


def tied_candidates(pairs: Sequence[Pair]) -> list[Candidate]:
    """List the layers that share a tensor on one side alone; no run can change that."""
    groups: list[set[frozenset[int]]] = []
    for layers in ([pair.a for pair in pairs], [pair.b for pair in pairs]):
        if any("tied" not in layer.settings for layer in layers):
            return []
        numbers = {layer.name: number for number, layer in enumerate(layers)}
        tied = [
            frozenset(
                {number, *(numbers[name] for name in layer.settings["tied"] if name in numbers)}
            )
            for number, layer in enumerate(layers)
        ]
        groups.append({each for each in tied if len(each) > 1})
    both = ("one tensor", "separate tensors")
    return [
        Candidate(
            "weights",
            *(both if group in groups[0] else both[::-1]),
            tuple(pairs[number].a.name for number in sorted(group)),
            (),
        )
        for group in sorted(groups[0] ^ groups[1], key=min)
    ]


def _equal(one: Any, other: Any) -> bool:
    """Whether two values of a setting are the same but for the rounding of a subtraction."""
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= 1e-12 * max(abs(one), abs(other))
    return bool(one == other)


def is_rounding(one: Any, other: Any) -> bool:
    """Whether two numbers differ by the rounding of single precision, as constants may."""
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= SINGLE_ROUNDING * abs(other)
    return False


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


def repairs_of(candidates: Sequence[Candidate]) -> list[Repair]:
    """Return the repairs of some candidates."""
    return [repair for candidate in candidates for repair in candidate.repairs]

"""Pairs of layers of two models: by kind, by shape in the canonical form, and by order.

Where both execute the same layers in the same order, there is one way to pair them. Branches that
are executed in another order leave a choice among layers of equal shapes; such pairs are *ties*,
and a file lists them to be edited.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
import yaml

from horizont.errors import UserError
from horizont.modeldiff.attention_roles import with_equal_roles
from horizont.modeldiff.recording import Array, Layer

#: What a tensor holds that only one side has.
NEUTRAL = {"scale": 1.0, "variance": 1.0}
OPTIONAL = {"scale", "offset", "bias", "mean", "variance", "recurrent bias"}
STATISTICS = ("mean", "variance")

Signature = tuple[str, tuple[tuple[int, ...], ...]]

#: Kinds that may compute the same, in a model that defines one of them itself, or by its settings.
_NORMS = ("layer norm", "rms norm", "group norm", "instance norm", "other")

#: Settings that distinguish layers of equal shapes.
_DISTINGUISHING = ("stride", "dilation", "groups")


@dataclass(frozen=True)
class Pair:
    """A layer of each side."""

    a: Layer
    b: Layer
    is_tie: bool = False

    @property
    def shared_roles(self) -> list[tuple[str, str]]:
        """Tensors that both have, as roles of each side."""
        if "other" in (self.a.kind, self.b.kind):
            return list(zip(self._by_shape(self.a), self._by_shape(self.b), strict=True))
        return [(role, role) for role in self.a.shapes if role in self.b.shapes]

    @staticmethod
    def _by_shape(layer: Layer) -> list[str]:
        shapes = {role: _squeezed(shape) for role, shape in layer.shapes.items()}
        return sorted(shapes, key=lambda role: (len(shapes[role]), shapes[role]))


@dataclass(frozen=True)
class Pairing:
    """All pairs in the order of side A, and the layers that have no partner."""

    pairs: tuple[Pair, ...]
    only_a: tuple[Layer, ...] = ()
    only_b: tuple[Layer, ...] = ()

    @property
    def ties(self) -> list[Pair]:
        """Pairs that another choice could replace."""
        return [pair for pair in self.pairs if pair.is_tie]

    @property
    def alone_a(self) -> tuple[str, ...]:
        """Layers, and tensors of paired layers, that only side A has."""
        names = [layer.name for layer in self.only_a]
        for pair in self.pairs:
            shared = {role for role, _ in pair.shared_roles}
            names += [f"{pair.a.name} ({role})" for role in pair.a.shapes if role not in shared]
        return tuple(names)

    @property
    def alone_b(self) -> tuple[str, ...]:
        """Layers, and tensors of paired layers, that only side B has."""
        return self.swapped().alone_a

    def swapped(self) -> Pairing:
        """Return the pairs with the sides exchanged."""
        pairs = tuple(Pair(pair.b, pair.a, pair.is_tie) for pair in self.pairs)
        return Pairing(pairs, self.only_b, self.only_a)


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without axes of one element, of which only the layout decides."""
    return tuple(size for size in shape if size != 1)


def flattened(value: Array, like: Array) -> Array:
    """Return an array in the shape of another one, if they differ only in how axes are joined.

    As the image and the weights of a convolution as large as the image, and those of a matrix; or
    if one has no axis of examples, as positions, which are the same for all of them; or if one has
    the examples and their steps or patches on one axis, before that of the features.
    """
    value = _with_examples(value, like)
    if value.ndim == like.ndim or value.size != like.size or not (value.ndim and like.ndim):
        return value
    has_shared_axis = len(value) == len(like) or value.shape[-1] == like.shape[-1]
    return value.reshape(like.shape) if has_shared_axis else value


def _with_examples(value: Array, like: Array) -> Array:
    """Add an axis of examples, or remove that of examples that are all the same."""
    if like.ndim == value.ndim + 1 and value.ndim and value.shape == like.shape[1:]:
        return np.broadcast_to(value, like.shape)
    if value.ndim == like.ndim + 1 and like.ndim and value.shape[1:] == like.shape:
        return np.asarray(value[0]) if np.all(value == value[:1]) else value
    return value


def flat_signature(layer: Layer) -> Signature:
    """Return a signature in which a convolution is a matrix."""
    kernel = layer.shapes.get("kernel")
    if layer.kind in ("convolution", "dense") and kernel and layer.settings.get("groups", 1) == 1:
        return "matrix", ((kernel[0], math.prod(kernel[1:])),)
    return signature(layer)


def signature(layer: Layer) -> Signature:
    """Return what must be equal for two layers to be paired."""
    if layer.kind == "other":
        return layer.kind, tuple(sorted(map(_squeezed, layer.shapes.values())))
    needed = [shape for role, shape in sorted(layer.shapes.items()) if role not in OPTIONAL]
    return layer.kind, tuple(needed or [next(iter(layer.shapes.values()))])


def loose_signature(layer: Layer) -> Signature:
    """Return a signature in which a layer that a model defines itself may be any norm."""
    if layer.kind in _NORMS:
        return "norm", tuple(sorted(map(_squeezed, layer.shapes.values())))
    return signature(layer)


def full_signature(layer: Layer) -> Hashable:
    """Return a signature with settings, in which layers of equal shapes may differ."""
    return signature(layer), *(str(layer.settings.get(key)) for key in _DISTINGUISHING)


def have_same_order(a: Sequence[Layer], b: Sequence[Layer]) -> bool:
    """Whether both sides execute layers of the same kinds and shapes in the same order."""
    return [signature(each) for each in a] == [signature(each) for each in b]


def pair_layers(
    a: Sequence[Layer],
    b: Sequence[Layer],
    refined: Sequence[tuple[Sequence[Hashable], Sequence[Hashable]]] = (),
) -> Pairing:
    """Pair the layers of two sides, each in the order of execution.

    Parameters
    ----------
    refined
        Signatures of both sides that include connections, see `horizont.modeldiff.links`; those
        that are equal are paired first.
    """
    signs_a, signs_b = [signature(each) for each in a], [signature(each) for each in b]
    flat = [flat_signature(each) for each in a], [flat_signature(each) for each in b]
    loose = [loose_signature(each) for each in a], [loose_signature(each) for each in b]
    partner: dict[int, int] = {}
    if not refined and Counter(signs_a) != Counter(signs_b):
        for block in SequenceMatcher(None, signs_a, signs_b, autojunk=False).get_matching_blocks():
            partner.update({block.a + k: block.b + k for k in range(block.size)})
    ties: set[int] = set()
    for stage_a, stage_b in (*refined, (signs_a, signs_b), flat, loose):
        taken = set(partner.values())
        rest_a = [i for i in range(len(a)) if i not in partner]
        rest_b = [j for j in range(len(b)) if j not in taken]
        found = _by_occurrence([stage_a[i] for i in rest_a], [stage_b[j] for j in rest_b])
        counts = Counter(stage_a[i] for i in rest_a)
        ties |= {rest_a[i] for i in found if counts[stage_a[rest_a[i]]] > 1}
        partner.update({rest_a[i]: rest_b[j] for i, j in found.items()})
    partner, taken = with_equal_roles(partner, a, b), set(partner.values())
    is_same_order = signs_a == signs_b
    return Pairing(
        tuple(
            Pair(a[i], b[j], i in ties and not is_same_order) for i, j in sorted(partner.items())
        ),
        _alone(layer for i, layer in enumerate(a) if i not in partner),
        _alone(layer for j, layer in enumerate(b) if j not in taken),
    )


def _alone(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """Return layers that need a partner."""
    return tuple(layer for layer in layers if not layer.is_optional)


def _by_occurrence(a: Sequence[Hashable], b: Sequence[Hashable]) -> dict[int, int]:
    """Match the n-th of equal signatures of one side with the n-th of the other."""
    places: dict[Hashable, list[int]] = defaultdict(list)
    for j, sign in enumerate(b):
        places[sign].append(j)
    return {i: places[sign].pop(0) for i, sign in enumerate(a) if places[sign]}


def write_pairs(pairing: Pairing, path: Path) -> None:
    """Write the pairs to a file that can be edited and given back."""
    content = {
        "pairs": [[pair.a.name, pair.b.name] for pair in pairing.pairs],
        "ties": [[pair.a.name, pair.b.name] for pair in pairing.ties],
    }
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def read_pairs(path: Path, a: Sequence[Layer], b: Sequence[Layer]) -> Pairing:
    """Read pairs from a file.

    Raises
    ------
    UserError
        If it is not such a file, names other layers, or pairs layers of different shapes.
    """
    try:
        named = yaml.safe_load(path.read_text(encoding="utf-8"))["pairs"]
        rows = [(str(one), str(other)) for one, other in named]
    except (OSError, yaml.YAMLError, TypeError, KeyError, ValueError) as error:
        raise UserError("--pairs", str(path), "a file with `pairs`, a list of two names") from error
    by_a, by_b = {each.name: each for each in a}, {each.name: each for each in b}
    pairs = []
    for one, other in rows:
        if one not in by_a or other not in by_b:
            raise UserError("--pairs", f"{one}, {other}", "names of layers of the two sides")
        if flat_signature(by_a[one]) != flat_signature(by_b[other]):
            raise UserError("--pairs", f"{one}, {other}", "layers of one kind and shape")
        pairs.append(Pair(by_a[one], by_b[other]))
    return Pairing(
        tuple(pairs),
        _alone(each for each in a if each.name not in {one for one, _ in rows}),
        _alone(each for each in b if each.name not in {other for _, other in rows}),
    )


def transfer(
    pairing: Pairing, weights_b: Mapping[str, Array], own: Mapping[str, Array] | None = None
) -> dict[str, Array]:
    """Return weights of side B as weights of side A.

    What only A has is its own, if that is given, or else neutral.
    """
    found = _neutral(pairing) if own is None else dict(own)
    for pair in pairing.pairs:
        for role_a, role_b in pair.shared_roles:
            value = weights_b[f"{pair.b.name}|{role_b}"]
            found[f"{pair.a.name}|{role_a}"] = value.reshape(pair.a.shapes[role_a])
    return found


def _neutral(pairing: Pairing) -> dict[str, Array]:
    """Return weights of side A that leave what they are applied to as it is."""
    paired = {
        f"{pair.a.name}|{role}": np.full(shape, NEUTRAL.get(role, 0.0))
        for pair in pairing.pairs
        for role, shape in pair.a.shapes.items()
    }
    return _without_alone(pairing.only_a) | paired


def _without_alone(layers: Sequence[Layer]) -> dict[str, Array]:
    """Return zeros for embeddings without a partner, which are added to others."""
    return {
        f"{layer.name}|kernel": np.zeros(layer.shapes["kernel"])
        for layer in layers
        if layer.kind == "embedding"
    }


def neutral_weights(pairing: Pairing, weights_b: Mapping[str, Array]) -> dict[str, Array]:
    """Return the weights of side B with what only B has made neutral."""
    found = {**weights_b, **_without_alone(pairing.only_b)}
    for pair in pairing.pairs:
        shared = {role for _, role in pair.shared_roles}
        for role in set(pair.b.shapes) - shared:
            key = f"{pair.b.name}|{role}"
            found[key] = np.full_like(found[key], NEUTRAL.get(role, 0.0))
    return found

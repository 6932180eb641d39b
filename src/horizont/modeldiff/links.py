"""How the layers of a model are connected, from what one run has recorded.

An input that equals the output of another layer, or ReLU of it, was that output: a norm follows its
convolution, and a convolution the norm before it.
Layers with equal inputs are the starts of branches. Names of layers with what they are connected
to distinguish branches of equal shapes, whatever the order is in which they are executed.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

from horizont.modeldiff.recording import Array, Layer, Recording

#: How many connections away a difference may be.
_ROUNDS = 8

#: Functions between layers that leave the same bits, whoever computes them.
_BETWEEN: tuple[Callable[[Array], Array], ...] = (
    lambda x: x,
    lambda x: np.maximum(x, 0.0),
    lambda x: np.clip(x, 0.0, 6.0),
)


def refined(
    layers: Sequence[Layer], signatures: Sequence[Hashable], recording: Recording
) -> list[list[Hashable]]:
    """Return signatures with those of the layers to which each is connected, the fullest first."""
    numbers = {layer.name: number for number, layer in enumerate(layers)}
    inputs = _digests("input", recording)
    sources = {
        digest: numbers[name]
        for function in reversed(_BETWEEN)
        for name, digest in _digests("output", recording, function).items()
        if name in numbers
    }
    same_input: dict[str, list[int]] = defaultdict(list)
    followers: dict[int, list[int]] = defaultdict(list)
    for name, digest in inputs.items():
        if name in numbers:
            same_input[digest].append(numbers[name])
            if digest in sources:
                followers[sources[digest]].append(numbers[name])
    rounds: list[list[Hashable]] = []
    found: list[Hashable] = list(signatures)
    for _ in range(_ROUNDS):
        found = [
            hash(
                (
                    found[number],
                    _of(found, [sources[d] for d in (inputs.get(layer.name),) if d in sources]),
                    _of(found, same_input.get(inputs.get(layer.name, ""), ())),
                    _of(found, followers[number]),
                )
            )
            for number, layer in enumerate(layers)
        ]
        rounds.insert(0, found)
    return rounds


def _of(signatures: Sequence[Hashable], numbers: Sequence[int]) -> tuple[int, ...]:
    """Return the signatures of some layers, whatever their order is."""
    return tuple(sorted(hash(signatures[number]) for number in numbers))


def _digests(
    quantity: str,
    recording: Mapping[str, Array],
    function: Callable[[Array], Array] = _BETWEEN[0],
) -> dict[str, str]:
    """Return a digest of a function of the input or output of each layer."""
    start = f"{quantity}|"
    return {
        # Zero has one sign only.
        key.removeprefix(start): hashlib.sha256((function(value) + 0).tobytes()).hexdigest()
        for key, value in recording.items()
        if key.startswith(start)
    }

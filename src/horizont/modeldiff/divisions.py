"""Layers that one side has in one piece and the other in several: queries, keys and values.

A batch norm may be folded into the convolution before it, as exporters and compilers do.
Positions and the token of the class, likewise, may be one layer or two tensors. A matrix that
computes all three at once is divided by its rows, attention into its four matrices. The parts are
layers of their own, in the order in which the other side executes its layers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import takewhile

import numpy as np

from horizont.modeldiff.pairing import signature
from horizont.modeldiff.recording import Division, Layer, Recording

#: Of how many layers one layer may consist.
_PARTS = (2, 3, 4)

#: The matrices that read the input of attention, in the order of their rows.
_PROJECTIONS = ("query", "key", "value")


def find_divisions(
    layers: Sequence[Layer], others: Sequence[Layer], run_others: Callable[[], Recording]
) -> dict[str, Division]:
    """Return the layers of a side to divide so that they are those of the other one.

    By the name of the layer: rows from and to of each part, the names of the parts of attention or
    of tensors, or of a convolution the settings of the norm that is folded into it.

    Parameters
    ----------
    run_others
        Runs the other side, whose recording shows which of its layers have the same input.
    """
    divided = _attention(layers, others) or _tensors(layers, others) or _folded(layers, others)
    if divided:
        return divided
    missing = Counter(map(signature, layers)) - Counter(map(signature, others))
    if not any(sign[0] == "dense" for sign in missing):
        return {}
    found = {
        layer.name: [others[place] for place in places]
        for layer, places in _aligned(layers, others)
        if len(places) > 1
    }
    recording = run_others() if found else {}
    return {
        name: _rows(window) for name, window in found.items() if _have_one_input(window, recording)
    }


def _have_one_input(layers: Sequence[Layer], recording: Recording) -> bool:
    inputs = [recording.get(f"input|{each.name}") for each in layers]
    first = inputs[0]
    return first is not None and all(
        each is not None and np.array_equal(each, first) for each in inputs
    )


def _attention(layers: Sequence[Layer], others: Sequence[Layer]) -> dict[str, Division]:
    """Divide all attention if the other side has less of it as layers."""
    own, their = ([each for each in side if each.kind == "attention"] for side in (layers, others))
    if len(own) <= len(their):
        return {}
    names = [_PROJECTIONS[number] for number in _execution_order(others)]
    return {each.name: [*names, "output"] for each in own}


def _tensors(layers: Sequence[Layer], others: Sequence[Layer]) -> dict[str, Division]:
    """Divide layers that only their authors know, whose tensors the other side has apart."""
    missing = Counter(map(signature, layers)) - Counter(map(signature, others))
    apart = Counter(map(signature, others)) - Counter(map(signature, layers))
    found: dict[str, Division] = {}
    for layer in layers:
        if layer.kind != "other" or len(layer.shapes) < 2 or not missing[signature(layer)]:
            continue
        needed = Counter(
            signature(replace(layer, shapes={role: shape})) for role, shape in layer.shapes.items()
        )
        if needed <= apart:
            found[layer.name] = list(layer.shapes)
            apart -= needed
            missing[signature(layer)] -= 1
    return found


def _folded(layers: Sequence[Layer], others: Sequence[Layer]) -> dict[str, Division]:
    """Return the convolutions of a side that contain the batch norm which follows on the other."""
    own, their = (_convolutions(side) for side in (layers, others))
    signs, their_signs = ([signature(layer) for layer, _ in side] for side in (own, their))
    found: dict[str, Division] = {}
    blocks = SequenceMatcher(None, signs, their_signs, autojunk=False).get_matching_blocks()
    for block in blocks:
        for k in range(block.size):
            (layer, own_norms), (other, norms) = own[block.a + k], their[block.b + k]
            if len(norms) > len(own_norms):
                found[layer.name] = {
                    "channels": norms[0].shapes["mean"][0],
                    "epsilon": norms[0].settings["epsilon"],
                    "bias": "bias" in other.shapes,
                }
    return found


def _convolutions(layers: Sequence[Layer]) -> list[tuple[Layer, list[Layer]]]:
    """List the convolutions of a side, each with the batch norms that are executed after it.

    Several if the first of them is followed by what begins with a norm.
    """
    found: list[tuple[Layer, list[Layer]]] = []
    for place, layer in enumerate(layers):
        if layer.kind == "convolution" and "kernel" in layer.shapes:
            channels = layer.shapes["kernel"][:1]
            after = takewhile(lambda each: each.kind == "batch norm", layers[place + 1 :])
            found.append((layer, [each for each in after if each.shapes.get("mean") == channels]))
    return found


def _execution_order(layers: Sequence[Layer]) -> list[int]:
    """Return in which order a side executes queries, keys and values, by their names."""
    for first, second, third in zip(layers, layers[1:], layers[2:], strict=False):
        window = (first, second, third)
        if all(each.kind == "dense" for each in window) and (found := _numbers(window)):
            return found
    return [0, 1, 2]


def _numbers(window: Sequence[Layer]) -> list[int]:
    """Return which of queries, keys and values each layer is, by its name; empty if unknown."""
    initials = [each.name.replace("/", ".").rpartition(".")[2].lstrip("w_")[:1] for each in window]
    numbers = [["q", "k", "v"].index(each) for each in initials if each in ("q", "k", "v")]
    return numbers if sorted(numbers) == [0, 1, 2] and len(window) == len(numbers) else []


def _rows(window: Sequence[Layer]) -> Division:
    """Return the rows of each of some layers in the matrix of all of them.

    Queries are before keys, and keys before values; other layers have the order of execution.
    """
    order = _numbers(window) or list(range(len(window)))
    starts, start = {}, 0
    for number in sorted(range(len(window)), key=order.__getitem__):
        starts[number] = start
        start += window[number].shapes["kernel"][0]
    return [
        [starts[number], starts[number] + each.shapes["kernel"][0]]
        for number, each in enumerate(window)
    ]


def _is_whole(layer: Layer, window: Sequence[Layer]) -> bool:
    """Whether a matrix may be those of some layers, one below the other.

    A layer whose matrix is computed from others, as with weight norm, has none of its own.
    """
    if any(each.kind != "dense" or "kernel" not in each.shapes for each in (layer, *window)):
        return False
    shapes = [each.shapes["kernel"] for each in window]
    rows, columns = layer.shapes["kernel"]
    return {shape[1] for shape in shapes} == {columns} and sum(s[0] for s in shapes) == rows


def _aligned(
    layers: Sequence[Layer], others: Sequence[Layer]
) -> list[tuple[Layer, tuple[int, ...]]]:
    """Align both sides in the order of execution, with the fewest layers without a partner.

    Returns the layers that have partners, and the places of these.
    """
    signs, their_signs = [*map(signature, layers)], [*map(signature, others)]
    # From the last pair of layers to the first, so that no recursion is deep.
    best: list[list[tuple[int, int]]] = [
        [(0, 0)] * (len(others) + 1) for _ in range(len(layers) + 1)
    ]

    for i in range(len(layers), -1, -1):
        for j in range(len(others), -1, -1):
            options = []
            if i < len(layers) and j < len(others):
                if signs[i] == their_signs[j]:
                    options.append((best[i + 1][j + 1][0], 1))
                options += [
                    (best[i + 1][j + n][0], n)
                    for n in _PARTS
                    if j + n <= len(others) and _is_whole(layers[i], others[j : j + n])
                ]
            if i < len(layers):
                options.append((best[i + 1][j][0] + 1, 0))
            if j < len(others):
                options.append((best[i][j + 1][0] + 1, -1))
            if options:
                best[i][j] = min(options, key=lambda option: option[0])
    found, i, j = [], 0, 0
    while i < len(layers):
        step = best[i][j][1]
        if step > 0:
            found.append((layers[i], tuple(range(j, j + step))))
        i, j = i + (step >= 0), j + abs(step)
    return found

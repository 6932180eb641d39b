"""Both sides of a comparison: started, built, divided into the same layers, and paired."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from horizont.modeldiff.distributed import DistributedSide
from horizont.modeldiff.divisions import find_divisions
from horizont.modeldiff.model_side import ModelSide
from horizont.modeldiff.pairing import Pairing, read_pairs, write_pairs
from horizont.modeldiff.process import Limits, RunFailed
from horizont.modeldiff.recorded_files import DumpSide
from horizont.modeldiff.recording import (
    Array,
    Division,
    Layer,
    Recording,
    Request,
    Side,
)
from horizont.modeldiff.sides import SideSpec
from horizont.modeldiff.ties import best_pairing

#: Attention is divided first, then a matrix of the other side.
MOST_DIVISIONS = 2


def start_side(spec: SideSpec, folder: Path, limits: Limits, processes: int = 1) -> Side:
    """Start the processes of a side, or read its recording."""
    if spec.is_dump:
        return DumpSide(spec)
    if processes > 1:
        return DistributedSide(spec, folder / spec.label, limits, processes)
    return ModelSide(spec, folder / spec.label, limits)


def pair_sides(
    a: Side, b: Side, layers: tuple[Sequence[Layer], Sequence[Layer]], path: Path | None
) -> Pairing:
    """Pair layers as a file says, or write such a file."""
    if path is not None and path.exists():
        return read_pairs(path, *layers)
    pairing = best_pairing(a, b, *layers)
    if path is not None:
        write_pairs(pairing, path)
    return pairing


def open_both(a: Side, b: Side, batch: Array, dtype: str) -> list[list[Layer]]:
    """Build both models at the same time; an error says for which input."""

    def opened(side: Side) -> list[Layer]:
        try:
            return side.open(batch, dtype)
        except RunFailed as error:
            shape = "x".join(map(str, batch.shape))
            raise RunFailed(f"{error} (with the input {shape}, {batch.dtype})") from error

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(opened, (a, b)))


def open_in_parts(a: Side, b: Side, batch: Array) -> list[list[Layer]]:
    """Build both models; divide what one side has in one layer and the other in several."""
    both = open_both(a, b, batch, "float64")
    for _ in range(MOST_DIVISIONS):
        # Both before one of them is built again: each is divided for what the other one is now.
        divisions = [_divisions(b, both[1], a, both[0]), _divisions(a, both[0], b, both[1])]
        if not any(divisions):
            break
        for side, found in zip((b, a), divisions, strict=True):
            if found:
                side.divide(found)
        both = open_both(a, b, batch, "float64")
    return both


def _divisions(
    side: Side, layers: Sequence[Layer], other: Side, others: Sequence[Layer]
) -> dict[str, Division]:
    """Return the layers that a side can record in parts, as the other one has them."""
    kinds = {layer.name: layer.kind for layer in layers}

    def run_others() -> Recording:
        return other.run(Request(other.weights()))

    found = find_divisions(layers, others, run_others)
    return {name: how for name, how in found.items() if kinds[name] in side.divisible}

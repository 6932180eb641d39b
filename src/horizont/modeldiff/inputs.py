"""What both sides get: a batch, weights that hide nothing, statistics, and changes of rounding."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from horizont.errors import UserError
from horizont.modeldiff.recording import Array

FORM = "sizes such as 2x3x96x96, 2x16:1000 for integers below 1000, or a file .npy"

#: A larger batch is not made: both sides and their recordings would have several copies of it.
MOST_GIB = 1

#: A tensor whose elements are all equal hides what it is used for.
_DISPLACEMENT = 0.1
_WIDE, _WIDE_SHARE = 4.0, 0.15


def make_batch(text: str, seed: int = 0) -> Array:
    """Return a batch of random numbers, or of a file.

    Images have the layout ``NCHW``; a recorder converts it.
    """
    if text.endswith(".npy"):
        if not Path(text).is_file():
            raise UserError("--input", text, "the path of a file that exists")
        return _read_batch(text)
    match = re.fullmatch(r"(\d+(?:x\d+)*)(?::(\d+))?", text)
    sizes = tuple(int(size) for size in match[1].split("x")) if match else ()
    if match is None or 0 in sizes:
        raise UserError("--input", text, FORM)
    gib = math.prod(sizes) * np.dtype(np.float64).itemsize / 2**30
    if gib > MOST_GIB:
        raise UserError("--input", f"{text}, {gib:.3g} GiB", f"a batch of at most {MOST_GIB} GiB")
    generator = np.random.default_rng(seed)
    if match[2]:
        if not int(match[2]):
            raise UserError("--input", text, FORM)
        return generator.integers(0, int(match[2]), sizes)
    # Not centred, so that orders of channels show, and wide, so that functions saturate.
    return generator.normal(0.5, 3.0, sizes)


def _read_batch(path: str) -> Array:
    """Read a batch of numbers from a file."""
    try:
        batch: Array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError("--input", path, "an undamaged file .npy of numbers") from error
    if batch.dtype.kind not in "biuf" or not batch.ndim or not batch.size:
        allowed = "a file .npy of integers or real numbers with at least one example"
        raise UserError("--input", f"{path}, {batch.dtype} of shape {batch.shape}", allowed)
    return batch


def displaced(weights: Mapping[str, Array], seed: int = 1) -> dict[str, Array]:
    """Return weights in which no tensor is constant, as initial biases and scales are."""
    generator = np.random.default_rng(seed)
    found = {}
    for key, value in weights.items():
        if value.size and np.all(value == value.flat[0]):
            noise = generator.normal(0.0, _DISPLACEMENT, value.shape)
            role = key.rpartition("|")[2]
            if role in ("scale", "offset"):
                # Some channels reach where ReLU6 and other functions saturate.
                is_wide = generator.random(value.shape) < _WIDE_SHARE
                is_wide.flat[0] = True
                noise = noise + _WIDE * is_wide
            found[key] = value * np.exp(noise) if role == "variance" else value + noise
        else:
            found[key] = value
    return found


def moved_statistics(weights: Mapping[str, Array], seed: int = 2) -> dict[str, Array]:
    """Return weights whose running statistics differ from those of the batch.

    Equal ones would hide with which momentum they are updated.
    """
    generator = np.random.default_rng(seed)
    found = dict(weights)
    for key, value in weights.items():
        name, _, role = key.rpartition("|")
        if role == "variance" and f"{name}|mean" in weights:
            shift = 0.3 * generator.normal(size=value.shape) * np.sqrt(np.abs(value))
            found[f"{name}|mean"] = weights[f"{name}|mean"] + shift
            found[key] = 1.5 * value
    return found


def rounded(weights: Mapping[str, Array], dtype: str) -> dict[str, Array]:
    """Return weights that are one unit in the last place larger or smaller."""
    return moved(weights, 3, float(np.finfo(dtype).eps))


def moved(weights: Mapping[str, Array], seed: int, share: float = 1e-3) -> dict[str, Array]:
    """Return weights that are larger or smaller by a share of themselves."""
    generator = np.random.default_rng(seed)
    return {
        key: value * (1.0 + share * generator.choice([-1.0, 1.0], value.shape))
        for key, value in weights.items()
    }

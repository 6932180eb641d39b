"""The description that lies beside the canonical files of a prepared data set."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from horizont.data.content import Array
from horizont.errors import UserError

FORMAT: Literal[1] = 1
GENERATOR = 1  # raise it with every change of the synthetic sets: prepared ones are then rebuilt
ABOUT_FILE = "about.json"

Origin = Literal["already there", "mirror", "debian", "official", "generated"]


class About(BaseModel):
    """What a prepared data set is and where it came from.

    Attributes
    ----------
    format : version of the canonical form.
    name, kind, shape, classes : as in the catalogue.
    source : real or synthetic; to be shown wherever the data are used.
    origin : where the bytes came from.
    splits : examples (text: words) of each split.
    mean, std : of the training images, by channel, on the scale 0..1; empty for text.
    sha256 : of each array's type, shape and bytes.
    best_accuracy, best_perplexity : the best reachable in expectation; synthetic sets only.
    seed, generator : of synthetic sets.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1]
    name: str
    kind: Literal["image", "text"]
    source: Literal["real", "synthetic"]
    origin: Origin
    shape: tuple[int, ...]
    classes: int
    splits: dict[str, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    sha256: dict[str, str]
    best_accuracy: float | None = None
    best_perplexity: float | None = None
    seed: int | None = None
    generator: int | None = None


def read_about(folder: Path) -> About:
    """Read the description of a prepared set.

    Raises
    ------
    UserError
        If it is missing, damaged or of another format version.
    """
    path = folder / ABOUT_FILE
    try:
        return About.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(str(path), error.strerror, "a prepared data set") from error
    except ValidationError as error:
        first = error.errors()[0]
        found = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise UserError(str(path), found, f"a description of format {FORMAT}") from error


def hash_array(array: Array) -> str:
    """Return the SHA-256 of an array's type, shape and bytes (row-major), as hexadecimal."""
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode())
    rows = max(1, 2**24 // max(1, array[:1].nbytes))  # about 16 MiB at a time
    for start in range(0, len(array), rows):
        digest.update(np.ascontiguousarray(array[start : start + rows]).data)
    return digest.hexdigest()


def channel_moments(images: NDArray[np.uint8]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of each channel on the scale 0..1.

    Computed from counts of the 256 grey levels in whole numbers, hence the same everywhere.

    Parameters
    ----------
    images
        uint8, shape (N, channels, height, width), N > 0.
    """
    moments = [_moments(_level_counts(images[:, channel])) for channel in range(images.shape[1])]
    return tuple(mean for mean, _ in moments), tuple(std for _, std in moments)


def _level_counts(pixels: NDArray[np.uint8]) -> list[int]:
    counts = np.zeros(256, np.int64)
    for start in range(0, len(pixels), 1000):  # bincount widens its input to 64 bits
        counts += np.bincount(pixels[start : start + 1000].ravel(), minlength=256)
    return [int(count) for count in counts]


def _moments(counts: list[int]) -> tuple[float, float]:
    number = sum(counts)
    total = sum(level * count for level, count in enumerate(counts))
    square = sum(level * level * count for level, count in enumerate(counts))
    variance = (number * square - total * total) / (number * number)
    return total / number / 255, variance**0.5 / 255

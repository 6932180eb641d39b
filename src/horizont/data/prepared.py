"""The content of a data set in memory, on its way from any source to the canonical files."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from horizont.data.catalogue import DatasetInfo
from horizont.errors import UserError

Array = NDArray[Any]


@dataclass(frozen=True)
class DatasetArrays:
    """Arrays by name, and for text the words in the order of their numbers.

    Images: ``<split>_images`` uint8 (N, channels, height, width), ``<split>_labels`` int64 (N,).
    Text: ``<split>_tokens`` int32 (N,), and ``vocabulary``.
    """

    arrays: Mapping[str, Array]
    vocabulary: tuple[str, ...] | None = None

    def head(self, splits: Mapping[str, int]) -> DatasetArrays:
        """Return the first examples of each split, as many as ``splits`` says."""
        cut = {name: array[: splits[split_of(name)]] for name, array in self.arrays.items()}
        return DatasetArrays(cut, self.vocabulary)


def split_of(array: str) -> str:
    """Return the split that an array belongs to: ``train`` for ``train_images``."""
    return array.partition("_")[0]


def expected_arrays(
    kind: str, shape: tuple[int, ...], splits: Mapping[str, int]
) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    """Return dtype and shape of every array of a set with these splits."""
    arrays: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
    for split, count in splits.items():
        if kind == "text":
            arrays[f"{split}_tokens"] = (np.dtype(np.int32), (count,))
        else:
            arrays[f"{split}_images"] = (np.dtype(np.uint8), (count, *shape))
            arrays[f"{split}_labels"] = (np.dtype(np.int64), (count,))
    return arrays


def check_array(array: Array, dtype: np.dtype[Any], shape: tuple[int, ...], where: str) -> None:
    """Raise a UserError if an array has another dtype or shape than it should."""
    if (array.dtype, array.shape) != (dtype, shape):
        raise UserError(where, f"{array.dtype} {array.shape}", f"{dtype} {shape}")


def check_value_range(array: Array, classes: int, where: str) -> None:
    """Raise a UserError if labels or tokens lie outside of 0..classes-1."""
    if len(array) and (array.min() < 0 or array.max() >= classes):
        raise UserError(where, f"{array.min()} to {array.max()}", f"0 to {classes - 1}")


def check_dataset(info: DatasetInfo, content: DatasetArrays) -> None:
    """Raise a UserError unless the content is the whole set that the catalogue describes."""
    for name, (dtype, shape) in expected_arrays(info.kind, info.shape, info.splits).items():
        where = f"{info.name}: {name}"
        check_array(content.arrays[name], dtype, shape, where)
        if not name.endswith("_images"):
            check_value_range(content.arrays[name], info.classes, where)
    if info.kind == "text" and len(content.vocabulary or ()) != info.classes:
        found = f"{len(content.vocabulary or ())} words"
        raise UserError(f"{info.name}: vocabulary", found, f"{info.classes} words")


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Give a temporary folder; move it to ``target`` if the block ends well, else remove it.

    An older ``target`` stays untouched until the new one is whole.

    Raises
    ------
    UserError
        If the place cannot be written, or the disk is full.
    """
    try:
        temporary = _make_sibling_folder(target)
        try:
            yield temporary
            _replace_folder(temporary, target)
        finally:  # also on an interrupt; after the move there is nothing left to remove
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        allowed = "a place that can be written, with enough space"
        raise UserError(str(target), error.strerror or str(error), allowed) from error


def _make_sibling_folder(target: Path) -> Path:
    """Make a folder beside the target: a move within one file system is one step."""
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    folder.chmod(0o755)  # mkdtemp makes it private, but it becomes the prepared set
    return folder


def _replace_folder(temporary: Path, target: Path) -> None:
    if not target.exists():
        temporary.rename(target)
        return
    aside = _make_sibling_folder(target)
    try:
        target.rename(aside / "old")
        _rename_or_restore(temporary, target, aside / "old")
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _rename_or_restore(temporary: Path, target: Path, old: Path) -> None:
    try:
        temporary.rename(target)
    except BaseException:
        if not target.exists():
            os.rename(old, target)
        raise


DESCRIPTION_FORMAT: Literal[1] = 1
GENERATOR_VERSION = (
    1  # raise it with every change of the synthetic sets: prepared ones are then rebuilt
)
DESCRIPTION_FILE = "about.json"

Origin = Literal["raw folder", "mirror", "debian", "official", "generated"]


class DatasetDescription(BaseModel):
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


def read_description(folder: Path) -> DatasetDescription:
    """Read the description of a prepared set.

    Raises
    ------
    UserError
        If it is missing, damaged or of another format version.
    """
    path = folder / DESCRIPTION_FILE
    try:
        return DatasetDescription.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(str(path), error.strerror, "a prepared data set") from error
    except ValidationError as error:
        first = error.errors()[0]
        found = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise UserError(
            str(path), found, f"a description of format {DESCRIPTION_FORMAT}"
        ) from error


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
    moments = [
        _moments_from_counts(_level_counts(images[:, channel]))
        for channel in range(images.shape[1])
    ]
    return tuple(mean for mean, _ in moments), tuple(std for _, std in moments)


def _level_counts(pixels: NDArray[np.uint8]) -> list[int]:
    counts = np.zeros(256, np.int64)
    for start in range(0, len(pixels), 1000):  # bincount widens its input to 64 bits
        counts += np.bincount(pixels[start : start + 1000].ravel(), minlength=256)
    return [int(count) for count in counts]


def _moments_from_counts(counts: list[int]) -> tuple[float, float]:
    number = sum(counts)
    total = sum(level * count for level, count in enumerate(counts))
    square = sum(level * level * count for level, count in enumerate(counts))
    variance = (number * square - total * total) / (number * number)
    return total / number / 255, variance**0.5 / 255


VOCABULARY_FILE = "vocabulary.json"


@dataclass(frozen=True)
class ImageData:
    """A prepared image set; the arrays are mapped from the files, read-only.

    Images are uint8 (N, channels, height, width), labels int64 (N,).
    """

    description: DatasetDescription
    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.int64]


@dataclass(frozen=True)
class TextData:
    """A prepared text; the arrays of word numbers, int32 (N,), are mapped from the files."""

    description: DatasetDescription
    train_tokens: NDArray[np.int32]
    valid_tokens: NDArray[np.int32]
    test_tokens: NDArray[np.int32]
    vocabulary: tuple[str, ...]


def write_prepared(folder: Path, content: DatasetArrays, description: DatasetDescription) -> None:
    """Write a prepared set; the folder appears, or is replaced, when everything is written.

    Raises
    ------
    UserError
        If the folder cannot be written.
    """
    with atomic_folder(folder) as temporary:
        for name, array in content.arrays.items():
            np.save(temporary / f"{name}.npy", array, allow_pickle=False)
        if content.vocabulary is not None:
            words = json.dumps(content.vocabulary, ensure_ascii=False, indent=0)
            (temporary / VOCABULARY_FILE).write_text(words, encoding="utf-8")
        (temporary / DESCRIPTION_FILE).write_text(description.model_dump_json(indent=2) + "\n")


def load(folder: Path, verify: bool = False) -> ImageData | TextData:
    """Open a prepared set.

    Parameters
    ----------
    folder
        What :func:`write` wrote.
    verify
        Also compare the arrays' hashes and the range of labels and tokens.

    Raises
    ------
    UserError
        If something is missing, damaged or does not agree with the description.
    """
    about = read_description(folder)
    arrays = {}
    for name, (dtype, shape) in expected_arrays(about.kind, about.shape, about.splits).items():
        path = folder / f"{name}.npy"
        arrays[name] = _open_array(path)
        check_array(arrays[name], dtype, shape, str(path))
        if verify:
            _check_array_content(path, arrays[name], about)
    if about.kind == "image":
        return ImageData(about, **arrays)
    return TextData(about, **arrays, vocabulary=_read_vocabulary(folder / VOCABULARY_FILE, about))


def _open_array(path: Path) -> Array:
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(str(path), f"unreadable: {error}", "a NumPy file") from error
    return array


def _check_array_content(path: Path, array: Array, description: DatasetDescription) -> None:
    if not path.stem.endswith("_images"):
        check_value_range(array, description.classes, str(path))
    found, known = hash_array(array), description.sha256.get(path.stem)
    if found != known:
        raise UserError(str(path), f"hash {found}", f"{known}, as in {DESCRIPTION_FILE}")


def _read_vocabulary(path: Path, description: DatasetDescription) -> tuple[str, ...]:
    try:
        words = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(str(path), f"unreadable: {error}", "a list of words") from error
    if not isinstance(words, list) or len(words) != description.classes:
        raise UserError(str(path), "another list", f"{description.classes} words")
    return tuple(str(word) for word in words)

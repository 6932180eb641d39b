"""Prepared data sets: a folder of ``.npy`` files and a description, written atomically.

Images: ``train_images.npy`` uint8 (N, channels, height, width), ``train_labels.npy`` int64 (N,)
and the same for ``test``. Text: ``train_tokens.npy``, ``valid_tokens.npy``, ``test_tokens.npy``
int32 (N,) and ``vocabulary.json``, the words in the order of their numbers.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from horizont.config.base import ConfigModel
from horizont.data.catalogue import DatasetInfo
from horizont.errors import Problem, UserError

Array = NDArray[Any]
Origin = Literal["raw folder", "mirror", "debian", "official", "generated", "own folder"]

DESCRIPTION_FORMAT: Literal[1] = 1
#: To be raised with every change of the synthetic sets, so that prepared ones are rebuilt.
GENERATOR_VERSION = 2
DESCRIPTION_FILE = "description.json"
VOCABULARY_FILE = "vocabulary.json"


@dataclass(frozen=True)
class DatasetArrays:
    """The arrays of a data set by name (``train_images``), and for text the words."""

    arrays: Mapping[str, Array]
    vocabulary: tuple[str, ...] | None = None

    def head(self, splits: Mapping[str, int]) -> DatasetArrays:
        """Return the first examples of each split, as many as ``splits`` says."""
        arrays = {
            name: array[: splits[name.partition("_")[0]]] for name, array in self.arrays.items()
        }
        return DatasetArrays(arrays, self.vocabulary)

    def split_sizes(self) -> dict[str, int]:
        """Return the number of examples of each split, for text of words."""
        return {name.partition("_")[0]: len(array) for name, array in self.arrays.items()}


class DatasetDescription(ConfigModel):
    """The description of a prepared data set.

    Attributes
    ----------
    name, kind, shape, classes
        As in the catalogue.
    source
        To be shown wherever the data are used; ``own``: of the user.
    splits
        Examples, for text words, of each split.
    mean, std
        Of each channel of the training images, on the scale 0..1; empty for text.
    sha256
        Of type, shape and content of each array.
    best_accuracy, best_perplexity
        The best expected value that a model can reach; synthetic sets only.
    seed, generator
        Of synthetic sets.
    class_names, files_sha256, duplicates
        Of the user's sets: names in the order of the labels, hash of the files, and the number of
        test examples that are training examples, too.
    """

    format: Literal[1]
    name: str
    kind: Literal["image", "text"]
    source: Literal["real", "synthetic", "own"]
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
    class_names: tuple[str, ...] = ()
    files_sha256: str | None = None
    duplicates: int | None = None


@dataclass(frozen=True)
class ImageData:
    """A prepared image set; the arrays are memory-mapped, read-only.

    Images are uint8 (N, channels, height, width), labels int64 (N,).
    """

    description: DatasetDescription
    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.int64]


@dataclass(frozen=True)
class TextData:
    """A prepared text; the arrays of word numbers, int32 (N,), are memory-mapped, read-only."""

    description: DatasetDescription
    train_tokens: NDArray[np.int32]
    valid_tokens: NDArray[np.int32]
    test_tokens: NDArray[np.int32]
    vocabulary: tuple[str, ...]


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


def check_dataset(info: DatasetInfo, content: DatasetArrays) -> None:
    """Refuse content that is not the complete set of the catalogue."""
    for name, (dtype, shape) in expected_arrays(info.kind, info.shape, info.splits).items():
        _check_array(content.arrays[name], dtype, shape, f"{info.name}: {name}", info.classes)
    words = len(content.vocabulary or ())
    if info.kind == "text" and words != info.classes:
        raise UserError(
            f"{info.name}: vocabulary", Problem(f"{words} words"), f"{info.classes} words"
        )


def _check_array(
    array: Array,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    field: str,
    classes: int | None = None,
) -> None:
    """Refuse another type; with `classes`, also labels and tokens outside of 0..classes-1."""
    if (array.dtype, array.shape) != (dtype, shape):
        raise UserError(field, f"{array.dtype} {array.shape}", f"{dtype} {shape}")
    if classes is None or dtype == np.uint8:  # images
        return
    if len(array) and (array.min() < 0 or array.max() >= classes):
        raise UserError(field, f"{array.min()} to {array.max()}", f"0 to {classes - 1}")


def hash_array(array: Array) -> str:
    """Return the SHA-256 of an array's type, shape and bytes (row-major), as hexadecimal."""
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode())
    rows = max(1, 2**24 // max(1, array[:1].nbytes))  # about 16 MiB at a time
    for start in range(0, len(array), rows):
        digest.update(np.ascontiguousarray(array[start : start + rows]).data)
    return digest.hexdigest()


def channel_moments(images: NDArray[np.uint8]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of each channel on the scale 0..1.

    They are computed from counts of the 256 grey levels in integers, and so equal on every
    machine. The images are (N, channels, height, width), N > 0.
    """
    means, deviations = [], []
    for channel in range(images.shape[1]):
        histogram = np.zeros(256, np.int64)
        for start in range(0, len(images), 1000):  # bincount converts its input to 64 bits
            pixels = images[start : start + 1000, channel].ravel()
            histogram += np.bincount(pixels, minlength=256)
        counts: list[int] = histogram.tolist()  # Python's integers do not overflow
        number = sum(counts)
        total = sum(level * count for level, count in enumerate(counts))
        square = sum(level * level * count for level, count in enumerate(counts))
        variance = (number * square - total * total) / (number * number)
        means.append(total / number / 255)
        deviations.append(variance**0.5 / 255)
    return tuple(means), tuple(deviations)


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder; rename it to ``target`` if the block succeeds, else remove it.

    An earlier ``target`` is unchanged until the new one is complete. A folder that cannot be
    written, and a full disk, are a `UserError`.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside the target: a rename within one file system is atomic.
        both = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        new, old = both / "new", both / "old"
        try:
            new.mkdir()
            yield new
            if target.exists():
                target.rename(old)
            new.rename(target)
        finally:  # also on an interrupt
            if old.exists() and not target.exists():
                old.rename(target)
            shutil.rmtree(both, ignore_errors=True)
    except OSError as error:
        allowed = "a writable folder with free space"
        raise UserError(str(target), Problem(error.strerror or str(error)), allowed) from error


def write_prepared(folder: Path, content: DatasetArrays, description: DatasetDescription) -> None:
    """Write a prepared set atomically."""
    with atomic_folder(folder) as temporary:
        for name, array in content.arrays.items():
            np.save(temporary / f"{name}.npy", array, allow_pickle=False)
        if content.vocabulary is not None:
            words = json.dumps(content.vocabulary, ensure_ascii=False, indent=0)
            (temporary / VOCABULARY_FILE).write_text(words, encoding="utf-8")
        (temporary / DESCRIPTION_FILE).write_text(description.model_dump_json(indent=2) + "\n")


def read_description(folder: Path) -> DatasetDescription:
    """Read the description of a prepared set; refuse a damaged one and another format."""
    path = folder / DESCRIPTION_FILE
    try:
        return DatasetDescription.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(str(path), Problem(error.strerror), "a prepared data set") from error
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        allowed = f"a description of format {DESCRIPTION_FORMAT}"
        raise UserError(str(path), problem, allowed) from error


def load(folder: Path, verify: bool = False) -> ImageData | TextData:
    """Open a prepared set; refuse a file that is missing, damaged or unlike the description.

    With `verify` the arrays' hashes, and the range of labels and tokens, are compared, too.
    """
    description = read_description(folder)
    arrays = {}
    expected = expected_arrays(description.kind, description.shape, description.splits)
    for name, (dtype, shape) in expected.items():
        path = folder / f"{name}.npy"
        try:
            arrays[name] = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise UserError(str(path), Problem(f"unreadable: {error}"), "a NumPy file") from error
        classes = description.classes if verify else None
        _check_array(arrays[name], dtype, shape, str(path), classes)
        recorded = description.sha256.get(name)
        if verify and (actual := hash_array(arrays[name])) != recorded:
            raise UserError(
                str(path), Problem(f"hash {actual}"), f"{recorded}, as in {DESCRIPTION_FILE}"
            )
    if description.kind == "image":
        return ImageData(description, **arrays)
    path = folder / VOCABULARY_FILE
    try:
        words = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(str(path), Problem(f"unreadable: {error}"), "a list of words") from error
    if not isinstance(words, list) or len(words) != description.classes:
        raise UserError(str(path), Problem("another list"), f"{description.classes} words")
    return TextData(description, **arrays, vocabulary=tuple(words))

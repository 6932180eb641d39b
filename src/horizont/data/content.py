"""The content of a data set in memory, on its way from any source to the canonical files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.data.catalogue import DatasetInfo
from horizont.errors import UserError

Array = NDArray[Any]


@dataclass(frozen=True)
class Content:
    """Arrays by name, and for text the words in the order of their numbers.

    Images: ``<split>_images`` uint8 (N, channels, height, width), ``<split>_labels`` int64 (N,).
    Text: ``<split>_tokens`` int32 (N,), and ``vocabulary``.
    """

    arrays: Mapping[str, Array]
    vocabulary: tuple[str, ...] | None = None

    def first(self, splits: Mapping[str, int]) -> Content:
        """Return the first examples of each split, as many as ``splits`` says."""
        cut = {name: array[: splits[split_of(name)]] for name, array in self.arrays.items()}
        return Content(cut, self.vocabulary)


def split_of(array: str) -> str:
    """Return the split that an array belongs to: ``train`` for ``train_images``."""
    return array.partition("_")[0]


def layout(
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


def check_numbers(array: Array, classes: int, where: str) -> None:
    """Raise a UserError if labels or tokens lie outside of 0..classes-1."""
    if len(array) and (array.min() < 0 or array.max() >= classes):
        raise UserError(where, f"{array.min()} to {array.max()}", f"0 to {classes - 1}")


def check_content(info: DatasetInfo, content: Content) -> None:
    """Raise a UserError unless the content is the whole set that the catalogue describes."""
    for name, (dtype, shape) in layout(info.kind, info.shape, info.splits).items():
        where = f"{info.name}: {name}"
        check_array(content.arrays[name], dtype, shape, where)
        if not name.endswith("_images"):
            check_numbers(content.arrays[name], info.classes, where)
    if info.kind == "text" and len(content.vocabulary or ()) != info.classes:
        found = f"{len(content.vocabulary or ())} words"
        raise UserError(f"{info.name}: vocabulary", found, f"{info.classes} words")

"""The one form in which every data set is used: a folder of NumPy files and a description.

Images: ``train_images.npy`` uint8 (N, channels, height, width), ``train_labels.npy`` int64 (N,)
and the same for ``test``. Text: ``train_tokens.npy``, ``valid_tokens.npy``, ``test_tokens.npy``
int32 (N,) and ``vocabulary.json``, the words in the order of their numbers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from horizont.data.about import ABOUT_FILE, About, hash_array, read_about
from horizont.data.content import Array, Content, check_array, check_numbers, layout
from horizont.data.folders import whole_folder
from horizont.errors import UserError

VOCABULARY_FILE = "vocabulary.json"


@dataclass(frozen=True)
class ImageData:
    """A prepared image set; the arrays are mapped from the files, read-only.

    Images are uint8 (N, channels, height, width), labels int64 (N,).
    """

    about: About
    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.int64]


@dataclass(frozen=True)
class TextData:
    """A prepared text; the arrays of word numbers, int32 (N,), are mapped from the files."""

    about: About
    train_tokens: NDArray[np.int32]
    valid_tokens: NDArray[np.int32]
    test_tokens: NDArray[np.int32]
    vocabulary: tuple[str, ...]


def write(folder: Path, content: Content, about: About) -> None:
    """Write a prepared set; the folder appears, or is replaced, when everything is written.

    Raises
    ------
    UserError
        If the folder cannot be written.
    """
    with whole_folder(folder) as temporary:
        for name, array in content.arrays.items():
            np.save(temporary / f"{name}.npy", array, allow_pickle=False)
        if content.vocabulary is not None:
            words = json.dumps(content.vocabulary, ensure_ascii=False, indent=0)
            (temporary / VOCABULARY_FILE).write_text(words, encoding="utf-8")
        (temporary / ABOUT_FILE).write_text(about.model_dump_json(indent=2) + "\n")


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
    about = read_about(folder)
    arrays = {}
    for name, (dtype, shape) in layout(about.kind, about.shape, about.splits).items():
        path = folder / f"{name}.npy"
        arrays[name] = _open_array(path)
        check_array(arrays[name], dtype, shape, str(path))
        if verify:
            _verify(path, arrays[name], about)
    if about.kind == "image":
        return ImageData(about, **arrays)
    return TextData(about, **arrays, vocabulary=_read_words(folder / VOCABULARY_FILE, about))


def _open_array(path: Path) -> Array:
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(str(path), f"unreadable: {error}", "a NumPy file") from error
    return array


def _verify(path: Path, array: Array, about: About) -> None:
    if not path.stem.endswith("_images"):
        check_numbers(array, about.classes, str(path))
    found, known = hash_array(array), about.sha256.get(path.stem)
    if found != known:
        raise UserError(str(path), f"hash {found}", f"{known}, as in {ABOUT_FILE}")


def _read_words(path: Path, about: About) -> tuple[str, ...]:
    try:
        words = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(str(path), f"unreadable: {error}", "a list of words") from error
    if not isinstance(words, list) or len(words) != about.classes:
        raise UserError(str(path), "another list", f"{about.classes} words")
    return tuple(str(word) for word in words)

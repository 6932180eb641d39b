"""The reader of the Penn Treebank in T. Mikolov's form: one sentence a line, words by blanks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from horizont.data.catalogue import DatasetInfo
from horizont.data.content import Content
from horizont.errors import UserError

SENTENCE_END = "<eos>"


def read_ptb(info: DatasetInfo, files: Mapping[str, bytes]) -> Content:
    """Turn the text files into word numbers.

    Words are numbered by falling frequency in the training text, equal ones in alphabetical
    order; every line end becomes the word ``<eos>``.

    Raises
    ------
    UserError
        If a file is no UTF-8, or has a word that the training text lacks.
    """
    words = {split: _words(names[0], files[names[0]]) for split, names in info.parts.items()}
    counts = Counter(words["train"])
    vocabulary = tuple(sorted(counts, key=lambda word: (-counts[word], word)))
    numbers = {word: number for number, word in enumerate(vocabulary)}
    tokens = {
        f"{split}_tokens": _number(info.parts[split][0], text, numbers)
        for split, text in words.items()
    }
    return Content(tokens, vocabulary)


def _words(name: str, content: bytes) -> list[str]:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(name, f"damaged: {error}", "text in UTF-8") from error
    return text.replace("\n", f" {SENTENCE_END} ").split()


def _number(name: str, words: list[str], numbers: Mapping[str, int]) -> NDArray[np.int32]:
    try:
        return np.fromiter((numbers[word] for word in words), np.int32, len(words))
    except KeyError as error:
        raise UserError(name, error.args[0], "the words of the training text") from error

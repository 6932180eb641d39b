"""A text of the user, in files of UTF-8, as numbered words."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from horizont.config.data import OwnDataset
from horizont.data.catalogue import describe_own
from horizont.data.formats import read_dataset
from horizont.data.prepared import DatasetArrays
from horizont.errors import Problem, UserError

SPLITS = ("train", "valid", "test")
UNKNOWN = "<unk>"
#: A word, with apostrophes inside, or a single punctuation mark.
_WORD = re.compile(rf"{UNKNOWN}|\w+(?:['’]\w+)*|[^\w\s]")
_LAYOUT = "a text file, or a folder with train.txt, valid.txt and test.txt, or with a single text"


def read_text(field: str, path: Path, settings: OwnDataset) -> DatasetArrays:
    """Read a text, whose errors name `field`.

    Words are in lower case, punctuation marks are words, and the end of a line is one. If the
    vocabulary is limited, or words occur in the other splits only, the rarest words of the
    training text and all that are not in it are ``<unk>``.
    """
    lines = {split: _split_words(text) for split, text in _read_splits(field, path, settings)}
    for split, words in lines.items():
        if not words:
            raise UserError(
                field,
                Problem(f"no words for {split} in {path}"),
                "a text of at least three lines, one each for train, valid and test",
            )
    known = _vocabulary(lines, settings.words)
    files = {
        f"{split}_text": "".join(
            " ".join(word if word in known else UNKNOWN for word in words) + "\n"
            for words in lines[split]
        ).encode()
        for split in SPLITS
    }
    return read_dataset(describe_own(field, (), 0, dict.fromkeys(SPLITS, 0)), files)


def has_splits(path: Path) -> bool:
    """Whether a folder has a file for each split."""
    return all((path / f"{split}.txt").is_file() for split in SPLITS)


def _vocabulary(lines: dict[str, list[list[str]]], limit: int) -> set[str]:
    """Return the known words: all but one number are left to the end of lines and to <unk>."""
    found = {split: Counter(word for line in lines[split] for word in line) for split in SPLITS}
    counts = found["train"]
    counts.pop(UNKNOWN, None)
    size = limit - 1
    if len(counts) > size or set(found["valid"] + found["test"]) - set(counts):
        # At least one word of the training text is unknown, so that a model has seen such words.
        size = min(limit - 2, len(counts) - 1)
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    return set(ordered[:size])


def _split_words(text: str) -> list[list[str]]:
    """Return the words of each line that has some."""
    lines = (_WORD.findall(line) for line in text.lower().splitlines())
    return [words for words in lines if words]


def _read_splits(field: str, path: Path, settings: OwnDataset) -> list[tuple[str, str]]:
    if path.is_dir():
        if has_splits(path):
            return [(split, _read(path / f"{split}.txt")) for split in SPLITS]
        texts = sorted(path.glob("*.txt"))
        if len(texts) != 1:
            raise UserError(field, Problem(f"{len(texts)} text files in {path}"), _LAYOUT)
        path = texts[0]
    if not path.is_file():
        raise UserError(field, Problem(f"{path} does not exist"), _LAYOUT)
    lines = [line for line in _read(path).splitlines() if line.strip()]
    count = max(1, round(len(lines) * settings.test_fraction))
    parts = lines[: -2 * count], lines[-2 * count : -count], lines[-count:]
    return [(split, "\n".join(part)) for split, part in zip(SPLITS, parts, strict=True)]


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(str(file), Problem(f"unreadable: {error}"), "text in UTF-8") from error

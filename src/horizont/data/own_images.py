"""Images in a folder for each class."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from horizont.config.data import OwnDataset
from horizont.data.prepared import Array, DatasetArrays
from horizont.errors import Problem, UserError
from horizont.wording import counted

IMAGE_SUFFIXES = frozenset(
    {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
)
_LAYOUT = (
    "a folder with a folder of images for each class, of at least two, "
    "or with such a folder for train and another for test"
)


@dataclass(frozen=True)
class ImageFolder:
    """The classes in alphabetical order; by split, in the order of the examples, file and class."""

    classes: tuple[str, ...]
    splits: dict[str, list[tuple[Path, int]]]


def find_images(field: str, path: Path, test_fraction: float) -> ImageFolder:
    """Find the images of a folder, whose errors name `field`.

    Without folders ``train`` and ``test``, a fraction of each class is tested. This choice, and
    the order of the examples, follow the hash of a file's relative path: both are the same on
    every machine, and the first examples are of all classes.
    """
    if not path.is_dir():
        kind = "is not a folder" if path.exists() else "does not exist"
        raise UserError(field, Problem(f"{path} {kind}"), _LAYOUT)
    if has_splits(path):
        found = {split: _find_classes(field, path / split) for split in ("train", "test")}
        classes = tuple(found["train"])
        if odd := sorted(set(classes) ^ set(found["test"])):
            raise UserError(
                field,
                Problem(f"the class {odd[0]} is in one of train and test only"),
                "the same classes in both",
            )
    else:
        by_class = _find_classes(field, path)
        classes, found = tuple(by_class), {"train": {}, "test": {}}
        for name, files in by_class.items():
            count = max(1, round(len(files) * test_fraction))
            ordered = _by_hash(files, path)
            found["test"][name], found["train"][name] = ordered[:count], ordered[count:]
    number = {name: index for index, name in enumerate(classes)}
    splits = {
        split: [
            (file, number[file.parent.name])
            for file in _by_hash(chain.from_iterable(files.values()), path)
        ]
        for split, files in found.items()
    }
    return ImageFolder(classes, splits)


def has_splits(path: Path) -> bool:
    """Whether a folder has a folder each for training and test."""
    return (path / "train").is_dir() and (path / "test").is_dir()


def _is_hidden(path: Path) -> bool:
    return path.name.startswith(".")


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_SUFFIXES and path.is_file() and not _is_hidden(path)


def images_outside(images: ImageFolder, path: Path) -> list[Path]:
    """List the images below a folder that belong to no class: beside a class, or deeper."""
    used = {file for files in images.splits.values() for file, _ in files}
    found = [file for file in path.rglob("*") if _is_image(file) and file not in used]
    relative = sorted(file.relative_to(path) for file in found)
    return [one for one in relative if not any(part.startswith(".") for part in one.parts)]


def _find_classes(field: str, folder: Path) -> dict[str, list[Path]]:
    """Return the images of each subfolder; refuse fewer than two, and one with a single image."""
    subfolders = sorted(one for one in folder.iterdir() if one.is_dir() and not _is_hidden(one))
    by_class = {one.name: [file for file in one.iterdir() if _is_image(file)] for one in subfolders}
    if len(by_class) < 2:
        names = f" ({', '.join(by_class)})" if by_class else ""
        found = f"{counted(len(by_class), 'folder')} in {folder}{names}"
        raise UserError(field, Problem(found), _LAYOUT)
    for name, files in by_class.items():
        if len(files) < 2:
            allowed = f"at least two files of type {', '.join(sorted(IMAGE_SUFFIXES))}"
            raise UserError(
                field, Problem(f"{counted(len(files), 'image')} in {folder / name}"), allowed
            )
    return by_class


def _by_hash(files: Iterable[Path], root: Path) -> list[Path]:
    def digest(file: Path) -> bytes:
        return hashlib.sha256(file.relative_to(root).as_posix().encode()).digest()

    return sorted(files, key=digest)


def read_images(images: ImageFolder, settings: OwnDataset) -> DatasetArrays:
    """Read images, scaled to the size of the settings."""
    arrays: dict[str, Array] = {}
    shape = (settings.channels, settings.size, settings.size)
    for split, files in images.splits.items():
        pixels = np.empty((len(files), *shape), np.uint8)
        for place, (file, _) in zip(pixels, files, strict=True):
            place[:] = _read_image(file, settings.channels, settings.size)
        arrays[f"{split}_images"] = pixels
        arrays[f"{split}_labels"] = np.array([number for _, number in files], np.int64)
    return DatasetArrays(arrays)


def _read_image(path: Path, channels: int, size: int) -> NDArray[np.uint8]:
    """Return an image, (channels, size, size): upright, its middle square, by bicubic filtering."""
    # Imported here: only the preparation reads images, and workers import this package.
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as image:
            if image.mode.startswith(("I", "F")):
                raise UserError(
                    str(path), Problem(f"mode {image.mode}"), "an image with 8 bits per channel"
                )
            upright = ImageOps.exif_transpose(image).convert("RGB" if channels == 3 else "L")
            scaled = ImageOps.fit(upright, (size, size), Image.Resampling.BICUBIC)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise UserError(str(path), Problem(f"unreadable: {error}"), "an undamaged image") from error
    return np.moveaxis(np.asarray(scaled, np.uint8).reshape(size, size, channels), -1, 0)


def count_duplicates(content: DatasetArrays) -> int:
    """Count the test images that are training images, too, with the same pixels."""
    train, test = (
        [image.tobytes() for image in content.arrays[f"{split}_images"]]
        for split in ("train", "test")
    )
    known = set(train)
    return sum(image in known for image in test)

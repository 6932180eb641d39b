"""A data set of the user: images in a folder for each class, or a text, as `params.yaml` says."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from horizont.config.data import DataConfig, OwnDataset
from horizont.data import own_images, own_text
from horizont.data.catalogue import DATASETS, DatasetInfo, dataset_info, describe_own
from horizont.data.own_images import ImageFolder, find_images, images_outside, read_images
from horizont.data.own_text import read_text
from horizont.data.prepared import DatasetArrays
from horizont.errors import UserError
from horizont.wording import suggestion


@dataclass(frozen=True)
class OwnSource:
    """The settings of a data set, and the path of its files."""

    name: str
    settings: OwnDataset
    path: Path

    @property
    def _field(self) -> str:
        return f"data.own.{self.name}.path"

    def info(self) -> DatasetInfo:
        """Return what its files say about the data set, without reading images.

        Refuses a fraction for files that are already split.
        """
        has_splits = own_text.has_splits if self.settings.kind == "text" else own_images.has_splits
        if "test_fraction" in self.settings.model_fields_set and has_splits(self.path):
            field, value = f"data.own.{self.name}.test_fraction", self.settings.test_fraction
            raise UserError(field, value, "nothing, as the files are already split")
        if self.settings.kind == "text":
            content = read_text(self._field, self.path, self.settings)
            splits = content.split_sizes()
            return self._describe((), len(content.vocabulary or ()), splits)
        images, side = self._images, self.settings.size
        splits = {split: len(files) for split, files in images.splits.items()}
        return self._describe((self.settings.channels, side, side), len(images.classes), splits)

    def read(self) -> DatasetArrays:
        """Read all files."""
        if self.settings.kind == "text":
            return read_text(self._field, self.path, self.settings)
        return read_images(self._images, self.settings)

    def ignored_images(self) -> list[Path]:
        """List the images that belong to no class, relative to the folder."""
        return [] if self.settings.kind == "text" else images_outside(self._images, self.path)

    def class_names(self) -> tuple[str, ...]:
        """Return the names of the classes in the order of their numbers; () for a text."""
        return () if self.settings.kind == "text" else self._images.classes

    def digest(self) -> str:
        """Return the SHA-256 of the files, by relative path, and of the settings they are read by.

        Hidden files do not count.
        """
        settings = self.settings.model_dump_json(exclude={"path", "title", "licence", "citation"})
        total = hashlib.sha256(settings.encode())
        files = [self.path] if self.path.is_file() else sorted(self.path.rglob("*"))
        for file in files:
            name = file.relative_to(self.path)
            if file.is_file() and not any(part.startswith(".") for part in name.parts):
                with file.open("rb") as stream:
                    content = hashlib.file_digest(stream, "sha256").hexdigest()
                total.update(f"\n{name.as_posix()} {content}".encode())
        return total.hexdigest()

    @cached_property
    def _images(self) -> ImageFolder:
        return find_images(self._field, self.path, self.settings.test_fraction)

    def _describe(
        self, shape: tuple[int, ...], classes: int, splits: Mapping[str, int]
    ) -> DatasetInfo:
        info = describe_own(self.name, shape, classes, splits)
        own = self.settings
        return replace(
            info, title=own.title or self.name, licence=own.licence, citation=own.citation
        )


def find_own(settings: DataConfig, name: str, root: Path) -> OwnSource | None:
    """Find a data set of the user; paths are relative to the root of the project."""
    if name not in settings.own:
        return None
    if name in DATASETS:
        allowed = f"another name than {', '.join(DATASETS)}, which are known"
        raise UserError("data.own", name, allowed)
    own = settings.own[name]
    return OwnSource(name, own, root / (own.path or Path("data", "own", name)))


def find_info(settings: DataConfig, name: str, root: Path) -> DatasetInfo:
    """Return the facts of a data set of the user or of the catalogue; refuse an unknown name."""
    own = find_own(settings, name, root)
    if own is not None:
        return own.info()
    check_name(settings, name)
    return dataset_info(name)


def check_name(settings: DataConfig, name: str) -> None:
    """Refuse a data set that is neither of the user nor in the catalogue."""
    names = [*DATASETS, *settings.own]
    if name not in names:
        allowed = f"{', '.join(names)}, or a data set described in data.own"
        raise UserError("dataset", name, f"{allowed}{suggestion(name, names)}")

"""Small synthetic archives in the official formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from horizont.data.catalogue import DATASETS, DatasetInfo
from horizont.data.formats import write_archives
from horizont.data.prepared import DatasetArrays
from horizont.data.synthetic import synthesise

IMAGE_SPLITS = {"train": 60, "test": 20}
TEXT_SPLITS = {"train": 4000, "valid": 600, "test": 500}


@dataclass(frozen=True)
class SmallSet:
    info: DatasetInfo
    content: DatasetArrays
    folder: Path

    def archive(self, index: int = 0) -> Path:
        return self.folder / self.info.files[index].name


@cache
def small_content(name: str) -> tuple[DatasetInfo, DatasetArrays]:
    info = DATASETS[name]
    if info.kind == "text":
        info = replace(info, classes=40)
    splits = TEXT_SPLITS if info.kind == "text" else IMAGE_SPLITS
    return info, synthesise(info, splits, 0)[0]


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], SmallSet]:
    """Write a small set to raw/<name> and replace its catalogue entry."""

    def make(name: str) -> SmallSet:
        info, content = small_content(name)
        folder = tmp_path / "raw" / name
        info = write_archives(info, content, folder)
        info = replace(info, debian_folder=None)
        monkeypatch.setitem(DATASETS, name, info)
        return SmallSet(info, content, folder)

    return make

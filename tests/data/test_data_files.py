"""Images read from files in their official format equal the prepared ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from horizont.data.files import DecodedImageCache, open_files, write_files_if_missing
from horizont.data.preparation import prepare
from horizont.data.prepared import ImageData, load
from horizont.errors import UserError


def prepared(folder: Path, name: str, seed: int = 0) -> ImageData:
    prepare(name, "synthetic", folder, folder, train_examples=203, test_examples=20, seed=seed)
    data = load(folder / name)
    assert isinstance(data, ImageData)
    return data


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "fashion-mnist"])
def test_images_are_read_from_the_files(name: str, tmp_path: Path) -> None:
    data = prepared(tmp_path, name)
    files = open_files(data.description, write_files_if_missing(data, tmp_path / "files"))
    order = np.random.default_rng(1).permutation(203)
    assert np.array_equal(files.read(order), data.train_images[order])
    assert np.array_equal(files.labels, data.train_labels)
    assert len(files.paths) == {"cifar10": 5}.get(name, 1)


@pytest.mark.parametrize("count", [1, 68, 203])
def test_the_first_images_of_several_files_are_selected(count: int, tmp_path: Path) -> None:
    data = prepared(tmp_path, "cifar10")
    files = open_files(data.description, write_files_if_missing(data, tmp_path / "files"))
    first = files.first(count)
    assert len(first) == sum(segment.count for segment in first.segments) == count
    assert np.array_equal(first.read(np.arange(count)), data.train_images[:count])
    assert np.array_equal(first.labels, data.train_labels[:count])


def test_files_are_written_once_and_again_for_other_data(tmp_path: Path) -> None:
    data, folder = prepared(tmp_path, "fashion-mnist"), tmp_path / "files"
    (write_files_if_missing(data, folder) / "derived.rec").touch()
    assert (write_files_if_missing(data, folder) / "derived.rec").exists()
    other = prepared(tmp_path, "fashion-mnist", seed=1)
    assert not (write_files_if_missing(other, folder) / "derived.rec").exists()
    assert np.array_equal(open_files(other.description, folder).read([7]), other.train_images[7:8])


def test_missing_and_truncated_files_are_reported(tmp_path: Path) -> None:
    data = prepared(tmp_path, "cifar10")
    folder = write_files_if_missing(data, tmp_path / "files")
    files = open_files(data.description, folder)
    last = files.segments[-1]
    with last.path.open("r+b") as file:
        file.truncate(last.offset + files.image_bytes)
    with pytest.raises(UserError, match="data_batch_5: truncated"):
        files.read([202])
    with pytest.raises(UserError, match="data_batch_5: refused"):
        open_files(data.description, folder)
    last.path.unlink()
    with pytest.raises(UserError, match="data_batch_5: missing"):
        open_files(data.description, folder)


def test_cached_images_are_read_once() -> None:
    images = np.arange(5 * 12, dtype=np.uint8).reshape(5, 3, 2, 2)
    requested: list[int] = []

    def read(indices: np.ndarray) -> np.ndarray:
        requested.extend(indices.tolist())
        return images[indices]

    cache = DecodedImageCache(5, (3, 2, 2), read)
    for order in ([3, 0], [0, 1, 3], [3, 1]):
        assert np.array_equal(cache(np.array(order)), images[order])
    assert requested == [3, 0, 1]

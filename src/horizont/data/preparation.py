"""Preparation of a data set: from its files or the generator to a prepared folder."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from horizont.config.data import DataSource
from horizont.data.catalogue import DatasetInfo, dataset_info
from horizont.data.own import OwnSource
from horizont.data.own_images import count_duplicates
from horizont.data.prepared import (
    DESCRIPTION_FORMAT,
    GENERATOR_VERSION,
    DatasetArrays,
    DatasetDescription,
    Origin,
    channel_moments,
    hash_array,
    load,
    write_prepared,
)
from horizont.data.sources import RawFiles, fetch, locate, read_content
from horizont.errors import UserError

_SOURCES: Mapping[Origin, Literal["synthetic", "own"]] = {
    "generated": "synthetic",
    "own folder": "own",
}


def prepare(
    name: str,
    source: DataSource,
    raw_dir: Path,
    out_dir: Path,
    *,
    own: OwnSource | None = None,
    mirror: Path | None = None,
    train_examples: int | None = None,
    test_examples: int | None = None,
    seed: int = 0,
) -> DatasetDescription:
    """Write a data set to ``out_dir/<name>``, unless it is there as requested.

    Parameters
    ----------
    source
        ``synthetic``: the stand-in. ``real``: the real set, downloaded if necessary.
        ``available``: the real set if it is available without network, else the stand-in.
    own
        The files of a data set of the user, which is read from them, whatever the source.
    raw_dir, out_dir
        Folders of raw and of prepared sets, with a folder for each set.
    mirror
        A folder with official archives, or with a folder of them for each set.
    train_examples, test_examples
        Number of first examples to use of the training split and of each other one; for text,
        words. By default all; of a data set of the user at most all.
    seed
        Of the stand-in.

    Raises
    ------
    UserError
        If the data set has fewer examples, the real set is unavailable or damaged, or the
        prepared set cannot be written.
    """
    if own is not None:
        return _prepare_own(own, out_dir / name, train_examples, test_examples)
    info = dataset_info(name)
    splits = split_sizes(info, train_examples, test_examples)
    raw_files = None if source == "synthetic" else locate(info, raw_dir, mirror)
    folder = out_dir / name
    with suppress(UserError):  # missing or damaged: either way it is rebuilt
        existing = load(folder, verify=True).description
        if _is_up_to_date(existing, source, raw_files, splits, seed):
            return existing
    if source == "real" and raw_files is None:
        raw_files = fetch(info, raw_dir)
    if raw_files is not None:
        raw_folder, origin = raw_files
        content = read_content(info, raw_folder).head(splits)
        description = _describe(info, content, splits, origin)
    else:
        # Imported here, like pooch: scipy would slow down the start of every process that reads
        # data.
        from horizont.data.synthetic import synthesise

        content, best = synthesise(info, splits, seed)
        generator = {"seed": seed, "generator": GENERATOR_VERSION}
        description = _describe(info, content, splits, "generated", **best, **generator)
    write_prepared(folder, content, description)
    return description


def _prepare_own(
    own: OwnSource, folder: Path, train: int | None, test: int | None
) -> DatasetDescription:
    info, digest = own.info(), own.digest()
    limits = {split: train if split == "train" else test for split in info.splits}
    splits = {split: min(size, limits[split] or size) for split, size in info.splits.items()}
    with suppress(UserError):
        existing = load(folder, verify=True).description
        if (existing.files_sha256, existing.splits) == (digest, splits):
            return existing
    content = own.read().head(splits)
    description = _describe(
        info,
        content,
        splits,
        "own folder",
        class_names=own.class_names(),
        files_sha256=digest,
        duplicates=count_duplicates(content) if info.kind == "image" else None,
    )
    write_prepared(folder, content, description)
    return description


def split_sizes(info: DatasetInfo, train: int | None, test: int | None) -> dict[str, int]:
    """Return the examples of each split, at most as many as asked for; refuse more than it has."""
    splits = {}
    for split, size in info.splits.items():
        field, limit = ("train_examples", train) if split == "train" else ("test_examples", test)
        if limit is not None and not 1 <= limit <= size:
            raise UserError(field, limit, f"1 to {size} for {info.name}")
        splits[split] = size if limit is None else limit
    return splits


def _is_up_to_date(
    description: DatasetDescription,
    source: DataSource,
    raw_files: RawFiles | None,
    splits: Mapping[str, int],
    seed: int,
) -> bool:
    """Whether a prepared set is what would be built."""
    if description.splits != splits:
        return False
    if description.source == "real":
        return source != "synthetic"
    is_same_generator = (description.seed, description.generator) == (seed, GENERATOR_VERSION)
    return is_same_generator and source != "real" and raw_files is None


def _describe(
    info: DatasetInfo,
    content: DatasetArrays,
    splits: Mapping[str, int],
    origin: Origin,
    **more: Any,
) -> DatasetDescription:
    images = content.arrays.get("train_images")
    mean, std = ((), ()) if images is None else channel_moments(images)
    return DatasetDescription(
        format=DESCRIPTION_FORMAT,
        name=info.name,
        kind=info.kind,
        source=_SOURCES.get(origin, "real"),
        origin=origin,
        shape=info.shape,
        classes=info.classes,
        splits=dict(splits),
        mean=mean,
        std=std,
        sha256={name: hash_array(array) for name, array in content.arrays.items()},
        **more,
    )

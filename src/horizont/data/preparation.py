"""One call from nothing to a prepared data set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

from horizont.data.catalogue import DatasetInfo, dataset_info
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
from horizont.data.sources import (
    ProgressCallback,
    RawFiles,
    fetch,
    locate,
    no_progress,
    read_content,
)
from horizont.errors import UserError

SourceChoice = Literal["synthetic", "available", "real"]


def prepare(
    name: str,
    source: SourceChoice,
    raw_dir: Path,
    out_dir: Path,
    *,
    mirror: Path | None = None,
    train_examples: int | None = None,
    test_examples: int | None = None,
    progress: ProgressCallback | None = None,
    seed: int = 0,
) -> DatasetDescription:
    """Make ``out_dir/<name>`` hold a data set in canonical form.

    A folder that is already whole and is what is asked for stays as it is.

    Parameters
    ----------
    name
        A name of the catalogue.
    source
        ``synthetic``: the stand-in. ``real``: the real set, fetched if need be. ``available``:
        the real set if it can be had without network, else the stand-in.
    raw_dir, out_dir
        Folders of raw and of prepared sets, with one folder a set inside.
    mirror
        A folder with official archives, or with one such folder a set inside.
    train_examples, test_examples
        How many examples to keep of the training split and of each other one, the first ones;
        for text, words. ``None``: all.
    progress
        Called with a step and the share of it that is done.
    seed
        Of the stand-in.

    Raises
    ------
    UserError
        If a value is impossible, the real set cannot be had or is damaged, or the prepared set
        cannot be written.
    """
    _check_request(source, seed)
    info = dataset_info(name)
    splits = _split_sizes(info, train_examples, test_examples)
    found = None if source == "synthetic" else locate(info, raw_dir, mirror)
    folder, tell = out_dir / name, progress or no_progress
    kept = _existing_description(folder)
    if kept is not None and _is_up_to_date(kept, source, found, splits, seed):
        return kept
    if source == "real" and found is None:
        found = fetch(info, raw_dir, tell)
    if found is None:
        content, about = _generate_synthetic(info, splits, seed, tell)
    else:
        content, about = _read_real(info, found, splits, tell)
    tell(f"writing {folder}", 0.0)
    write_prepared(folder, content, about)
    tell(f"writing {folder}", 1.0)
    return about


def _check_request(source: str, seed: int) -> None:
    if source not in get_args(SourceChoice):
        raise UserError("source", source, get_args(SourceChoice))
    if seed < 0:
        raise UserError("seed", seed, "0 or more")


def _split_sizes(info: DatasetInfo, train: int | None, test: int | None) -> dict[str, int]:
    splits = {}
    for split, size in info.splits.items():
        field, wanted = ("train_examples", train) if split == "train" else ("test_examples", test)
        if wanted is not None and not 1 <= wanted <= size:
            raise UserError(field, wanted, f"1 to {size} for {info.name}")
        splits[split] = size if wanted is None else wanted
    return splits


def _existing_description(folder: Path) -> DatasetDescription | None:
    try:
        return load(folder, verify=True).description
    except UserError:  # missing or damaged: either way it is built anew
        return None


def _is_up_to_date(
    description: DatasetDescription,
    source: SourceChoice,
    found: RawFiles | None,
    splits: Mapping[str, int],
    seed: int,
) -> bool:
    """Return whether a prepared set is what would be built."""
    if description.splits != splits:
        return False
    if description.source == "real":
        return source != "synthetic"
    same_law = (description.seed, description.generator) == (seed, GENERATOR_VERSION)
    return same_law and source != "real" and found is None


def _read_real(
    info: DatasetInfo, found: RawFiles, splits: Mapping[str, int], progress: ProgressCallback
) -> tuple[DatasetArrays, DatasetDescription]:
    progress(f"reading {found.folder}", 0.0)
    content = read_content(info, found.folder).head(splits)
    return content, _describe(info, content, splits, found.origin)


def _generate_synthetic(
    info: DatasetInfo, splits: Mapping[str, int], seed: int, progress: ProgressCallback
) -> tuple[DatasetArrays, DatasetDescription]:
    # Only here, like pooch: processes that train import this package, and make no data.
    from horizont.data.synthetic import synthesise

    made = synthesise(info, splits, seed, progress)
    about = _describe(info, made.content, splits, "generated")
    best = {"best_accuracy": made.best_accuracy, "best_perplexity": made.best_perplexity}
    extra = {**best, "seed": seed, "generator": GENERATOR_VERSION}
    return made.content, about.model_copy(update=extra)


def _describe(
    info: DatasetInfo, content: DatasetArrays, splits: Mapping[str, int], origin: Origin
) -> DatasetDescription:
    images = content.arrays.get("train_images")
    mean, std = ((), ()) if images is None else channel_moments(images)
    return DatasetDescription(
        format=DESCRIPTION_FORMAT,
        name=info.name,
        kind=info.kind,
        source="synthetic" if origin == "generated" else "real",
        origin=origin,
        shape=info.shape,
        classes=info.classes,
        splits=dict(splits),
        mean=mean,
        std=std,
        sha256={name: hash_array(array) for name, array in content.arrays.items()},
    )

"""One call from nothing to a prepared data set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

from horizont.data.about import FORMAT, GENERATOR, About, Origin, channel_moments, hash_array
from horizont.data.canonical import load, write
from horizont.data.catalogue import DatasetInfo, dataset_info
from horizont.data.content import Content
from horizont.data.progress import Progress, silent
from horizont.data.sources import Source, fetch, locate
from horizont.data.unpack import read_content
from horizont.errors import UserError

Choice = Literal["synthetic", "available", "real"]


def prepare(
    name: str,
    source: Choice,
    raw_dir: Path,
    out_dir: Path,
    *,
    mirror: Path | None = None,
    train_examples: int | None = None,
    test_examples: int | None = None,
    progress: Progress | None = None,
    seed: int = 0,
) -> About:
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
    splits = _limit(info, train_examples, test_examples)
    found = None if source == "synthetic" else locate(info, raw_dir, mirror)
    folder, tell = out_dir / name, progress or silent
    kept = _kept(folder)
    if kept is not None and _suits(kept, source, found, splits, seed):
        return kept
    if source == "real" and found is None:
        found = fetch(info, raw_dir, tell)
    if found is None:
        content, about = _generate(info, splits, seed, tell)
    else:
        content, about = _read(info, found, splits, tell)
    tell(f"writing {folder}", 0.0)
    write(folder, content, about)
    tell(f"writing {folder}", 1.0)
    return about


def _check_request(source: str, seed: int) -> None:
    if source not in get_args(Choice):
        raise UserError("source", source, get_args(Choice))
    if seed < 0:
        raise UserError("seed", seed, "0 or more")


def _limit(info: DatasetInfo, train: int | None, test: int | None) -> dict[str, int]:
    splits = {}
    for split, size in info.splits.items():
        field, wanted = ("train_examples", train) if split == "train" else ("test_examples", test)
        if wanted is not None and not 1 <= wanted <= size:
            raise UserError(field, wanted, f"1 to {size} for {info.name}")
        splits[split] = size if wanted is None else wanted
    return splits


def _kept(folder: Path) -> About | None:
    try:
        return load(folder, verify=True).about
    except UserError:  # missing or damaged: either way it is built anew
        return None


def _suits(
    about: About, source: Choice, found: Source | None, splits: Mapping[str, int], seed: int
) -> bool:
    """Return whether a prepared set is what would be built."""
    if about.splits != splits:
        return False
    if about.source == "real":
        return source != "synthetic"
    same_law = (about.seed, about.generator) == (seed, GENERATOR)
    return same_law and source != "real" and found is None


def _read(
    info: DatasetInfo, found: Source, splits: Mapping[str, int], tell: Progress
) -> tuple[Content, About]:
    tell(f"reading {found.folder}", 0.0)
    content = read_content(info, found.folder).first(splits)
    return content, _describe(info, content, splits, found.origin)


def _generate(
    info: DatasetInfo, splits: Mapping[str, int], seed: int, tell: Progress
) -> tuple[Content, About]:
    # Only here, like pooch: processes that train import this package, and make no data.
    from horizont.data.synthetic import synthesise

    made = synthesise(info, splits, seed, tell)
    about = _describe(info, made.content, splits, "generated")
    best = {"best_accuracy": made.best_accuracy, "best_perplexity": made.best_perplexity}
    extra = {**best, "seed": seed, "generator": GENERATOR}
    return made.content, about.model_copy(update=extra)


def _describe(
    info: DatasetInfo, content: Content, splits: Mapping[str, int], origin: Origin
) -> About:
    images = content.arrays.get("train_images")
    mean, std = ((), ()) if images is None else channel_moments(images)
    return About(
        format=FORMAT,
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

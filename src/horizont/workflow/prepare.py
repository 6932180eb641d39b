"""The data sets of a study, prepared before training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from horizont.config.run import Run
from horizont.config.study import Study, read_study
from horizont.data.catalogue import DatasetInfo
from horizont.data.files import write_files_if_missing
from horizont.data.own import check_name, find_info, find_own
from horizont.data.preparation import prepare
from horizont.data.prepared import DatasetDescription, ImageData, load
from horizont.networks.catalogue import network_for
from horizont.networks.network import summary
from horizont.workflow.check import load_study, read_settings
from horizont.workflow.paths import Paths, study_paths


def ensure_prepared(study: Study, dataset: str, paths: Paths) -> DatasetDescription:
    """Prepare a data set unless it is prepared."""
    return prepare(
        dataset,
        study.data.source,
        paths.raw,
        paths.prepared_sets,
        own=find_own(study.data, dataset, paths.root),
        mirror=study.data.mirror,
        train_examples=study.data.train_examples,
        test_examples=study.data.test_examples,
    )


def prepare_subset(dataset: str, examples: int, folder: Path, paths: Paths) -> DatasetDescription:
    """Prepare the first examples of a data set in another folder, without downloading."""
    settings = read_settings(paths).data
    return prepare(
        dataset,
        "synthetic" if settings.source == "synthetic" else "available",
        paths.raw,
        folder,
        own=find_own(settings, dataset, paths.root),
        mirror=settings.mirror,
        train_examples=examples,
        test_examples=100,
    )


def prepare_files(run: Run, paths: Paths) -> Path | None:
    """Write the files that a run reads; return None if it reads none."""
    if not run.input.from_files:
        return None
    data = load(paths.prepared(run.workload.dataset))
    assert isinstance(data, ImageData), "load_study refuses a text"
    return write_files_if_missing(data, paths.files(run.workload.dataset))


def prepare_dataset(dataset: str) -> DatasetDescription:
    """Prepare a data set of the current study."""
    paths = study_paths()
    study = read_settings(paths)
    check_name(study.data, dataset)
    return ensure_prepared(study, dataset, paths)


def ignored_images(dataset: str) -> list[Path]:
    """List the images of a user's data set that belong to no class."""
    paths = study_paths()
    own = find_own(read_study(paths.params).data, dataset, paths.root)
    return own.ignored_images() if own is not None else []


def limited_splits(description: DatasetDescription) -> dict[str, tuple[int, str]]:
    """Return the whole size of each split that is prepared in part, and the setting that limits it.

    Only the first examples of such a split, of a text words, are used.
    """
    sizes = dataset_facts(description.name).splits
    return {
        split: (size, "data.train_examples" if split == "train" else "data.test_examples")
        for split, size in sizes.items()
        if description.splits[split] < size
    }


def dataset_facts(dataset: str) -> DatasetInfo:
    """Return title, licence and citation of a data set of the current study, and more."""
    paths = study_paths()
    return find_info(read_study(paths.params).data, dataset, paths.root)


def network_table(workload: str) -> list[dict[str, Any]]:
    """List the layers of a workload's network; see :func:`horizont.networks.network`."""
    paths = study_paths()
    study = load_study(paths)
    settings = study.workload(workload)
    dataset = ensure_prepared(study, settings.dataset, paths)
    return summary(network_for(settings, dataset.shape, dataset.classes))

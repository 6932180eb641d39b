"""The data of a study, made ready before anything is trained on them."""

from __future__ import annotations

from pathlib import Path

from horizont.data import About, ImageData, dataset_info, load, prepare
from horizont.data.files import ensure_files
from horizont.errors import UserError
from horizont.pipeline.paths import Paths, study_paths
from horizont.spec import Run, Study, read_study


def ensure_data(study: Study, dataset: str, paths: Paths) -> About:
    """Make a data set ready, or find it ready.

    Raises
    ------
    UserError
        If there is no such set, or the real one is asked for and cannot be had.
    """
    dataset_info(dataset)
    return prepare(
        dataset,
        study.data.source,
        paths.raw,
        paths.prepared_sets,
        mirror=study.data.mirror,
        train_examples=study.data.train_examples,
        test_examples=study.data.test_examples,
    )


def files_for(run: Run, paths: Paths) -> Path | None:
    """Make the files ready that a run reads; nothing if it reads none."""
    if not run.input.from_files:
        return None
    data = load(paths.prepared(run.workload.dataset))
    if not isinstance(data, ImageData):
        raise UserError("input.source", "files", f"memory where {run.workload_name} reads a text")
    return ensure_files(data, paths.files(run.workload.dataset))


def prepare_dataset(dataset: str) -> About:
    """Make a data set of the current study ready."""
    paths = study_paths()
    return ensure_data(read_study(paths.params), dataset, paths)

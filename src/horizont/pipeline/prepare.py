"""The data of a study, made ready before anything is trained on them."""

from __future__ import annotations

from horizont.data import About, dataset_info, prepare
from horizont.pipeline.paths import Paths, study_paths
from horizont.spec import Study, read_study


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


def prepare_dataset(dataset: str) -> About:
    """Make a data set of the current study ready."""
    paths = study_paths()
    return ensure_data(read_study(paths.params), dataset, paths)

"""Settings checked against what there is: data sets and networks, before anything starts."""

from __future__ import annotations

from horizont.data import dataset_info
from horizont.errors import UserError
from horizont.networks import network_for
from horizont.pipeline.paths import Paths
from horizont.spec import Study, read_study


def checked_study(paths: Paths) -> Study:
    """Read the settings, and look up each data set and network that they name.

    Raises
    ------
    UserError
        With the path of the first wrong setting.
    """
    study = read_study(paths.params)
    for name, workload in study.workloads.items():
        try:
            info = dataset_info(workload.dataset)
            network_for(workload, info.shape, info.classes)
        except UserError as error:
            raise UserError(f"workloads.{name}.{error.field}", error.value, error.allowed) from None
    return study

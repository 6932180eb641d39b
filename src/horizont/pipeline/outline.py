"""The network of a workload, as a table."""

from __future__ import annotations

from typing import Any

from horizont.networks import network_for, outline
from horizont.pipeline.check import checked_study
from horizont.pipeline.paths import Paths, study_paths
from horizont.pipeline.prepare import ensure_data


def outline_of(workload: str, paths: Paths | None = None) -> list[dict[str, Any]]:
    """List the layers of a workload's network; see :func:`horizont.networks.outline`."""
    paths = paths or study_paths()
    study = checked_study(paths)
    described = study.workload(workload)
    about = ensure_data(study, described.dataset, paths)
    return outline(network_for(described, about.shape, about.classes))

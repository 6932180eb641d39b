"""Chapter 8 on real processes: a slowed worker, in a run that waits and in one that does not."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from horizont.config.run import Run
from horizont.config.system import installed_version
from horizont.data.prepared import ImageData, load
from horizont.errors import MissingFramework
from horizont.records.record import Record
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.trained import DATASET, theory_data, theory_record, theory_run

#: The same framework with both ways to keep its workers in step.
SYSTEMS = ("pytorch/sync/allreduce", "pytorch/async/parameter_server")

#: From its third step on, worker 1 runs for a quarter of the time.
INCIDENT = {"kind": "throttle", "target": "worker", "rank": 1, "at_step": 3, "cpu_fraction": 0.25}


def slowed_runs(steps: int, paths: Paths | None = None) -> list[Record]:
    """Train the LeNet variant with a slowed worker, synchronously and not, or find it done.

    On data and records of their own, below `data/theory`. The updates of the asynchronous
    server are recorded, in which order and how stale.

    Parameters
    ----------
    steps
        Of each worker.

    Raises
    ------
    UserError
        If PyTorch is not installed, or a run failed.
    """
    if installed_version("pytorch") is None:
        raise MissingFramework("pytorch")
    paths = paths or study_paths()
    about = theory_data(paths)
    return [theory_record(_run(system, steps, paths), about, paths) for system in SYSTEMS]


def pooled_batches(
    batch: int, paths: Paths | None = None
) -> tuple[NDArray[Any], NDArray[Any], bool]:
    """Cut the images of the theory's data set into batches for a network in NumPy.

    Returns
    -------
    tuple
        Images of 14 by 14 pixels, each the mean of four, as rows with mean 0 and variance 1,
        (batches, batch, 196); classes (batches, batch); and whether they are synthetic.
    """
    paths = paths or study_paths()
    about = theory_data(paths)
    data = cast(ImageData, load(paths.textbook / DATASET))
    count = len(data.train_images) // batch
    pixels = np.asarray(data.train_images[: count * batch, 0], dtype=np.float64)
    small = pixels.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))
    rows = (small - small.mean()) / small.std()
    labels = np.asarray(data.train_labels[: count * batch], dtype=np.int64)
    synthetic = about.source == "synthetic"
    return rows.reshape(count, batch, 196), labels.reshape(count, batch), synthetic


def _run(system: str, steps: int, paths: Paths) -> Run:
    is_async = "async" in system
    own = {
        "topology": {"workers": 2, "servers": int(is_async)},
        "record_updates": "order" if is_async else "none",
        "fault": INCIDENT,
        "timeout_s": 120,
    }
    return theory_run(system, steps, paths, own)

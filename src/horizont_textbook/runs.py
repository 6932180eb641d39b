"""Short real training runs for chapters 4 and 8, with data and records of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np

from horizont.config.run import Run
from horizont.config.study import read_study
from horizont.config.system import FRAMEWORKS, installed_version, parse_system
from horizont.data.prepared import ImageData, load
from horizont.errors import MissingFramework, UserError
from horizont.networks.catalogue import network_for
from horizont.networks.weights import initial_weights
from horizont.records.record import Record
from horizont.workflow.measure import execute_runs
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.prepare import prepare_subset
from horizont_textbook import Array

WORKLOAD = "lenet-fashion-mnist"
DATASET = "fashion-mnist"
EXAMPLES = 6000

#: From its third step on, worker 1 runs a quarter of the time.
FAULT = {"kind": "throttle", "target": "worker", "rank": 1, "at_step": 3, "cpu_fraction": 0.25}


class FirstLayer(NamedTuple):
    """The filters of the first layer around training, a normalised test image, and the losses."""

    before: Array
    after: Array
    image: Array
    losses: Array


def train_first_layer(steps: int) -> FirstLayer:
    """Train the LeNet variant on Fashion-MNIST, or load the record of that run.

    Raises
    ------
    UserError
        If no framework is installed, or the training failed.
    """
    names = [name for name in ("pytorch", *FRAMEWORKS) if installed_version(name)]
    if not names:
        raise UserError("framework", "none is installed", list(FRAMEWORKS))
    fields = {"topology": {"workers": 1}, "save_weights": True, "timeout_s": 240}
    (record,) = _execute(steps, {f"{names[0]}/local": fields})
    images = _load_images()
    about = images.description
    network = network_for(record.run.workload, about.shape, about.classes)
    before = initial_weights(network, record.run.seed)["conv1.weight"]
    with np.load(record.folder / "weights.npz") as weights:
        after = weights["conv1.weight"]
    pixels = np.asarray(images.test_images[0], dtype=np.float64) / 255
    mean, deviation = (np.array(v)[:, None, None] for v in (about.mean, about.std))
    losses = np.array(record.steps()["loss"].to_pylist())
    return FirstLayer(before, after, (pixels - mean) / deviation, losses)


def run_with_slow_worker(steps: int) -> list[Record]:
    """Train the LeNet variant with a slowed worker, synchronously and asynchronously.

    Raises
    ------
    UserError
        If PyTorch is not installed, or a run failed.
    """
    if installed_version("pytorch") is None:
        raise MissingFramework("pytorch")
    fault = {"fault": FAULT, "timeout_s": 120}
    synchronous = {"topology": {"workers": 2}, **fault}
    asynchronous = {"topology": {"workers": 2, "servers": 1}, "record_updates": "order", **fault}
    runs = {"pytorch/sync/allreduce": synchronous, "pytorch/async/parameter_server": asynchronous}
    return _execute(steps, runs)


def downsampled_batches(batch: int) -> tuple[Array, Array, bool]:
    """Return batches of images for a network in NumPy, and whether they are synthetic.

    Each of 14 by 14 pixels is the mean of four; (batches, batch, 196) and (batches, batch).
    """
    images = _load_images()
    count = len(images.train_images) // batch
    pixels = np.asarray(images.train_images[: count * batch, 0], dtype=np.float64)
    small = pixels.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))
    rows = ((small - small.mean()) / small.std()).reshape(count, batch, 196)
    labels = np.asarray(images.train_labels[: count * batch], dtype=np.int64)
    return rows, labels.reshape(count, batch), images.description.source == "synthetic"


def _load_images() -> ImageData:
    """Prepare a part of the data set, without downloading, and open it."""
    paths = study_paths()
    folder = Paths(paths.textbook).prepared_sets
    prepare_subset(DATASET, EXAMPLES, folder, paths)
    return cast(ImageData, load(folder / DATASET))


def _execute(steps: int, fields_by_system: Mapping[str, Mapping[str, Any]]) -> list[Record]:
    """Execute a short run of the workload on each system, or load its record."""
    paths = study_paths()
    study = read_study(paths.params)
    common = {
        "experiment": "chapters",
        "workload_name": WORKLOAD,
        "workload": study.workload(WORKLOAD).model_dump(),
        "steps": {"warmup": 1, "timed": steps, "instrumented": 0},
        "global_batch": 42,
        "block": 0,
        "seed": study.seed,
        "sampler_hz": 0,
    }
    runs = [
        Run.model_validate({**common, **fields, "system": parse_system(system)})
        for system, fields in fields_by_system.items()
    ]
    records = execute_runs(runs, _load_images().description, Paths(paths.textbook))
    for record in records:
        if not record.ok:
            reason = str(record.result.reason)
            raise UserError("chapters", reason, "a network that could be trained")
    return records

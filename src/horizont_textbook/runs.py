"""Short real training runs for chapters 4 and 8, with data and records of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from horizont.config.run import Run
from horizont.config.study import read_study
from horizont.config.system import (
    FRAMEWORKS,
    framework_distributions,
    installed_version,
    parse_system,
)
from horizont.data.preparation import prepare
from horizont.data.prepared import DatasetDescription, ImageData, load
from horizont.errors import MissingFramework, UserError
from horizont.launchers.execute import RunPaths, execute
from horizont.monitoring.environment import describe_environment
from horizont.networks.catalogue import network_for
from horizont.networks.weights import initial_weights
from horizont.records.files import read_table
from horizont.records.provenance import run_key
from horizont.records.record import Record, RecordWriter, find_record
from horizont.workflow.measure import exclusive_measurement
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.progress import Progress
from horizont.workflow.provenance import run_provenance
from horizont_textbook import Array

WORKLOAD = "lenet-fashion-mnist"
DATASET = "fashion-mnist"
EXAMPLES = 6000

#: The same framework, synchronous and asynchronous.
SYSTEMS = ("pytorch/sync/allreduce", "pytorch/async/parameter_server")

#: From its third step on, worker 1 runs a quarter of the time.
FAULT = {"kind": "throttle", "target": "worker", "rank": 1, "at_step": 3, "cpu_fraction": 0.25}


@dataclass(frozen=True)
class FirstLayer:
    """The filters of the first layer around training, a normalised test image, and the losses."""

    before: Array
    after: Array
    image: Array
    losses: Array


def train_first_layer(steps: int, paths: Paths | None = None) -> FirstLayer:
    """Train the LeNet variant on Fashion-MNIST, or load the record of that run.

    Raises
    ------
    UserError
        If no framework is installed, or the training failed.
    """
    paths = paths or study_paths()
    names = [name for name in ("pytorch", *FRAMEWORKS) if installed_version(name)]
    if not names:
        raise UserError("framework", "none is installed", list(FRAMEWORKS))
    dataset = prepare_data(paths)
    fields = {"topology": {"workers": 1}, "save_weights": True, "timeout_s": 240}
    run = _run(f"{names[0]}/local", steps, paths, fields)
    record = _measure(run, dataset, paths)
    network = network_for(run.workload, dataset.shape, dataset.classes)
    before = initial_weights(network, run.seed)["conv1.weight"]
    with np.load(record.folder / "weights.npz") as weights:
        after = weights["conv1.weight"]
    pixels = np.asarray(_images(paths).test_images[0], dtype=np.float64) / 255
    mean, deviation = (np.array(v)[:, None, None] for v in (dataset.mean, dataset.std))
    losses = np.array(read_table(record.folder / "steps.parquet")["loss"].to_pylist())
    return FirstLayer(before, after, (pixels - mean) / deviation, losses)


def run_with_slow_worker(steps: int, paths: Paths | None = None) -> list[Record]:
    """Train the LeNet variant with a slowed worker, synchronously and asynchronously.

    Raises
    ------
    UserError
        If PyTorch is not installed, or a run failed.
    """
    if installed_version("pytorch") is None:
        raise MissingFramework("pytorch")
    paths = paths or study_paths()
    dataset, records = prepare_data(paths), []
    for system in SYSTEMS:
        is_async = "async" in system
        fields = {
            "topology": {"workers": 2, "servers": int(is_async)},
            "record_updates": "order" if is_async else "none",
            "fault": FAULT,
            "timeout_s": 120,
        }
        records.append(_measure(_run(system, steps, paths, fields), dataset, paths))
    return records


def downsampled_batches(batch: int, paths: Paths | None = None) -> tuple[Array, Array, bool]:
    """Return batches of images for a network in NumPy, and whether they are synthetic.

    Each of 14 by 14 pixels is the mean of four; (batches, batch, 196) and (batches, batch).
    """
    paths = paths or study_paths()
    dataset = prepare_data(paths)
    images = _images(paths)
    count = len(images.train_images) // batch
    pixels = np.asarray(images.train_images[: count * batch, 0], dtype=np.float64)
    small = pixels.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))
    rows = ((small - small.mean()) / small.std()).reshape(count, batch, 196)
    labels = np.asarray(images.train_labels[: count * batch], dtype=np.int64)
    return rows, labels.reshape(count, batch), dataset.source == "synthetic"


def prepare_data(paths: Paths) -> DatasetDescription:
    """Prepare a part of the data set; nothing is downloaded for this."""
    settings = read_study(paths.params).data
    return prepare(
        DATASET,
        "synthetic" if settings.source == "synthetic" else "available",
        paths.raw,
        paths.textbook,
        mirror=settings.mirror,
        train_examples=EXAMPLES,
        test_examples=100,
    )


def _images(paths: Paths) -> ImageData:
    return cast(ImageData, load(paths.textbook / DATASET))


def _run(system: str, steps: int, paths: Paths, fields: Mapping[str, Any]) -> Run:
    """Build a short run of the workload, with some fields replaced."""
    study = read_study(paths.params)
    return Run.model_validate(
        {
            "experiment": "chapters",
            "workload_name": WORKLOAD,
            "workload": study.workload(WORKLOAD).model_dump(),
            "system": parse_system(system),
            "steps": {"warmup": 1, "timed": steps, "instrumented": 0},
            "global_batch": 42,
            "block": 0,
            "seed": study.seed,
            "sampler_hz": 0,
            **fields,
        }
    )


def _measure(run: Run, dataset: DatasetDescription, paths: Paths) -> Record:
    """Run it, or load its record.

    Raises
    ------
    UserError
        If the run failed.
    """
    store = paths.textbook / "runs"
    RecordWriter.remove_abandoned(store)
    provenance = run_provenance(run, dataset)
    key = run_key(run, provenance)
    if record := _successful(store, key):
        return record
    progress = Progress("training", 1)
    progress.start(f"{run.workload_name} {run.system.name}")
    environment = {**describe_environment(framework_distributions()), "provenance": provenance}
    run_paths = RunPaths(store, paths.textbook / DATASET, environment)
    with exclusive_measurement(progress.message):
        # Another chapter may have executed it during the wait for the lock.
        record = _successful(store, key) or execute(run, key, run_paths, progress.update)
    progress.finish("done")
    progress.close()
    if not record.ok:
        raise UserError("chapters", str(record.result.reason), "a network that could be trained")
    return record


def _successful(store: Path, key: str) -> Record | None:
    record = find_record(store, key)
    return record if record is not None and record.ok else None

"""A small network, trained for a moment, for the chapter that looks at its filters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from horizont.config.run import Run
from horizont.config.study import read_study
from horizont.config.system import FRAMEWORKS, installed_version, parse_system
from horizont.data.preparation import prepare
from horizont.data.prepared import DatasetDescription, ImageData, load
from horizont.errors import UserError
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

WORKLOAD = "lenet-fashion-mnist"
DATASET = "fashion-mnist"
EXAMPLES = 6000


@dataclass(frozen=True)
class FirstLayer:
    """The first layer of a trained network, and an image to look at.

    Attributes
    ----------
    before, after
        Its filters, (filters, channels, height, width).
    image
        (channels, height, width), normalised as for training.
    about
        The data set.
    record
        Of the run that trained it.
    """

    before: NDArray[Any]
    after: NDArray[Any]
    image: NDArray[Any]
    about: DatasetDescription
    record: Record

    @property
    def losses(self) -> NDArray[Any]:
        """The loss of each step."""
        return np.array(read_table(self.record.folder / "steps.parquet")["loss"].to_pylist())

    @property
    def first_loss(self) -> float:
        """The loss of the first step."""
        return float(self.losses[0])

    @property
    def last_loss(self) -> float:
        """The mean loss of the last ten steps."""
        return float(self.losses[-10:].mean())


def trained_first_layer(steps: int, paths: Paths | None = None) -> FirstLayer:
    """Train the LeNet variant on Fashion-MNIST for some steps, or find it trained.

    On data and a record of its own, below `data/theory`: the study may have neither.

    Raises
    ------
    UserError
        If no framework is installed, or the training failed.
    """
    paths = paths or study_paths()
    about = theory_data(paths)
    run = _run(steps, paths)
    record = theory_record(run, about, paths)
    with np.load(record.folder / "weights.npz") as weights:
        after = weights["conv1.weight"]
    before = initial_weights(network_for(run.workload, about.shape, about.classes), run.seed)
    data = cast(ImageData, load(paths.textbook / DATASET))
    pixels = np.asarray(data.test_images[0], dtype=np.float64) / 255
    mean, std = (np.array(values)[:, None, None] for values in (about.mean, about.std))
    return FirstLayer(before["conv1.weight"], after, (pixels - mean) / std, about, record)


def theory_data(paths: Paths) -> DatasetDescription:
    """Make the theory's data set ready, below `data/theory`."""
    return part_of(DATASET, EXAMPLES, paths.textbook, paths)


def part_of(dataset: str, examples: int, folder: Path, paths: Paths) -> DatasetDescription:
    """Make a part of a set ready in a folder of its own; nothing is fetched for this."""
    settings = read_study(paths.params).data
    return prepare(
        dataset,
        "synthetic" if settings.source == "synthetic" else "available",
        paths.raw,
        folder,
        mirror=settings.mirror,
        train_examples=examples,
        test_examples=100,
    )


def _run(steps: int, paths: Paths) -> Run:
    names = [name for name in ("pytorch", *FRAMEWORKS) if installed_version(name)]
    if not names:
        raise UserError("framework", "none is installed", list(FRAMEWORKS))
    own = {"topology": {"workers": 1}, "save_weights": True, "timeout_s": 240}
    return theory_run(f"{names[0]}/local", steps, paths, own)


def theory_run(system: str, steps: int, paths: Paths, own: Mapping[str, Any]) -> Run:
    """Describe a short run of the theory's workload, with fields of its own."""
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
            **own,
        }
    )


def theory_record(run: Run, about: DatasetDescription, paths: Paths) -> Record:
    """Make a run of the theory, or find it made.

    Raises
    ------
    UserError
        If it failed.
    """
    store = paths.textbook / "runs"
    RecordWriter.remove_abandoned(store)
    ground = run_provenance(run, about)
    key = run_key(run, ground)
    if found := _made(store, key):
        return found
    progress = Progress("training", 1)
    progress.start(f"{run.workload_name} {run.system.name}")
    place = RunPaths(
        store, paths.textbook / DATASET, {**describe_environment(), "provenance": ground}
    )
    with exclusive_measurement(progress.message):
        # Another chapter may have made it while we waited.
        record = _made(store, key) or execute(run, key, place, progress.update)
    progress.finish("done")
    progress.close()
    if not record.ok:
        raise UserError("chapters", str(record.result.reason), "a network that could be trained")
    return record


def _made(store: Path, key: str) -> Record | None:
    """Find a run that went well."""
    found = find_record(store, key)
    return found if found is not None and found.ok else None

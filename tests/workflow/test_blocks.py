"""Blocks between anchor runs: what drifts or is disturbed is repeated once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from tests.analysis.record_maker import make_record, make_study

from horizont.config.run import Run, StepCounts
from horizont.config.study import Anchor
from horizont.records.files import write_table
from horizont.records.record import Record
from horizont.workflow.blocks import RepeatedBlocks
from horizont.workflow.measure import run_experiment
from horizont.workflow.paths import Paths
from horizont.workflow.progress import Progress
from horizont.workflow.reference import pack_experiment

pytestmark = pytest.mark.framework("mxnet")  # starts fastest

LEAST_DRIFT = 1e-9


def study_with_anchor(paths: Paths) -> Path:
    """Write a study of one run and an anchor, and return the folder of its records."""
    values = yaml.safe_load(paths.params.read_text())
    values["anchor"] = {
        "workload": "lenet5-cifar10",
        "system": "mxnet/local",
        "batch": 8,
        # Twenty steps may take twice as long on a busy machine.
        "steps": {"warmup": 1, "timed": 200},
        "max_drift": LEAST_DRIFT,
    }
    steps = {"warmup": 2, "timed": 8}
    values["experiments"]["local"] |= {"systems": ["mxnet/local"], "views": [], "steps": steps}
    paths.params.write_text(yaml.safe_dump(values))
    return paths.records("local", "lenet5-cifar10")


def folders(store: Path) -> dict[str, int]:
    """Count the records that are valid, of anchors, and superseded."""
    found = [path.parent.parent.name for path in store.rglob("result.json")]
    return {name: found.count(name) for name in ("lenet5-cifar10", "anchors", "superseded")}


@pytest.fixture
def busy_cpu() -> Iterator[None]:
    """Keep a CPU busy."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        yield
        process.kill()


def test_a_block_that_drifts_is_repeated_once(study_folder: Paths) -> None:
    store = study_with_anchor(study_folder)
    of_another_block = store / "anchors" / "of-another-block"
    of_another_block.mkdir(parents=True)
    (record,) = run_experiment("local", "lenet5-cifar10", study_folder)
    assert record.ok
    assert folders(store) == {"lenet5-cifar10": 1, "anchors": 3, "superseded": 1}
    assert "1 runs (1 ok)" in pack_experiment("local", study_folder)
    assert of_another_block.exists()
    anchors = {path: path.stat().st_mtime_ns for path in store.rglob("result.json")}
    run_experiment("local", "lenet5-cifar10", study_folder)
    assert {path: path.stat().st_mtime_ns for path in store.rglob("result.json")} == anchors


def test_an_experiment_without_anchors_has_none(study_folder: Paths) -> None:
    store = study_with_anchor(study_folder)
    values = yaml.safe_load(study_folder.params.read_text())
    values["experiments"]["local"]["anchored"] = False
    study_folder.params.write_text(yaml.safe_dump(values))
    run_experiment("local", "lenet5-cifar10", study_folder)
    assert folders(store)["lenet5-cifar10"] == 1
    assert folders(store)["anchors"] == 0


@pytest.mark.parametrize(
    ("step_ms_of_anchors", "repetitions"),
    [
        ((10.0, 10.5), 0),
        ((10.0, 14.0, 10.5), 0),
        ((10.0, 14.0, 13.0, 13.0, 13.5), 1),
        ((10.0, 7.0, 7.5, 7.5, 7.0), 1),
    ],
)
def test_a_drift_has_to_be_confirmed(
    tmp_path: Path, step_ms_of_anchors: tuple[float, ...], repetitions: int
) -> None:
    remaining = iter(step_ms_of_anchors)
    anchor = Anchor(
        workload="lenet5-cifar10",
        system="pytorch/local",
        batch=8,
        steps=StepCounts(warmup=1, timed=5),
        max_drift=0.15,
    )

    def execute(run: Run, folder: Path) -> Record:
        record = make_record(folder, 0, run)
        if folder.name == "anchors":
            steps = record.steps().to_pandas().assign(step_s=next(remaining) / 1000)
            table = pa.Table.from_pandas(steps, preserve_index=False)
            write_table(record.folder / "steps.parquet", table)
        return record

    study = make_study(1, ["pytorch/local"])
    progress = Progress("run", 1)
    blocks = RepeatedBlocks(study, anchor, tmp_path, execute, lambda _: False, progress)
    blocks.execute_block(list(study.runs("local", "lenet5-cifar10")))
    assert not list(remaining)
    assert len(list(tmp_path.glob("superseded/*/result.json"))) == repetitions


@pytest.mark.usefixtures("busy_cpu")
def test_a_disturbed_run_is_repeated_once(
    study_folder: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine the anchors drift, too.
    monkeypatch.setattr("horizont.workflow.blocks._drift", lambda anchors: 0.0)
    store = study_with_anchor(study_folder)
    run_experiment("local", "lenet5-cifar10", study_folder)
    assert folders(store) == {"lenet5-cifar10": 1, "anchors": 2, "superseded": 1}

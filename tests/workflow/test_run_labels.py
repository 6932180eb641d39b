"""The label of a run says which point of a sweep it executes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from horizont.cli import main
from horizont.config.study import read_study
from horizont.workflow.paths import Paths
from horizont.workflow.run_labels import run_label

WORKLOAD = "lenet5-cifar10"


def write_sweep(paths: Paths, sweep: dict[str, Any], **settings: Any) -> None:
    values = yaml.safe_load(paths.params.read_text())
    experiment = {
        "kind": "sweep",
        "workloads": [WORKLOAD],
        "systems": ["pytorch/local"],
        "steps": {"warmup": 1, "timed": 2},
        "sweep": sweep,
    }
    values["experiments"] = {"points": experiment | settings}
    paths.params.write_text(yaml.safe_dump(values))


@pytest.mark.parametrize(
    ("sweep", "settings", "endings"),
    [
        ({"global_batch": [21, 42]}, {}, ["global_batch 21", "global_batch 42"]),
        (
            {"learning_rate": [0.1, 0.01]},
            {"global_batch": 8},
            ["learning_rate 0.1", "learning_rate 0.01"],
        ),
        (
            {"threads": [1, 2], "global_batch": [8]},
            {},
            ["global_batch 8, threads 1", "global_batch 8, threads 2"],
        ),
    ],
)
def test_the_varied_settings_are_in_the_label(
    study_folder: Paths, sweep: dict[str, Any], settings: dict[str, Any], endings: list[str]
) -> None:
    write_sweep(study_folder, sweep, **settings)
    study = read_study(study_folder.params)
    labels = [run_label(run, study) for run in study.runs("points", WORKLOAD)]
    assert labels == [f"{WORKLOAD} pytorch/local, block 1, {ending}" for ending in endings]


def test_links_have_their_rates(study_folder: Paths) -> None:
    topology = {"launcher": "emulated", "workers": 2}
    write_sweep(
        study_folder,
        {"link": [{}, {"rate_mbit": 100}]},
        systems=["pytorch/sync/allreduce"],
        topology=topology,
        global_batch=8,
    )
    study = read_study(study_folder.params)
    labels = [run_label(run, study) for run in study.runs("points", WORKLOAD)]
    assert [label.split(", ")[-1] for label in labels] == ["link no limit", "link 100 Mbit/s"]


def test_a_dry_run_prints_the_point(
    study_folder: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    write_sweep(study_folder, {"global_batch": [21, 42]})
    assert main(["run", "points", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    for batch in (21, 42):
        assert f"{WORKLOAD} pytorch/local, block 1, global_batch {batch}: 1 process" in shown

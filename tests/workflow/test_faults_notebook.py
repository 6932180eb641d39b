"""The notebook of incidents, from the settings to the table, with a real incident."""

from __future__ import annotations

import json

import pytest
import yaml

from horizont.workflow.measure import run_experiment
from horizont.workflow.notebooks import run_notebook
from horizont.workflow.paths import Paths

pytestmark = pytest.mark.framework

INCIDENT = {"kind": "kill", "target": "coordinator", "at_step": 3}


def test_the_table_of_incidents(study_folder: Paths) -> None:
    values = yaml.safe_load(study_folder.params.read_text())
    values["faults"] |= {
        "workloads": ["lenet5-cifar10"],
        "systems": ["pytorch/sync/allreduce"],
        "faults": [INCIDENT],
        "steps": {"warmup": 1, "timed": 5000, "instrumented": 0},
    }
    study_folder.params.write_text(yaml.safe_dump(values))
    executed = run_notebook("faults", {"workload": "lenet5-cifar10"}, study_folder)
    text = executed.read_text()
    assert "coordinator killed" in text
    assert "none: lost" in text
    told = json.loads(study_folder.metrics("faults-lenet5-cifar10").read_text())
    found = told["pytorch/sync/allreduce"]["coordinator killed, block 1"]
    assert found["outcome"] == "aborts"
    assert 3 <= found["steps"] < found["planned"] == 5001
    # What failed because of its incident is found finished, not made again.
    before = [path.stat().st_mtime_ns for path in study_folder.root.glob("records/**/result.json")]
    (record,) = run_experiment("faults", "lenet5-cifar10", study_folder)
    assert [(record.folder / "result.json").stat().st_mtime_ns] == before

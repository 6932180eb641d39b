"""The notebook of faults, from the settings to the table, with a real fault."""

from __future__ import annotations

import json

import pytest
import yaml

from horizont.workflow.experiment import execute_experiment
from horizont.workflow.measure import run_experiment
from horizont.workflow.paths import Paths

pytestmark = pytest.mark.framework("pytorch")

FAULT = {"kind": "kill", "target": "coordinator", "at_step": 3}


def test_the_table_of_faults(study_folder: Paths) -> None:
    values = yaml.safe_load(study_folder.params.read_text())
    values["experiments"]["faults"] = {
        "kind": "faults",
        "workloads": ["lenet5-cifar10"],
        "systems": ["pytorch/sync/allreduce"],
        "faults": [FAULT],
        "topology": {"workers": 2},
        "global_batch": 84,
        "steps": {"warmup": 1, "timed": 5000},
        "sampler_hz": 0,
        "stall_timeout_s": 10,
    }
    study_folder.params.write_text(yaml.safe_dump(values))
    (executed,) = execute_experiment("faults", study_folder)
    text = executed.read_text()
    assert "coordinator killed" in text
    assert "none: lost" in text
    outcomes = json.loads(study_folder.metrics("faults").read_text())["outcome"]["lenet5-cifar10"]
    assert outcomes["pytorch/sync/allreduce"] == {"coordinator killed, block 1": "aborts"}
    # A run that failed because of its fault is final, and not repeated.
    before = [path.stat().st_mtime_ns for path in study_folder.root.glob("records/**/result.json")]
    (record,) = run_experiment("faults", "lenet5-cifar10", study_folder)
    assert [(record.folder / "result.json").stat().st_mtime_ns] == before

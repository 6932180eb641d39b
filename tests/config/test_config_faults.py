"""Faults: their targets, and which are impossible."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.conftest import ROOT, small_run

from horizont.config.base import parse_config
from horizont.config.faults import FaultSpec
from horizont.config.run import Run
from horizont.config.study import Study
from horizont.config.system import parse_system
from horizont.errors import UserError

KILL = {"kind": "kill", "target": "worker", "rank": 1, "at_step": 2}


@pytest.mark.parametrize(
    ("system", "process"),
    [
        ("tensorflow/async/parameter_server", ("chief", 0)),
        ("tensorflow/sync/allreduce", ("worker", 0)),
        ("mxnet/async/parameter_server", ("scheduler", 0)),
        ("pytorch/async/parameter_server", ("worker", 0)),
    ],
)
def test_the_coordinator_is_the_process_that_the_others_connect_to(
    system: str, process: tuple[str, int]
) -> None:
    fault = FaultSpec(kind="kill", target="coordinator")
    assert fault.target_process(parse_system(system)) == process


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"target": "scheduler"}, "fault.target: 'scheduler'"),
        ({"rank": 2}, "fault.rank: 2 is not possible; allowed: below 2"),
        ({"at_step": 7}, "fault.at_step: 7 is not possible; allowed: below the 7 steps"),
        ({"kind": "throttle"}, "cpu_fraction: null"),
        ({"cpu_fraction": 0.5}, "cpu_fraction: 0.5"),
        (
            {"duration_s": 1},
            "duration_s: 1.0 is not possible; allowed: nothing for kind kill",
        ),
        ({"kind": "restart"}, "duration_s: null"),
        ({"target": "coordinator"}, "fault.rank: 1"),
    ],
)
def test_an_impossible_fault_is_refused(changes: dict[str, Any], field: str) -> None:
    values = small_run("pytorch/sync/allreduce").model_dump()
    values["fault"] = {**KILL, **changes}
    with pytest.raises(UserError, match=field):
        parse_config(Run, values)


def test_a_single_process_has_no_coordinator() -> None:
    with pytest.raises(UserError, match="worker in a single-process system"):
        FaultSpec(kind="kill", target="coordinator").target_process(parse_system("mxnet/local"))


def study_with(**fault: Any) -> Study:
    values = yaml.safe_load((ROOT / "params.yaml").read_text())
    profile = yaml.safe_load((ROOT / "profiles/faults.yaml").read_text())
    values["experiments"] = {"faults": {**profile["experiments"]["faults"], "faults": [fault]}}
    return parse_config(Study, values)


def test_a_fault_is_injected_into_every_system_with_its_target() -> None:
    runs = list(study_with(kind="kill", target="server").runs("faults", "lenet5-cifar10"))
    assert {run.system.architecture for run in runs} == {"parameter_server"}
    assert len(runs) == len({run.system.name for run in runs}) == 5


@pytest.mark.parametrize(
    ("fault", "field"),
    [
        (
            {"kind": "kill", "target": "worker", "rank": 2},
            r"experiments.faults.faults\[0\].rank: 2",
        ),
        (
            {"kind": "kill", "target": "worker", "at_step": 610},
            r"experiments.faults.faults\[0\].at_step",
        ),
        ({"kind": "throttle", "target": "worker"}, r"experiments.faults.faults\[0\].cpu_fraction"),
        ({"kind": "explode", "target": "worker"}, r"experiments.faults.faults\[0\].kind"),
    ],
)
def test_wrong_faults_of_a_study_are_refused(fault: dict[str, Any], field: str) -> None:
    with pytest.raises(UserError, match=field):
        study_with(**fault)

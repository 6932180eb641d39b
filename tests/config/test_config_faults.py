"""Incidents: who they happen to, and which cannot happen."""

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

KILLED = {"kind": "kill", "target": "worker", "rank": 1, "at_step": 2}


@pytest.mark.parametrize(
    ("system", "seat"),
    [
        ("tensorflow/async/parameter_server", ("chief", 0)),
        ("tensorflow/sync/allreduce", ("worker", 0)),
        ("mxnet/async/parameter_server", ("scheduler", 0)),
        ("pytorch/async/parameter_server", ("worker", 0)),
    ],
)
def test_the_coordinator_is_whom_the_others_meet_at(system: str, seat: tuple[str, int]) -> None:
    assert FaultSpec(kind="kill", target="coordinator").target_process(parse_system(system)) == seat


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"target": "scheduler"}, "incident.role: 'scheduler'"),
        ({"rank": 2}, "incident.rank: 2 is not possible; allowed: below 2"),
        ({"at_step": 7}, "incident.at_step: 7 is not possible; allowed: below the 7 steps"),
        ({"kind": "disconnect"}, "fault.kind: 'disconnect' .* emulated"),
        ({"kind": "throttle"}, "cpu_fraction: None"),
        ({"cpu_fraction": 0.5}, "cpu_fraction: 0.5"),
        (
            {"duration_s": 1},
            "duration_s: 1.0 is not possible; allowed: nothing where the kind is killed",
        ),
        ({"kind": "restart"}, "duration_s: None"),
        ({"target": "coordinator"}, "incident.rank: 1"),
    ],
)
def test_the_impossible_is_refused(changes: dict[str, Any], field: str) -> None:
    values = small_run("pytorch/sync/allreduce").model_dump()
    values["fault"] = {**KILLED, **changes}
    with pytest.raises(UserError, match=field):
        parse_config(Run, values)


def test_a_process_alone_has_no_coordinator() -> None:
    with pytest.raises(UserError, match="worker where one process trains alone"):
        FaultSpec(kind="kill", target="coordinator").target_process(parse_system("mxnet/local"))


def study(**incident: Any) -> Study:
    values = yaml.safe_load((ROOT / "params.yaml").read_text())
    values["faults"] |= {"workloads": ["lenet5-cifar10"], "faults": [incident]}
    return parse_config(Study, values)


def test_each_system_has_the_incidents_that_it_can_have() -> None:
    runs = list(study(kind="kill", target="server").runs("faults", "lenet5-cifar10"))
    assert {run.system.architecture for run in runs} == {"parameter_server"}
    assert len(runs) == len({run.system.name for run in runs}) == 5


@pytest.mark.parametrize(
    ("fault", "field"),
    [
        ({"kind": "kill", "target": "worker", "rank": 2}, "faults.faults.0.rank: 2"),
        ({"kind": "kill", "target": "worker", "at_step": 610}, "faults.faults.0.at_step"),
        ({"kind": "throttle", "target": "worker"}, "faults.faults.0.share"),
        ({"kind": "exploded", "target": "worker"}, "faults.faults.0.kind"),
        ({"kind": "disconnect", "target": "worker"}, "faults.faults.0.kind"),
    ],
)
def test_wrong_incidents_of_a_study_are_named(incident: dict[str, Any], field: str) -> None:
    with pytest.raises(UserError, match=field):
        study(**incident)

"""Incidents: who they happen to, and which cannot happen."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.conftest import ROOT, small_run

from horizont.errors import UserError
from horizont.spec import Incident, Run, Study, parse_system, validate

KILLED = {"kind": "killed", "role": "worker", "rank": 1, "at_step": 2}


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
    assert Incident(kind="killed", role="coordinator").seat(parse_system(system)) == seat


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"role": "scheduler"}, "incident.role: 'scheduler'"),
        ({"rank": 2}, "incident.rank: 2 is not possible; allowed: below 2"),
        ({"at_step": 7}, "incident.at_step: 7 is not possible; allowed: below the 7 steps"),
        ({"kind": "cut_off"}, "incident.kind: 'cut_off' .* emulated"),
        ({"kind": "slowed"}, "share: None"),
        ({"share": 0.5}, "share: 0.5"),
        ({"for_s": 1}, "for_s: 1.0 is not possible; allowed: nothing where the kind is killed"),
        ({"kind": "restarted"}, "for_s: None"),
        ({"role": "coordinator"}, "incident.rank: 1"),
    ],
)
def test_the_impossible_is_refused(changes: dict[str, Any], field: str) -> None:
    values = small_run("pytorch/sync/allreduce").model_dump()
    values["incident"] = {**KILLED, **changes}
    with pytest.raises(UserError, match=field):
        validate(Run, values)


def test_a_process_alone_has_no_coordinator() -> None:
    with pytest.raises(UserError, match="worker where one process trains alone"):
        Incident(kind="killed", role="coordinator").seat(parse_system("mxnet/local"))


def study(**incident: Any) -> Study:
    values = yaml.safe_load((ROOT / "params.yaml").read_text())
    values["incidents"] |= {"workloads": ["lenet5-cifar10"], "incidents": [incident]}
    return validate(Study, values)


def test_each_system_has_the_incidents_that_it_can_have() -> None:
    runs = list(study(kind="killed", role="server").runs("incidents", "lenet5-cifar10"))
    assert {run.system.architecture for run in runs} == {"parameter_server"}
    assert len(runs) == len({run.system.name for run in runs}) == 5


@pytest.mark.parametrize(
    ("incident", "field"),
    [
        ({"kind": "killed", "role": "worker", "rank": 2}, "incidents.incidents.0.rank: 2"),
        ({"kind": "killed", "role": "worker", "at_step": 610}, "incidents.incidents.0.at_step"),
        ({"kind": "slowed", "role": "worker"}, "incidents.incidents.0.share"),
        ({"kind": "exploded", "role": "worker"}, "incidents.incidents.0.kind"),
        ({"kind": "cut_off", "role": "worker"}, "incidents.incidents.0.kind"),
    ],
)
def test_wrong_incidents_of_a_study_are_named(incident: dict[str, Any], field: str) -> None:
    with pytest.raises(UserError, match=field):
        study(**incident)

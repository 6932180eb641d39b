"""Plans are complete before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import small_run

from horizont.config.system import SYSTEMS
from horizont.launchers.plan import RunPlan, plan_run, role_assignment


def planned(system: str, **topology: object) -> RunPlan:
    workers = 1 if "local" in system else 3
    servers = 2 if "parameter_server" in system else 0
    values = {"workers": workers, "servers": servers, **topology}
    run = small_run(system, global_batch=126, topology=values)
    places = [f"{host}:{5000 + place}" for place, (_, _, host) in enumerate(role_assignment(run))]
    return plan_run(run, Path("/record"), Path("/data"), places)


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_has_its_roles(name: str) -> None:
    plan = planned(name)
    roles = [process.job.role for process in plan.processes]
    expected = {"worker": 1 if "local" in name else 3}
    for role in SYSTEMS[name].roles:
        expected[role] = 2 if role == "server" else 1
    assert {role: roles.count(role) for role in set(roles)} == expected
    assert not all(process.is_service for process in plan.processes)


def test_bare_steps_wait_where_somebody_would_be_ahead() -> None:
    free = {name for name in SYSTEMS if planned(name).start_barrier is not None}
    assert free == {"pytorch/async/parameter_server", "mxnet/async/parameter_server"}
    for name in SYSTEMS:
        shared = planned(name, launcher="emulated", cpus_per_host=0.5)
        assert shared.start_barrier is not None
        assert {process.job.start_barrier for process in shared.processes} == {shared.start_barrier}


def test_jobs_know_all_endpoints() -> None:
    plan = planned("mxnet/sync/parameter_server")
    for process in plan.processes:
        assert process.job.endpoints.scheduler == ("127.0.0.1:5000",)
        assert process.job.endpoints.server == ("127.0.0.1:5001", "127.0.0.1:5002")
        assert len(process.job.endpoints.worker) == 3


def test_workers_are_dealt_to_the_hosts() -> None:
    plan = planned("pytorch/sync/allreduce", addresses=("127.0.0.1", "127.0.0.2"))
    assert [process.host for process in plan.processes] == ["127.0.0.1", "127.0.0.2", "127.0.0.1"]


def test_threads_reach_every_library() -> None:
    for process in planned("pytorch/sync/allreduce", threads=3).processes:
        assert process.environment["OMP_NUM_THREADS"] == "3"

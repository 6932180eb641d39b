"""Plans are complete before a process is started."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.conftest import ROOT, small_run

from horizont.config.system import SYSTEMS, framework_info, framework_python
from horizont.config.topology import Topology
from horizont.launchers.base import open_cluster
from horizont.launchers.plan import RunPlan, format_plan, plan_run, role_assignment


def planned(system: str, **topology: object) -> RunPlan:
    workers = 1 if "local" in system else 3
    servers = 2 if "parameter_server" in system else 0
    values = {"workers": workers, "servers": servers, **topology}
    run = small_run(system, global_batch=126, topology=values)
    assignment = enumerate(role_assignment(run))
    addresses = [f"{host}:{5000 + number}" for number, (_, _, host) in assignment]
    return plan_run(run, Path("/record"), Path("/data"), addresses)


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_has_its_roles(name: str) -> None:
    processes = planned(name).processes
    roles = [process.job.role for process in processes]
    expected = {"worker": 1 if "local" in name else 3}
    for role in SYSTEMS[name].roles:
        expected[role] = 2 if role == "server" else 1
    assert {role: roles.count(role) for role in set(roles)} == expected
    assert not all(process.is_service for process in processes)


def test_timed_steps_wait_where_workers_would_start_ahead_of_each_other() -> None:
    waiting = {name for name in SYSTEMS if planned(name).start_barrier is not None}
    assert waiting == {"pytorch/async/parameter_server", "mxnet/async/parameter_server"}
    for name in SYSTEMS:
        limited = planned(name, launcher="emulated", cpus_per_host=0.5)
        barriers = {process.job.start_barrier for process in limited.processes}
        assert barriers == {limited.start_barrier} != {None}


def test_jobs_know_all_endpoints() -> None:
    for process in planned("mxnet/sync/parameter_server").processes:
        assert process.job.endpoints.scheduler == ("host-0:5000",)
        assert process.job.endpoints.server == ("host-0:5001", "host-1:5002")
        assert len(process.job.endpoints.worker) == 3


@pytest.mark.parametrize(("system", "role"), [
    ("mxnet/sync/parameter_server", "scheduler"),
    ("tensorflow/async/parameter_server", "chief"),
])  # fmt: skip
@pytest.mark.parametrize(("placement", "host"), [("colocated", "host-0"), ("dedicated", "host-3")])
def test_scheduler_and_chief_run_beside_the_first_server(
    system: str, role: str, placement: str, host: str
) -> None:
    processes = planned(system, launcher="emulated", placement=placement).processes
    assert {process.name: process.host for process in processes}[f"{role}-0"] == host


def test_hosts_are_assigned_to_workers_in_turn() -> None:
    topology = {"launcher": "emulated", "hosts": 2, "placement": "dedicated"}
    processes = planned("pytorch/async/parameter_server", **topology).processes
    hosts = {process.name: process.host for process in processes}
    assert hosts == {
        "server-0": "host-2", "server-1": "host-3",
        "worker-0": "host-0", "worker-1": "host-1", "worker-2": "host-0",
    }  # fmt: skip


def test_local_processes_listen_on_the_given_addresses_in_turn(tmp_path: Path) -> None:
    topology = Topology(workers=3, addresses=("127.0.0.1", "127.0.0.2"))
    with open_cluster(topology, tmp_path) as cluster:
        endpoints = cluster.endpoints(topology.all_hosts)
    addresses = [endpoint.split(":")[0] for endpoint in endpoints]
    assert addresses == ["127.0.0.1", "127.0.0.2", "127.0.0.1"]


def test_a_plan_is_printed_with_commands_environment_and_files() -> None:
    run = small_run("mxnet/async/parameter_server", input={"source": "memory"})
    text = format_plan(run, Path("prepared/cifar10"))
    assert text.splitlines()[0].startswith("lenet5-cifar10 mxnet/async/parameter_server, block 1")
    for name in ("scheduler-0", "server-0", "worker-0", "worker-1"):
        assert f"-m horizont.training RECORD/processes/{name}/job.json" in text
        assert f"reads:       RECORD/processes/{name}/job.json, prepared/cifar10\n" in text
        assert re.search(rf"TMPDIR=RECORD/processes/{name}\s", text)
    assert "server-0: role server, rank 0, service, host host-0\n" in text
    assert "worker-1: role worker, rank 1, participant, host host-1\n" in text
    assert text.endswith("timed steps wait for RECORD/processes/started")


def test_a_process_runs_in_the_environment_of_its_framework(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert planned("pytorch/local").processes[0].argv[0] == framework_python("pytorch")
    info = framework_info("pytorch").model_copy(update={"python": "/other/bin/python"})
    monkeypatch.setattr("horizont.frameworks.torch.info.INFO", info)
    (process,) = planned("pytorch/local").processes
    assert process.argv[0] == "/other/bin/python"
    assert process.environment["PYTHONPATH"].split(":")[0] == str(ROOT / "src")


def test_threads_reach_every_library() -> None:
    for process in planned("pytorch/sync/allreduce", threads=3).processes:
        assert process.environment["OMP_NUM_THREADS"] == "3"


def test_a_process_sees_no_gpu_on_the_cpu_and_its_own_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6")
    for name in SYSTEMS:
        for process in planned(name).processes:
            assert process.environment["CUDA_VISIBLE_DEVICES"] == ""
    processes = planned("pytorch/sync/allreduce", device="cuda").processes
    assert [process.environment["CUDA_VISIBLE_DEVICES"] for process in processes] == ["4", "5", "6"]
    assert {process.environment["CUDA_DEVICE_ORDER"] for process in processes} == {"PCI_BUS_ID"}
    assert {process.job.device for process in processes} == {"cuda"}


def test_a_printed_plan_names_the_device() -> None:
    text = format_plan(small_run("pytorch/local", topology={"device": "cuda"}))
    assert ", device cuda" in text.splitlines()[0]
    assert "CUDA_VISIBLE_DEVICES=" in text

"""Plans are complete before anything is started."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.conftest import small_run

from horizont.cluster import Plan, plan_run, take_ports
from horizont.cluster.plan import seats
from horizont.errors import UserError
from horizont.spec import SYSTEMS


def planned(system: str, **topology: object) -> Plan:
    workers = 1 if "local" in system else 3
    servers = 2 if "parameter_server" in system else 0
    values = {"workers": workers, "servers": servers, **topology}
    run = small_run(system, global_batch=126, topology=values)
    ports = list(range(5000, 5000 + len(seats(run))))
    return plan_run(run, Path("/record"), Path("/data"), ports)


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_has_its_roles(name: str) -> None:
    plan = planned(name)
    roles = [process.job.role for process in plan.processes]
    expected = {"worker": 1 if "local" in name else 3}
    for role in SYSTEMS[name].extra_roles:
        expected[role] = 2 if role == "server" else 1
    assert {role: roles.count(role) for role in set(roles)} == expected
    assert not all(process.passive for process in plan.processes)


def test_jobs_know_all_endpoints() -> None:
    plan = planned("mxnet/sync/parameter_server")
    for process in plan.processes:
        assert process.job.endpoints.scheduler == ("127.0.0.1:5000",)
        assert process.job.endpoints.server == ("127.0.0.1:5001", "127.0.0.1:5002")
        assert len(process.job.endpoints.worker) == 3


def test_workers_are_dealt_to_the_hosts() -> None:
    plan = planned("pytorch/sync/allreduce", hosts=("127.0.0.1", "127.0.0.2"))
    assert [process.host for process in plan.processes] == ["127.0.0.1", "127.0.0.2", "127.0.0.1"]


def test_threads_reach_every_library() -> None:
    for process in planned("pytorch/sync/allreduce", threads=3).processes:
        assert process.environment["OMP_NUM_THREADS"] == "3"


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=rf"topology\.base_port: {port}"):
            take_ports(["127.0.0.1"], port)


def test_a_foreign_host_is_named() -> None:
    with pytest.raises(UserError, match=r"topology\.hosts"):
        take_ports(["192.0.2.1"], 0)
    with pytest.raises(UserError, match=r"topology\.hosts"):
        take_ports(["no-such-host.invalid"], 0)


def test_no_outgoing_connection_can_come_before() -> None:
    """The kernel gives such a port to nobody in the time until a framework listens on it."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(take_ports(["127.0.0.1"] * 20, 0)) < first


def test_free_ports_differ() -> None:
    assert len(set(take_ports(["127.0.0.1"] * 20, 0))) == 20

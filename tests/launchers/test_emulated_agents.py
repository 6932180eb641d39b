"""Emulated hosts with agents: bytes, losses, limits, and a host without network."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import small_run
from tests.launchers.test_emulated import REASON, cpu_quotas, namespaces

from horizont.analysis.communication import traffic
from horizont.config.topology import Topology
from horizont.errors import UserError
from horizont.launchers.base import check_topology, get_launcher, unavailable_reason
from horizont.launchers.execute import RunPaths, execute
from horizont.records.record import Record

pytestmark = [
    pytest.mark.skipif(bool(REASON), reason=REASON),
    pytest.mark.framework("pytorch"),
]

SYSTEM = "pytorch/sync/allreduce"


def train(
    folder: Path,
    data: Path,
    topology: dict[str, Any],
    launcher: str = "emulated_agents",
    **changes: Any,
) -> Record:
    """Execute a run on three hosts."""
    topology = {"launcher": launcher, "workers": 3, **topology}
    run = small_run(SYSTEM, topology=topology, global_batch=24, **changes)
    record = execute(run, "run", RunPaths(folder / launcher, data, {}), lambda done, planned: None)
    assert namespaces() == {os.readlink("/proc/self/ns/net")}
    assert not cpu_quotas(os.getpid())
    return record


def test_losses_and_bytes_are_those_without_agents(tmp_path: Path, small_cifar: Path) -> None:
    changes = {"steps": {"warmup": 2, "timed": 150}, "sampler_hz": 20}
    launchers = ("emulated", "emulated_agents")
    records = [train(tmp_path, small_cifar, {}, name, **changes) for name in launchers]
    assert all(record.ok for record in records), [record.result.reason for record in records]
    without, with_agents = (sorted(record.steps()["loss"].to_pylist()) for record in records)
    assert with_agents == pytest.approx(without, rel=1e-6)
    for record in records:
        found = traffic([record])
        assert len(found) == 3
        for way in ("sent", "received"):
            assert found[f"{way}_ratio"].between(0.98, 1.05).all(), found


def test_links_and_cpus_are_limited(tmp_path: Path, small_cifar: Path) -> None:
    rate_mbit, steps = 20, 12
    limits = {"link": {"rate_mbit": rate_mbit}, "cpus_per_host": 1.0}
    record = train(tmp_path, small_cifar, limits, steps={"warmup": 1, "timed": steps})
    assert record.ok, record.result.reason
    weights_bytes = 4 * 62_006
    least_s = 4 / 3 * weights_bytes * 8 / (rate_mbit * 1e6)
    timed = record.steps().to_pandas().query("kind == 'timed'")
    assert timed["step_s"].median() > 0.9 * least_s


def test_a_host_without_network_is_lost(tmp_path: Path, small_cifar: Path) -> None:
    fault = {"kind": "disconnect", "target": "worker", "rank": 1, "at_step": 4}
    record = train(
        tmp_path,
        small_cifar,
        {},
        steps={"warmup": 1, "timed": 20000},
        fault=fault,
        stall_timeout_s=10,
    )
    assert not record.ok
    found = r"worker-1 was disconnected at step \d+; .* with worker-0, worker-2 still running"
    assert re.fullmatch(found, record.result.reason)


def test_the_address_is_given() -> None:
    topology = Topology(launcher="emulated_agents", workers=2, options={"address": "10.0.0.1"})
    with pytest.raises(UserError, match=r"options\.address: '10\.0\.0\.1' .* switch"):
        check_topology(topology)


def test_no_command_starts_an_agent_before_the_hosts_exist() -> None:
    topology = Topology(launcher="emulated_agents", workers=2)
    assert unavailable_reason(topology) == ""
    assert get_launcher("emulated_agents").start_commands(topology) == {}

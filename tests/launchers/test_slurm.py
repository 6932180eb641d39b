"""The launcher of Slurm, with real daemons: allocation, placement, lost nodes, cancelled jobs."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.conftest import EXTENDED, ROOT, wait_for
from tests.launchers.agents import (
    LEASE_S,
    agent_processes,
    assert_trained_as_here,
    worker_processes,
)
from tests.launchers.slurm_cluster import NODES, SlurmCluster, slurm_cluster
from tests.launchers.test_agents import assert_nothing_on_hosts

from horizont.analysis.communication import traffic
from horizont.analysis.resources import run_resource_series
from horizont.config.topology import Topology
from horizont.launchers.base import unavailable_reason
from horizont.records.record import Record, read_record

SYSTEMS = {
    "pytorch": ("sync/allreduce", "sync/mpi", "sync/parameter_server", "async/parameter_server"),
    "tensorflow": ("sync/mpi", "sync/allreduce", "async/parameter_server"),
    "mxnet": ("async/parameter_server", "sync/parameter_server"),
    "jax": ("sync/allreduce",),
}

REPRESENTATIVE = ("pytorch/sync/allreduce", "mxnet/async/parameter_server")

PROGRAM = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.launchers.agents import run_on_agents
record = run_on_agents(Path(sys.argv[2]), Path(sys.argv[3]), launcher="slurm",
                       **json.loads(sys.argv[4]))
print(record.result.reason)
"""


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    # A short path: that of a Unix socket has at most 107 characters.
    with (
        tempfile.TemporaryDirectory(prefix="hz-", dir="/tmp") as folder,
        slurm_cluster(Path(folder)) as cluster,
    ):
        yield cluster
        assert_nothing_on_hosts()


def study_in_allocation(
    slurm: SlurmCluster, folder: Path, data: Path, *salloc_options: str, **changes: Any
) -> list[str]:
    """Return the command of a program that executes a run in an allocation."""
    changes.setdefault("options", {"lease_s": LEASE_S})
    words = [str(ROOT), str(folder), str(data), json.dumps(changes)]
    allocation = slurm.command("salloc", "--quiet", f"--nodes={NODES}", *salloc_options)
    return [*allocation, sys.executable, "-c", PROGRAM, *words]


def run_in_allocation(
    slurm: SlurmCluster, folder: Path, data: Path, *salloc_options: str, **changes: Any
) -> Record:
    command = study_in_allocation(slurm, folder, data, *salloc_options, **changes)
    done = subprocess.run(
        command, env=slurm.environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return read_record(folder / "key")


@pytest.mark.parametrize(
    "system",
    [
        pytest.param(
            f"{framework}/{system}",
            marks=[
                pytest.mark.framework(framework),
                *([] if f"{framework}/{system}" in REPRESENTATIVE else [EXTENDED]),
            ],
        )
        for framework, systems in SYSTEMS.items()
        for system in systems
    ],
)
def test_each_system_trains_on_three_nodes(
    system: str, slurm: SlurmCluster, tmp_path: Path, small_cifar: Path
) -> None:
    is_exclusive = "/sync/" in system
    options = ["--exclusive"] if is_exclusive else []
    record = run_in_allocation(slurm, tmp_path, small_cifar, *options, system=system)
    assert record.ok, record.result.reason
    assert record.environment["exclusive_hosts"] is is_exclusive
    steps = record.steps().to_pandas()
    assert set(steps["worker"]) == {0, 1}
    assert record.has("byte_counters") is slurm.has_networks
    if "/sync/" in system:
        assert_trained_as_here(record, tmp_path, small_cifar)


@pytest.mark.framework("pytorch")
def test_a_ring_between_nodes_sends_what_theory_says(
    slurm: SlurmCluster, tmp_path: Path, small_cifar: Path
) -> None:
    if not slurm.has_networks:
        pytest.skip("the nodes have the network of this machine")
    steps = {"warmup": 2, "timed": 150}
    changes = {"workers": 3, "global_batch": 24, "steps": steps, "sampler_hz": 20}
    record = run_in_allocation(slurm, tmp_path, small_cifar, **changes)
    assert record.ok, record.result.reason
    found = traffic([record])
    assert len(found) == 3
    # Headers of packets, acknowledgements and the states of the processes come on top.
    for way in ("sent", "received"):
        assert found[f"{way}_ratio"].between(0.98, 1.05).all(), found
    network = run_resource_series(record).query("quantity == 'network'")
    assert set(network["name"]) == {"host-0", "host-1", "host-2"}


def test_without_an_allocation_the_launcher_is_unavailable(
    slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", slurm.environment["PATH"])
    for name in ("SLURM_JOB_NUM_NODES", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    topology = Topology(launcher="slurm", workers=2)
    assert "salloc or sbatch" in unavailable_reason(topology)
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "1")
    assert "has 1 of the 2 nodes" in unavailable_reason(topology)


@pytest.mark.framework("pytorch")
@pytest.mark.parametrize("event", ["cancelled job", "draining node", "lost node", "killed agent"])
def test_the_end_of_an_allocation_leaves_nothing(
    event: str, slurm: SlurmCluster, tmp_path: Path, small_cifar: Path
) -> None:
    command = study_in_allocation(slurm, tmp_path, small_cifar, steps={"warmup": 1, "timed": 20000})
    with subprocess.Popen(
        command, env=slurm.environment, stdout=subprocess.PIPE, text=True
    ) as study:
        wait_for(lambda: len(worker_processes()) == 2, "no worker was started")

        if event == "killed agent":
            agent = worker_processes()[0].parent()
            assert agent is not None
            agent.kill()
        elif event == "lost node":
            slurm.run("scontrol", "update", "NodeName=node1", "State=down", "Reason=test")
        elif event == "draining node":
            slurm.run("scontrol", "update", "NodeName=node1", "State=drain", "Reason=test")
            assert study.poll() is None  # jobs end by themselves on a draining node
            slurm.run("scontrol", "update", "NodeName=node1", "State=resume")
            slurm.run("scancel", "--full", *slurm.run("squeue", "-h", "-o", "%i").split())
        else:
            slurm.run("scancel", "--full", *slurm.run("squeue", "-h", "-o", "%i").split())
        output, _ = study.communicate(timeout=60)
    if event == "killed agent":
        assert "is lost" in output
    if event == "lost node":
        slurm.run("scontrol", "update", "NodeName=node1", "State=resume", check=False)
        assert "is lost: Slurm has ended job" in output
        assert "NODE_FAIL" in output
    assert_nothing_on_hosts()


#: Injects faults into runs on the nodes; prints whether each happened, and what is wrong after it.
CHAOS_PROGRAM = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.conftest import small_run
from horizont.workflow.chaos.cases import Case
from horizont.workflow.chaos.execution import open_bench, run_case
system = "pytorch/sync/allreduce"
with open_bench(Path(sys.argv[2]), "lenet5-cifar10", small_run(system).workload) as bench:
    for fault, target in json.loads(sys.argv[3]):
        outcome = run_case(Case("slurm", system, fault, target, "started", 1.0), bench)
        print(json.dumps([outcome.happened, outcome.defects]), flush=True)
"""


@EXTENDED
@pytest.mark.framework("pytorch")
def test_faults_on_nodes_leave_nothing(slurm: SlurmCluster, small_cifar: Path) -> None:
    faults = [("drain", "agent-0"), ("terminate", "agent-1"), ("kill", "launcher")]
    words = [str(ROOT), str(small_cifar), json.dumps(faults)]
    done = subprocess.run(
        slurm.command(
            "salloc", "--quiet", "--nodes=2", sys.executable, "-c", CHAOS_PROGRAM, *words
        ),
        env=slurm.environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [[True, []]] * len(faults)
    assert "drain" not in slurm.run("sinfo", "-h", "-N", "-o", "%T")
    assert_nothing_on_hosts()


@pytest.mark.framework("pytorch")
def test_a_killed_step_leaves_no_process_and_files_only_until_the_next_run(
    slurm: SlurmCluster, tmp_path: Path, small_cifar: Path
) -> None:
    command = study_in_allocation(slurm, tmp_path, small_cifar, steps={"warmup": 1, "timed": 20000})
    with subprocess.Popen(
        command, env=slurm.environment, stdout=subprocess.PIPE, text=True
    ) as study:
        wait_for(lambda: len(worker_processes()) == 2, "no worker was started")
        (step,) = (
            process
            for process in psutil.Process(study.pid).children(recursive=True)
            if process.name() == "srun" and "horizont.launchers.agent" in process.cmdline()
            and process.parent().name() != "srun"  # it has a helper process of its own
        )  # fmt: skip
        step.kill()  # Slurm then kills the agents, which cannot remove anything
        output, _ = study.communicate(timeout=60)
    assert "is lost" in output
    _, alive = psutil.wait_procs([*agent_processes(), *worker_processes()], timeout=10)
    assert not alive
    assert run_in_allocation(slurm, tmp_path, small_cifar).ok
    assert_nothing_on_hosts()

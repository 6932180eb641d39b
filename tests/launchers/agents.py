"""Runs on hosts with agents, for the tests of the launchers that have them."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from tests.conftest import small_run

from horizont.launchers.agent.files import PREFIX
from horizont.launchers.execute import RunPaths, execute
from horizont.records.record import Record

#: Starts an agent on this machine, under the name of a host that does not exist.
LOCAL_COMMAND = "env HORIZONT_TEST_HOST={host}"

#: Agents of a test survive a machine that has stalled for a while.
LEASE_S = 30.0


def run_on_agents(
    folder: Path,
    data: Path,
    system: str = "pytorch/sync/allreduce",
    *,
    options: dict[str, Any] | None = None,
    launcher: str = "command",
    workers: int = 2,
    servers: int | None = None,
    **changes: Any,
) -> Record:
    """Execute a small run on agents of this machine, by default on a host for each worker."""
    if options is None:
        hosts = [f"node{number}" for number in range(workers)]
        options = {"command": LOCAL_COMMAND, "hosts": hosts, "lease_s": LEASE_S}
    needed = (1 if "parameter_server" in system else 0) if servers is None else servers
    topology = {"launcher": launcher, "workers": workers, "servers": needed, "options": options}
    run = small_run(system, topology=topology, **changes)
    return execute(run, "key", RunPaths(folder, data, {}), lambda done, planned: None)


def run_locally(system: str, folder: Path, data: Path) -> Record:
    """Execute the same run on the local launcher."""
    run = small_run(system)
    return execute(run, "local", RunPaths(folder, data, {}), lambda done, planned: None)


def assert_trained_as_here(record: Record, folder: Path, data: Path) -> None:
    """Assert that a run has the losses of the same run on the local launcher."""
    assert record.ok, record.result.reason
    local = run_locally(record.run.system.name, folder, data)
    losses, expected = (
        each.steps().to_pandas().sort_values(["worker", "step"])["loss"] for each in (record, local)
    )
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


def agent_processes() -> list[psutil.Process]:
    """List the agents that this test process has started, by its folders of temporary files."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if (process.info["cmdline"] or [])[1:3] == ["-m", "horizont.launchers.agent"]
        and any(word.startswith(f"--folder={agent_folder()}") for word in process.info["cmdline"])
    ]


def agent_folder() -> str:
    """Return the start of the paths of the agents' folders."""
    return str(Path(tempfile.gettempdir(), PREFIX))


def worker_processes() -> list[psutil.Process]:
    """List the workers that agents of this test process have started."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if "horizont.training" in (process.info["cmdline"] or [])
        and any(word.startswith(agent_folder()) for word in process.info["cmdline"])
    ]


def require(*programs: str) -> None:
    """Skip a test without some programs."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def can_shift_clocks() -> bool:
    """Whether a process can be started with another monotonic clock."""
    command = ["unshare", "--fork", "--kill-child", "--time", "--monotonic", "100", "true"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False

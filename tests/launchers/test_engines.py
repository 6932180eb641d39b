"""The ready commands of the launcher `command`, with a real MPI and a real SSH server."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml
from tests.conftest import ROOT
from tests.launchers.agents import (
    LEASE_S,
    agent_folder,
    agent_processes,
    assert_trained_as_here,
    require,
    run_on_agents,
)
from tests.launchers.test_agents import assert_nothing_on_hosts

from horizont.config.topology import Topology
from horizont.errors import UserError
from horizont.launchers.agent.session import close_sessions
from horizont.launchers.agent.wire import new_secret
from horizont.launchers.base import unavailable_reason
from horizont.launchers.local import reserve_ports


@pytest.fixture(autouse=True)
def no_agent_left() -> Iterator[None]:
    yield
    close_sessions()
    assert_nothing_on_hosts()


@pytest.mark.framework("pytorch")
def test_mpirun_starts_the_agents(
    tmp_path: Path, small_cifar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("mpirun")
    if os.geteuid() == 0:
        monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
        monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    options = {"command": "mpirun", "hosts": ["localhost"] * 2, "lease_s": LEASE_S}
    record = run_on_agents(tmp_path, small_cifar, options=options, sampler_hz=10)
    assert_trained_as_here(record, tmp_path, small_cifar)
    assert set(record.samples()["host"].to_pylist()) == {"host-0", "host-1"}


@pytest.fixture
def ssh_command() -> Iterator[str]:
    """Start an SSH server that knows one key, and yield the command to use it."""
    require("sshd", "ssh")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="hz-") as name,
        reserve_ports(["127.0.0.1"], 0) as ports,
    ):
        folder = Path(name)
        for key in ("host", "user"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
            subprocess.run(words, check=True)
        options = {
            "ListenAddress": f"127.0.0.1:{ports[0]}",
            "HostKey": folder / "host",
            "AuthorizedKeysFile": folder / "user.pub",
            "PidFile": "none",
            "StrictModes": "no",
            "PermitRootLogin": "prohibit-password",
            "UsePAM": "no",
        }
        words = [word for item in options.items() for word in ("-o", "=".join(map(str, item)))]
        server = subprocess.Popen([str(shutil.which("sshd")), "-D", "-f", "/dev/null", *words])
        try:
            yield (
                f"ssh -F none -o BatchMode=yes -o StrictHostKeyChecking=no -o LogLevel=ERROR "
                f"-o UserKnownHostsFile=/dev/null -i {folder}/user -p {ports[0]} "
                f"-o ConnectionAttempts=20 {getpass.getuser()}@{{host}}"
            )
        finally:
            server.terminate()
            server.wait(10)


@pytest.mark.framework("pytorch")
def test_ssh_starts_the_agents(ssh_command: str, tmp_path: Path, small_cifar: Path) -> None:
    options = {"command": ssh_command, "hosts": ["127.0.0.1", "localhost"], "lease_s": LEASE_S}
    record = run_on_agents(tmp_path, small_cifar, options=options)
    assert_trained_as_here(record, tmp_path, small_cifar)


@pytest.fixture
def podman(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the command that runs another one in a container with this machine's files."""
    require("podman")
    with tempfile.TemporaryDirectory(prefix="hz-") as name:
        settings = Path(name, "containers.conf")
        settings.write_text("[containers]\ndefault_ulimits = []\n", encoding="utf-8")
        monkeypatch.setenv("CONTAINERS_CONF", str(settings))
        problem = ""
        for runtime in filter(shutil.which, ("crun", "runc")):
            command = (
                f"podman --runtime {runtime} run --rm "
                "--interactive --network host --ulimit host --rootfs /:O"
            )
            done = subprocess.run(
                [*command.split(), "true"], capture_output=True, text=True, check=False
            )
            if done.returncode == 0:
                yield command
                return
            problem = done.stderr.strip()
    pytest.skip(f"podman cannot start a container here: {problem}")


@pytest.fixture
def unshare() -> str:
    """Return the command that runs another one as the first process of a PID namespace."""
    require("unshare")
    command = "unshare --pid --fork --mount-proc --kill-child"
    if subprocess.run([*command.split(), "true"], capture_output=True, check=False).returncode:
        pytest.skip("no PID namespaces here, which need root")
    return command


@pytest.mark.framework("pytorch")
@pytest.mark.parametrize("container", ["unshare", "podman"])
def test_agents_are_the_first_processes_of_containers(
    container: str, tmp_path: Path, small_cifar: Path, request: pytest.FixtureRequest
) -> None:
    command = f"{request.getfixturevalue(container)} env HORIZONT_TEST_HOST={{host}}"
    options = {"command": command, "hosts": ["node0", "node1"], "lease_s": LEASE_S}
    record = run_on_agents(tmp_path, small_cifar, options=options)
    assert_trained_as_here(record, tmp_path, small_cifar)
    agents = agent_processes()
    for agent in agents:
        status = Path(f"/proc/{agent.pid}/status").read_text()
        assert re.search(r"^NSpid:.*\t1$", status, re.MULTILINE), status
    # The kernel ignores a signal to such a process unless it has a handler; a pod ends by SIGTERM.
    agents[0].terminate()
    assert psutil.wait_procs(agents[:1], 10)[0]


STANDBY = ROOT / "deploy" / "kubernetes" / "horizont.yaml"


@pytest.mark.framework("pytorch")
def test_agents_of_the_kubernetes_job_serve_one_session_after_the_other(
    tmp_path: Path, small_cifar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command of the pods runs as it is, except for the place of Python and the address."""
    with reserve_ports(["127.0.0.1"], 0) as (port,):
        _, job = yaml.safe_load_all(STANDBY.read_text(encoding="utf-8"))
        (container,) = job["spec"]["template"]["spec"]["containers"]
        script = container["args"][0]
        for old, new in {
            "horizont-0.horizont:4711": f"127.0.0.1:{port}",
            ".venv/bin/python": sys.executable,
            "/tmp/horizont-agent-pod": f"{agent_folder()}pod",
            "--wait 600": "--wait 8",
        }.items():
            assert old in script
            script = script.replace(old, new)
        secret = new_secret()
        (variable,) = (each for each in container["env"] if "valueFrom" in each)
        pods = [
            subprocess.Popen(
                [*container["command"], script],
                env=os.environ | {variable["name"]: secret, "JOB_COMPLETION_INDEX": str(index)},
                cwd=ROOT,
            )
            for index in (1, 2)
        ]
        options = {"address": "127.0.0.1", "port": port, "lease_s": LEASE_S}
        monkeypatch.setenv(variable["name"], secret)
        try:
            for _ in range(2):
                record = run_on_agents(tmp_path, small_cifar, launcher="standby", options=options)
                assert record.ok, record.result.reason
                close_sessions()
            assert [pod.wait(60) for pod in pods] == [0, 0]
        finally:
            for pod in pods:
                pod.kill()
                pod.wait()


def test_the_number_of_waiting_agents_is_in_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HORIZONT_AGENT_SECRET", new_secret())
    topology = Topology(launcher="standby", workers=2)
    for known, words in {"": "", "2": "", "1": "1 of the 2 agents that are needed wait"}.items():
        monkeypatch.setenv("HORIZONT_AGENTS", known)
        assert unavailable_reason(topology) == words
    for known in ("0", "-1", "two"):
        monkeypatch.setenv("HORIZONT_AGENTS", known)
        with pytest.raises(UserError, match="a number of agents above 0"):
            unavailable_reason(topology)


@pytest.mark.parametrize("secret", ["", "short", "0123"])
def test_waiting_agents_need_a_secret(
    secret: str, tmp_path: Path, small_cifar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HORIZONT_AGENT_SECRET", secret)
    with pytest.raises(UserError, match="hexadecimal"):
        run_on_agents(tmp_path, small_cifar, launcher="standby", options={})


def test_ssh_that_is_refused_says_why(tmp_path: Path, small_cifar: Path) -> None:
    require("ssh")
    options = {"command": "ssh -o BatchMode=yes -p 1 {host}", "hosts": ["127.0.0.1"] * 2}
    with pytest.raises(UserError, match=r"status 255: ssh: connect .*refused"):
        run_on_agents(tmp_path, small_cifar, options=options)

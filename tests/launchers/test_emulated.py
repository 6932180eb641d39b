"""Emulated hosts: real namespaces, real links, and nothing left of them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tests.conftest import ROOT, small_run

from horizont.config.topology import Link, Topology
from horizont.launchers.base import Cluster, open_cluster
from horizont.launchers.emulated import unavailable_reason
from horizont.launchers.execute import RunPaths, execute

EMULATED = Topology(launcher="emulated", workers=2)
REASON = unavailable_reason(
    EMULATED.model_copy(update={"cpus_per_host": 1.0, "link": Link(rate_mbit=100)})
)
SLOW = EMULATED.model_copy(update={"link": Link(latency_ms=20)})
SLOW_REASON = unavailable_reason(SLOW)
needs_hosts = pytest.mark.skipif(bool(REASON), reason=REASON)


def namespaces() -> set[str]:
    """Tell all network namespaces in which processes live that this test process has started.

    They are known by their folder for temporary files, which they keep as orphans, too.
    """
    found = {os.readlink("/proc/self/ns/net")}
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if process.environ().get("TMPDIR") == os.environ["TMPDIR"]:
                found.add(os.readlink(f"/proc/{process.pid}/ns/net"))
    return found


def shares() -> list[Path]:
    return [
        *Path("/sys/fs/cgroup").glob("horizont-*"),
        *Path("/sys/fs/cgroup").glob("cpu/horizont-*"),
    ]


def said(hosts: Cluster, host: str, folder: Path, script: str, *words: str) -> str:
    """Run a script on a host and return what it says."""
    command = [*hosts.command_prefix(host, folder), sys.executable, "-c", script, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout


@pytest.fixture
def nothing_of_hosts_left() -> Iterator[None]:
    before = namespaces()
    yield
    assert namespaces() <= before
    assert not [share for share in shares() if f"-{os.getpid()}-" in share.name]


@needs_hosts
@pytest.mark.usefixtures("nothing_of_hosts_left")
def test_hosts_have_names_and_reach_each_other(tmp_path: Path) -> None:
    script = (
        "import os, socket as s; print(s.gethostname(), s.gethostbyname('host-0'), os.getcwd())"
    )
    with open_cluster(EMULATED, tmp_path) as hosts:
        name, address, folder = said(hosts, "host-1", tmp_path, script).split()
        assert (name, folder) == ("host-1", str(tmp_path))
        assert hosts.endpoints(["host-0"]) == [f"{address}:4000"]
        assert send(hosts, tmp_path, 1000) == 1000
        assert not list(tmp_path.iterdir())


SEND = """
import socket, sys, time
here = socket.create_server((socket.gethostbyname(socket.gethostname()), 4000))
print("listening", flush=True)
there, _ = here.accept()
total, start = 0, time.monotonic()
while piece := there.recv(1 << 20):
    total += len(piece)
print(total, time.monotonic() - start)
"""

TAKE = """
import socket, sys
there = socket.create_connection((sys.argv[1], 4000), timeout=5)
there.sendall(bytes(int(sys.argv[2])))
"""


def send(
    hosts: Cluster, folder: Path, size: int, source: str = "host-1", to: str = "host-0"
) -> int:
    return transfer(hosts, folder, size, source, to)[0]


def transfer(hosts: Cluster, folder: Path, size: int, source: str, to: str) -> tuple[int, float]:
    """Send bytes from host to host; tell how many came in how many seconds."""
    command = [*hosts.command_prefix(to, folder), sys.executable, "-c", SEND]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listening:
        assert listening.stdout is not None
        try:
            assert listening.stdout.readline() == "listening\n"
            said(hosts, source, folder, TAKE, to, str(size))
            came, took_s = listening.stdout.readline().split()
        finally:
            listening.kill()
    return int(came), float(took_s)


@needs_hosts
@pytest.mark.usefixtures("nothing_of_hosts_left")
def test_a_link_is_no_faster_than_its_rate(tmp_path: Path) -> None:
    """A lower bound of a time: a busy machine can only be slower."""
    topology = EMULATED.model_copy(update={"link": Link(rate_mbit=100, uplink_mbit=20)})
    size = 1_000_000
    with open_cluster(topology, tmp_path) as hosts:
        came, took_s = transfer(hosts, tmp_path, size, "host-1", "host-0")
    burst = 1 << 16
    assert came == size
    assert took_s > 0.9 * (size - 2 * burst) * 8 / 20e6


CALL = """
import socket, sys, time
with socket.create_connection((sys.argv[1], 4000), timeout=5) as there:
    there.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    start = time.monotonic()
    there.sendall(b"x")
    there.recv(1)
    print(time.monotonic() - start)
"""

ANSWER = """
import socket
here = socket.create_server((socket.gethostbyname(socket.gethostname()), 4000))
print("listening", flush=True)
there, _ = here.accept()
there.sendall(there.recv(1))
"""


@needs_hosts
@pytest.mark.skipif(bool(SLOW_REASON), reason=SLOW_REASON)
@pytest.mark.usefixtures("nothing_of_hosts_left")
def test_an_answer_takes_the_latency_twice(tmp_path: Path) -> None:
    """A lower bound of a time: a busy machine can only be slower."""
    with open_cluster(SLOW, tmp_path) as hosts:
        command = [*hosts.command_prefix("host-0", tmp_path), sys.executable, "-c", ANSWER]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as answering:
            assert answering.stdout is not None
            assert answering.stdout.readline() == "listening\n"
            took_s = float(said(hosts, "host-1", tmp_path, CALL, "host-0"))
        assert took_s >= 2 * 0.020
        assert psutil.pid_exists(hosts.helper_processes()["switch"])
        assert send(hosts, tmp_path, 3_000_000) == 3_000_000
        hosts.disconnect("host-1")
        with pytest.raises(subprocess.CalledProcessError):
            said(hosts, "host-1", tmp_path, TAKE, "host-0", "1")


@needs_hosts
@pytest.mark.usefixtures("nothing_of_hosts_left")
def test_a_cut_cable_lets_nothing_through(tmp_path: Path) -> None:
    with open_cluster(EMULATED, tmp_path) as hosts:
        hosts.disconnect("host-1")
        with pytest.raises(subprocess.CalledProcessError):
            said(hosts, "host-1", tmp_path, TAKE, "host-0", "1")
        hosts.reconnect("host-1")
        assert send(hosts, tmp_path, 1) == 1


@contextlib.contextmanager
def repeating(what: Callable[[], None]) -> Iterator[None]:
    """Do it once, and then again and again, as a launcher does that looks at its run."""
    what()
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(0.001):
            what()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


BURN = """
import time
end = time.monotonic() + 0.6
while time.monotonic() < end:
    pass
print(time.process_time())
"""


@needs_hosts
@pytest.mark.usefixtures("nothing_of_hosts_left")
def test_a_host_uses_no_more_than_its_share(tmp_path: Path) -> None:
    """An upper bound of a share: a busy machine can only give less."""
    topology = EMULATED.model_copy(update={"cpus_per_host": 0.2})
    with open_cluster(topology, tmp_path) as hosts, repeating(hosts.apply_cpu_quota):
        used_s = float(said(hosts, "host-0", tmp_path, BURN))
        other_s = float(said(hosts, "host-1", tmp_path, "import time; print(time.process_time())"))
    assert used_s < other_s + 0.6 * 0.2 * 1.3


@needs_hosts
@pytest.mark.framework
@pytest.mark.usefixtures("nothing_left", "nothing_of_hosts_left")
def test_two_runs_at_once_count_their_own_bytes(tmp_path: Path, small_cifar: Path) -> None:
    steps = {"warmup": 1, "timed": 40, "instrumented": 2}
    topology = {"launcher": "emulated", "workers": 3, "link": {"rate_mbit": 1000}}
    run = small_run("pytorch/sync/allreduce", topology=topology, global_batch=24, steps=steps)
    run = run.model_copy(update={"sampler_hz": 20})
    script = "import sys; from tests.launchers.test_emulated import one_run; one_run(*sys.argv[1:])"
    (tmp_path / "run.json").write_text(run.model_dump_json())
    words = [str(tmp_path / "run.json"), str(small_cifar)]
    with subprocess.Popen(
        [sys.executable, "-c", script, *words, str(tmp_path / "other")], cwd=ROOT
    ) as other:
        own = one_run(*words, str(tmp_path / "own"))
        assert other.wait(60) == 0
    hosts = {f"host-{rank}" for rank in range(3)}
    weights = 62_006 * 4
    # A ring of three sends 2 * (3 - 1) / 3 of the gradients from each worker at each step; at the
    # start DDP hands the first worker's weights to the others.
    expected = steps["timed"] + steps["warmup"] + steps["instrumented"]
    for counted in (own, json.loads((tmp_path / "other.json").read_text())):
        assert set(counted) == hosts
        for sent_bytes in counted.values():
            assert 4 / 3 * expected * weights < sent_bytes < 1.1 * (4 / 3 * expected + 2) * weights


def one_run(path: str, data: str, store: str) -> dict[str, int]:
    """Carry out a run, and leave what each host has sent."""
    from horizont.config.run import Run

    run = Run.model_validate_json(Path(path).read_text())
    record = execute(run, "key", RunPaths(Path(store), Path(data), {}), lambda done, planned: None)
    assert record.ok, record.result.reason
    samples = record.samples().to_pandas()
    wired = samples[(samples["scope"] == "interface") & (samples["name"] == "eth0")]
    sent = wired[wired["host"].str.startswith("host-")].groupby("host")["sent_bytes"].last()
    counted = {str(host): int(sent_bytes) for host, sent_bytes in sent.items()}
    Path(f"{store}.json").write_text(json.dumps(counted))
    return counted


@needs_hosts
@pytest.mark.usefixtures("nothing_of_hosts_left")
def test_nothing_is_left_of_a_killed_launcher(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from horizont.launchers.base import open_cluster;"
        "from horizont.config.topology import Topology\n"
        "with open_cluster(Topology(launcher='emulated', workers=2, cpus_per_host=0.5), Path(sys.argv[1])):"
        "\n    print('open', flush=True); time.sleep(60)"
    )
    before = namespaces()
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == "open\n"
        assert len(namespaces() - before) == 3
        assert len(shares()) >= 2
        launcher.send_signal(signal.SIGKILL)
    end_s = time.monotonic() + 5
    mark = f"-{launcher.pid}-"
    while namespaces() - before or [share for share in shares() if mark in share.name]:
        assert time.monotonic() < end_s
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"link": {"rate_mbit": 100}}, "link"),
        ({"launcher": "emulated", "link": {"latency_ms": -5}}, "latency_ms"),
        ({"hosts": 2}, "hosts"),
        ({"placement": "dedicated"}, "placement"),
        ({"cpus_per_host": 0.5}, "cpus_per_host"),
        ({"launcher": "emulated", "addresses": ("127.0.0.1", "127.0.0.2")}, "addresses"),
        ({"launcher": "emulated", "hosts": 9}, "hosts"),
    ],
)
def test_settings_of_the_other_engine_are_refused(values: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Topology.model_validate({"workers": 2, **values})

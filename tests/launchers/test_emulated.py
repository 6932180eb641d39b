"""Emulated hosts: real namespaces, real links, and none left afterwards."""

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
from horizont.errors import UserError
from horizont.launchers import emulated
from horizont.launchers.base import check_topology, open_cluster, unavailable_reason
from horizont.launchers.emulated import EmulatedCluster
from horizont.launchers.execute import RunPaths, execute
from horizont.launchers.netns import Namespace

EMULATED = Topology(launcher="emulated", workers=2)
REASON = unavailable_reason(
    EMULATED.model_copy(update={"cpus_per_host": 1.0, "link": Link(rate_mbit=100)})
)
SLOW = EMULATED.model_copy(update={"link": Link(latency_ms=20)})
SLOW_REASON = unavailable_reason(SLOW)
needs_hosts = pytest.mark.skipif(bool(REASON), reason=REASON)


def namespaces() -> set[str]:
    """Return the network namespaces of all processes that this test process has started.

    Orphans among them are recognised by their folder for temporary files.
    """
    links = {os.readlink("/proc/self/ns/net")}
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if process.environ().get("TMPDIR") == os.environ["TMPDIR"]:
                links.add(os.readlink(f"/proc/{process.pid}/ns/net"))
    return links


def cpu_quotas(launcher_pid: int) -> list[Path]:
    """Return the CPU groups of a launcher; those of tests beside this one are not its own."""
    name = f"horizont-{launcher_pid}-*"
    return [*Path("/sys/fs/cgroup").glob(name), *Path("/sys/fs/cgroup").glob(f"cpu/{name}")]


def output_of(hosts: EmulatedCluster, host: str, folder: Path, script: str, *arguments: str) -> str:
    """Run a script on a host and return its output."""
    command = [*hosts.command_prefix(host, folder), sys.executable, "-c", script, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout


@pytest.fixture
def no_hosts_left() -> Iterator[None]:
    before = namespaces()
    yield
    assert namespaces() <= before
    assert not cpu_quotas(os.getpid())


@needs_hosts
@pytest.mark.usefixtures("no_hosts_left")
def test_hosts_have_names_and_reach_each_other(tmp_path: Path) -> None:
    script = (
        "import os, socket as s; print(s.gethostname(), s.gethostbyname('host-0'), os.getcwd())"
    )
    with open_cluster(EMULATED, tmp_path) as hosts:
        name, address, folder = output_of(hosts, "host-1", tmp_path, script).split()
        assert (name, folder) == ("host-1", str(tmp_path))
        assert hosts.endpoints(["host-0"]) == [f"{address}:4000"]
        assert send(hosts, tmp_path, 1000) == 1000
        assert not list(tmp_path.iterdir())


RECEIVE = """
import socket, sys, time
here = socket.create_server((socket.gethostbyname(socket.gethostname()), 4000))
print("listening", flush=True)
there, _ = here.accept()
total, start = 0, time.monotonic()
while piece := there.recv(1 << 20):
    total += len(piece)
print(total, time.monotonic() - start)
"""

SEND = """
import socket, sys
there = socket.create_connection((sys.argv[1], 4000), timeout=5)
there.sendall(bytes(int(sys.argv[2])))
"""


def send(
    hosts: EmulatedCluster, folder: Path, size: int, source: str = "host-1", to: str = "host-0"
) -> int:
    return transfer(hosts, folder, size, source, to)[0]


def transfer(
    hosts: EmulatedCluster, folder: Path, size: int, source: str, to: str
) -> tuple[int, float]:
    """Send bytes from host to host; return how many arrived in how many seconds."""
    command = [*hosts.command_prefix(to, folder), sys.executable, "-c", RECEIVE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listening:
        assert listening.stdout is not None
        try:
            assert listening.stdout.readline() == "listening\n"
            output_of(hosts, source, folder, SEND, to, str(size))
            received, duration_s = listening.stdout.readline().split()
        finally:
            listening.kill()
    return int(received), float(duration_s)


@needs_hosts
@pytest.mark.usefixtures("no_hosts_left")
def test_a_link_is_no_faster_than_its_rate(tmp_path: Path) -> None:
    # A lower bound of the duration: a busy machine can only be slower.
    topology = EMULATED.model_copy(update={"link": Link(rate_mbit=100, uplink_mbit=20)})
    size = 1_000_000
    with open_cluster(topology, tmp_path) as hosts:
        received, duration_s = transfer(hosts, tmp_path, size, "host-1", "host-0")
    burst = 1 << 16
    assert received == size
    assert duration_s > 0.9 * (size - 2 * burst) * 8 / 20e6


REQUEST = """
import socket, sys, time
with socket.create_connection((sys.argv[1], 4000), timeout=5) as there:
    there.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    start = time.monotonic()
    there.sendall(b"x")
    there.recv(1)
    print(time.monotonic() - start)
"""

RESPOND = """
import socket
here = socket.create_server((socket.gethostbyname(socket.gethostname()), 4000))
print("listening", flush=True)
there, _ = here.accept()
there.sendall(there.recv(1))
"""


@needs_hosts
@pytest.mark.skipif(bool(SLOW_REASON), reason=SLOW_REASON)
@pytest.mark.usefixtures("no_hosts_left")
def test_a_response_takes_the_latency_twice(tmp_path: Path) -> None:
    # A lower bound of the duration: a busy machine can only be slower.
    with open_cluster(SLOW, tmp_path) as hosts:
        command = [*hosts.command_prefix("host-0", tmp_path), sys.executable, "-c", RESPOND]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as responding:
            assert responding.stdout is not None
            assert responding.stdout.readline() == "listening\n"
            duration_s = float(output_of(hosts, "host-1", tmp_path, REQUEST, "host-0"))
        assert duration_s >= 2 * 0.020
        assert psutil.pid_exists(hosts.latency_links.pid)
        assert send(hosts, tmp_path, 3_000_000) == 3_000_000
        hosts.disconnect("host-1")
        with pytest.raises(subprocess.CalledProcessError):
            output_of(hosts, "host-1", tmp_path, SEND, "host-0", "1")


@needs_hosts
@pytest.mark.usefixtures("no_hosts_left")
def test_a_disconnected_host_receives_nothing(tmp_path: Path) -> None:
    with open_cluster(EMULATED, tmp_path) as hosts:
        hosts.disconnect("host-1")
        with pytest.raises(subprocess.CalledProcessError):
            output_of(hosts, "host-1", tmp_path, SEND, "host-0", "1")
        hosts.reconnect("host-1")
        assert send(hosts, tmp_path, 1) == 1


@contextlib.contextmanager
def repeating(action: Callable[[], None]) -> Iterator[None]:
    """Call a function once, and then repeatedly, as a launcher does at every tick."""
    action()
    is_over = threading.Event()

    def repeat() -> None:
        while not is_over.wait(0.001):
            action()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


BURN = """
import time
start, used_before = time.monotonic(), time.process_time()
while time.monotonic() < start + 0.6:
    pass
print(time.process_time() - used_before, time.monotonic() - start)
"""


@needs_hosts
@pytest.mark.usefixtures("no_hosts_left")
@pytest.mark.parametrize("cpus", [0.2, 0.05])
def test_a_host_uses_no_more_than_its_cpu_quota(cpus: float, tmp_path: Path) -> None:
    # An upper bound of the CPU time: a busy machine can only give less. The kernel gives up to a
    # slice more than the quota.
    topology = EMULATED.model_copy(update={"cpus_per_host": cpus})
    with open_cluster(topology, tmp_path) as hosts, repeating(hosts.apply_cpu_quota):
        used_s, elapsed_s = map(float, output_of(hosts, "host-0", tmp_path, BURN).split())
    assert used_s < 2 * cpus * elapsed_s


@needs_hosts
@pytest.mark.usefixtures("no_hosts_left")
@pytest.mark.parametrize("hosts_before", [0, 1, 2])
def test_nothing_is_left_if_a_host_cannot_be_created(
    hosts_before: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = EMULATED.model_copy(update={"cpus_per_host": 0.5})
    assert not unavailable_reason(topology)
    remaining = iter(range(hosts_before))

    def limited(*arguments: str) -> Namespace:
        if next(remaining, None) is None:
            raise OSError("no more processes")
        return Namespace(*arguments)

    monkeypatch.setattr(emulated, "Namespace", limited)
    with pytest.raises(UserError, match="no more"), open_cluster(topology, tmp_path):
        pass


@needs_hosts
@pytest.mark.usefixtures("no_hosts_left")
def test_pinned_hosts_stay_on_their_cpus(tmp_path: Path) -> None:
    topology = EMULATED.model_copy(update={"cpus_per_host": 0.5, "pin_hosts": True})
    program = "import os; print(sorted(os.sched_getaffinity(0)))"
    with open_cluster(topology, tmp_path) as hosts:
        found = [output_of(hosts, host, tmp_path, program).strip() for host in topology.all_hosts]
    available = sorted(os.sched_getaffinity(0))
    assert found == [f"[{available[number % len(available)]}]" for number in range(len(found))]


@pytest.mark.framework("pytorch", "jax")
@needs_hosts
@pytest.mark.usefixtures("nothing_left", "no_hosts_left")
def test_two_runs_at_once_count_their_own_bytes(tmp_path: Path, small_cifar: Path) -> None:
    steps = {"warmup": 1, "timed": 40, "instrumented": 2}
    topology = {"launcher": "emulated", "workers": 3, "link": {"rate_mbit": 1000}}
    arguments = {}
    for name, system in (("own", "pytorch/sync/allreduce"), ("other", "jax/sync/allreduce")):
        run = small_run(system, topology=topology, global_batch=24, steps=steps, sampler_hz=20)
        (tmp_path / f"{name}-run.json").write_text(run.model_dump_json())
        arguments[name] = [str(tmp_path / f"{name}-run.json"), str(small_cifar)]
    script = "import sys; from tests.launchers.test_emulated import one_run; one_run(*sys.argv[1:])"
    with subprocess.Popen(
        [sys.executable, "-c", script, *arguments["other"], str(tmp_path / "other")], cwd=ROOT
    ) as other:
        own = one_run(*arguments["own"], str(tmp_path / "own"))
        assert other.wait(120) == 0
    hosts = {f"host-{rank}" for rank in range(3)}
    weights = 62_006 * 4
    # A ring of three sends 2 * (3 - 1) / 3 of the gradients from each worker at each step; at the
    # start DDP broadcasts the weights of the first worker, and JAX runs an exchange to compile it.
    expected = steps["timed"] + steps["warmup"] + steps["instrumented"]
    for counted in (own, json.loads((tmp_path / "other.json").read_text())):
        assert set(counted) == hosts
        for sent_bytes in counted.values():
            assert 4 / 3 * expected * weights < sent_bytes < 1.1 * (4 / 3 * expected + 2) * weights


def one_run(path: str, data: str, store: str) -> dict[str, int]:
    """Execute a run, and write how many bytes each host has sent."""
    from horizont.config.run import Run

    run = Run.model_validate_json(Path(path).read_text())
    record = execute(run, "key", RunPaths(Path(store), Path(data), {}), lambda done, planned: None)
    assert record.ok, record.result.reason
    samples = record.samples().to_pandas()
    interfaces = samples[(samples["scope"] == "interface") & (samples["name"] == "eth0")]
    sent = (
        interfaces[interfaces["host"].str.startswith("host-")].groupby("host")["sent_bytes"].last()
    )
    counted = {str(host): int(sent_bytes) for host, sent_bytes in sent.items()}
    Path(f"{store}.json").write_text(json.dumps(counted))
    return counted


LAUNCHER = """
import sys, time
from pathlib import Path
from horizont.config.topology import Topology
from horizont.launchers.base import open_cluster
topology = Topology(launcher="emulated", workers=2, cpus_per_host=0.5)
with open_cluster(topology, Path(sys.argv[1])):
    print("open", flush=True)
    time.sleep(60)
"""


@needs_hosts
@pytest.mark.usefixtures("no_hosts_left")
def test_no_hosts_are_left_of_a_killed_launcher(tmp_path: Path) -> None:
    before = namespaces()
    command = [sys.executable, "-c", LAUNCHER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == "open\n"
        assert len(namespaces() - before) == 3
        assert len(cpu_quotas(launcher.pid)) >= 2
        launcher.send_signal(signal.SIGKILL)
    end_s = time.monotonic() + 5
    while namespaces() - before or cpu_quotas(launcher.pid):
        assert time.monotonic() < end_s
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("values", "field"),
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
def test_settings_of_the_other_launcher_are_refused(values: dict[str, object], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        check_topology(Topology.model_validate({"workers": 2, **values}))

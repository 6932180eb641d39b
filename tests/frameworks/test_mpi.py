"""All-reduce by MPI: how ranks meet, the bytes on links, a rank that is lost, missing packages."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.conftest import cases, small_run

from horizont.analysis.runs import HOST_INTERFACE
from horizont.config.system import framework_info
from horizont.config.topology import Topology
from horizont.frameworks.mpi import LOST_RANK
from horizont.frameworks.pmi import MAX_LINE_BYTES, PmiServer
from horizont.launchers.base import unavailable_reason
from horizont.launchers.execute import RunPaths, execute
from horizont.workflow.check import skip_reason

SYSTEMS = ["pytorch/sync/mpi", "tensorflow/sync/mpi"]
REASON = unavailable_reason(Topology(launcher="emulated"))


@pytest.fixture
def server() -> Iterator[PmiServer]:
    """A server of two ranks."""
    with PmiServer(("127.0.0.1", 0), 2) as running:
        running.start()
        yield running
        running.shutdown()


def open_rank(server: PmiServer) -> socket.socket:
    host, port = server.server_address[:2]
    return socket.create_connection((str(host), port), timeout=10)


def open_and_join(server: PmiServer) -> socket.socket:
    rank = open_rank(server)
    assert "pmi_version=1" in ask(rank, "cmd=init pmi_version=1 pmi_subversion=1")
    return rank


def ask(rank: socket.socket, line: str) -> str:
    rank.sendall(f"{line}\n".encode())
    return rank.makefile("r").readline().strip()


def test_a_value_is_found_by_the_other_rank(server: PmiServer) -> None:
    with open_and_join(server) as one, open_and_join(server) as other:
        put = ask(one, "cmd=put kvsname=run key=address value=a b=c d")
        assert put == "cmd=put_result rc=0 msg=success"
        found = ask(other, "cmd=get kvsname=run key=address")
        assert found == "cmd=get_result rc=0 msg=success value=a b=c d"
        assert "rc=-1" in ask(other, "cmd=get kvsname=run key=unknown")
        assert ask(other, "cmd=get_universe_size") == "cmd=universe_size size=2 rc=0"


def test_ranks_wait_for_each_other(server: PmiServer) -> None:
    with open_and_join(server) as one, open_and_join(server) as other:
        one.sendall(b"cmd=barrier_in\n")
        one.settimeout(0.2)
        with pytest.raises(TimeoutError):
            one.recv(1)
        one.settimeout(10)
        assert ask(other, "cmd=barrier_in") == "cmd=barrier_out rc=0"
        assert one.recv(100) == b"cmd=barrier_out rc=0\n"


#: Not what a rank sends.
STRANGE = [
    b"",
    b"cmd=spawn\n",
    b"GET / HTTP/1.1\r\n",
    b"cmd=get\n",
    bytes(range(256)) + b"\n",
    b"x" * (MAX_LINE_BYTES + 1),
]


@pytest.mark.parametrize("last", STRANGE)
def test_a_rank_that_is_lost_disconnects_those_that_wait(server: PmiServer, last: bytes) -> None:
    with open_and_join(server) as one, open_and_join(server) as other:
        one.sendall(b"cmd=barrier_in\n")
        with suppress(OSError):  # disconnected already
            other.sendall(last)
            other.shutdown(socket.SHUT_WR)
        assert one.recv(100) == b""


@pytest.mark.parametrize("first", STRANGE)
def test_who_is_no_rank_is_disconnected_alone(server: PmiServer, first: bytes) -> None:
    with open_and_join(server) as one, open_and_join(server) as other:
        one.sendall(b"cmd=barrier_in\n")
        with open_rank(server) as stranger, suppress(OSError):  # disconnected already
            stranger.sendall(first)
            stranger.shutdown(socket.SHUT_WR)
            assert stranger.recv(100) == b""
        assert ask(other, "cmd=barrier_in") == "cmd=barrier_out rc=0"
        assert one.recv(100) == b"cmd=barrier_out rc=0\n"


@pytest.mark.framework("pytorch", "tensorflow")
@pytest.mark.skipif(bool(REASON), reason=REASON)
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_ring_of_ranks_sends_what_theory_says(
    name: str, small_cifar: Path, tmp_path: Path
) -> None:
    topology = {"launcher": "emulated", "workers": 3, "link": {"rate_mbit": 1000}}
    steps = {"warmup": 2, "timed": 60, "instrumented": 2}
    run = small_run(name, topology=topology, global_batch=24, steps=steps, sampler_hz=20)
    record = execute(run, "key", RunPaths(tmp_path, small_cifar, {}), lambda done, planned: None)
    assert record.ok, record.result.reason
    samples = record.samples().to_pandas()
    wires = samples[(samples["scope"] == "interface") & (samples["name"] == HOST_INTERFACE)]
    sent_bytes = wires[wires["host"].str.startswith("host-")].groupby("host")["sent_bytes"].max()
    assert len(sent_bytes) == 3
    # The compilation of an instrumented step runs one, too.
    ring_bytes = 4 / 3 * 62_006 * 4 * sum(steps.values())
    assert (ring_bytes < sent_bytes).all()
    # Headers of packets, of MPI's messages and acknowledgements come on top of the gradients.
    assert (sent_bytes < 1.05 * ring_bytes).all()


@pytest.mark.framework("pytorch", "tensorflow")
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("rank", [0, 1], ids=["with the server", "another"])
@pytest.mark.parametrize("name", cases(SYSTEMS, "pytorch/sync/mpi"))
def test_the_ranks_end_with_the_one_that_is_killed(
    name: str, rank: int, small_cifar: Path, tmp_path: Path
) -> None:
    fault = {"kind": "kill", "target": "worker", "rank": rank, "at_step": 5}
    steps = {"warmup": 1, "timed": 5000}
    run = small_run(name, steps=steps, fault=fault)
    record = execute(run, "key", RunPaths(tmp_path, small_cifar, {}), lambda done, planned: None)
    assert f"worker-{rank} was killed" in record.result.reason
    assert f"worker-{1 - rank} failed" in record.result.reason
    assert record.result.reason.endswith(f"ConnectionError: {LOST_RANK}")


@pytest.mark.framework("pytorch")
def test_a_missing_package_is_the_reason_of_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    run = small_run("pytorch/sync/mpi")
    assert not skip_reason(run)
    systems = framework_info("pytorch").systems
    lacking = run.system.info.model_copy(update={"packages": ("mpi4py", "no-such-mpi")})
    monkeypatch.setitem(systems, "sync/mpi", lacking)
    assert skip_reason(run) == "pytorch/sync/mpi: its environment lacks no-such-mpi"
    assert not skip_reason(small_run("pytorch/sync/allreduce"))

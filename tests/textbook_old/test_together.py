"""Rings, cuts of a network, and groups of processes: what needs no framework."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest

from horizont.launchers.local import reserve_ports
from horizont.launchers.plan import ProcessPlan
from horizont.launchers.supervisor import RunFailed, run_as_group
from horizont.reporting.lessons.ring import parts_of
from horizont.theory import parallelism, ring
from horizont.theory.backpropagation import WEIGHTS
from horizont.theory.cuts import WAYS
from horizont.theory.parallelism import SMALL
from horizont.theory.together.kernel import counted_by_kernel
from horizont.theory.together.peers import SocketPeers, meet

BIG = 3_000_000  # numbers: more than fits into the kernel's buffers


@pytest.mark.parametrize("workers", [2, 3, 4, 7])
def test_a_ring_ends_with_every_sum_everywhere(workers: int) -> None:
    states = ring.ring_states(workers)
    assert len(states) == 2 * (workers - 1) + 1
    assert (states[-1] == (10.0**workers - 1) / 9).all()
    complete = states[workers - 1] == states[-1]
    assert (complete.sum(axis=0) == 1).all()
    assert (complete.sum(axis=1) == 1).all()
    assert (states[-2] != states[-1]).any()


def test_the_picture_reads_digits_as_letters() -> None:
    assert [parts_of(number) for number in (1.0, 101.0, 1110.0)] == ["a", "ac", "bcd"]


def test_what_the_wire_needs() -> None:
    assert ring.ring_bytes(4, 100.0) == 150.0
    assert ring.server_bytes(4, 100.0) == 400.0
    assert float(ring.ring_time(np.array(5), 100.0, 10.0, 0.0)) == pytest.approx(16.0)
    assert float(ring.server_time(np.array(5), 100.0, 10.0, 0.5)) == pytest.approx(101.0)
    for size, is_larger in ((1e2, True), (1e8, False)):
        times = [law(np.array(8), size, 1e8, 1e-4) for law in (ring.ring_time, ring.server_time)]
        assert (times[0] > times[1]) == is_larger


def test_a_pipeline_waits_less_with_more_pieces() -> None:
    assert parallelism.idle_share(2, 1) == 0.5
    assert parallelism.idle_share(4, 12) == pytest.approx(0.2)
    assert parallelism.idle_share(1, 1) == 0.0


@pytest.mark.parametrize("name", list(WAYS))
def test_what_is_cut_can_be_put_together(name: str) -> None:
    way, given = WAYS[name], parallelism.start()
    weights = {key: given[key] for key in WEIGHTS}
    parts = [way.own(weights, rank) for rank in (0, 1)]
    for key, whole in weights.items():
        held = [own[key] for own in parts if key in own]
        assert np.array_equal(way.whole(key, held), whole)
    seen = [len(way.batch(given, rank)[0]) for rank in (0, 1)]
    assert sum(seen) in (SMALL.examples, 2 * SMALL.examples)


def test_the_small_network_is_told_with_all_its_weights() -> None:
    given = parallelism.start()
    assert sum(given[name].size for name in WEIGHTS) == SMALL.weights
    _, after = parallelism.trained_alone()
    assert all(not np.allclose(after[name], given[name]) for name in WEIGHTS)


@pytest.fixture
def pair() -> Iterator[list[SocketPeers]]:
    """Connect two members, in threads of this process."""
    with reserve_ports(["127.0.0.1"] * 2, 0) as ports, ThreadPoolExecutor(2) as threads:
        addresses = [f"127.0.0.1:{port}" for port in ports]
        members = list(threads.map(lambda rank: meet(rank, addresses), (0, 1)))
        yield members
        for member in members:
            for connection in member.connections.values():
                connection.close()


def test_large_arrays_pass_each_other_and_are_counted(pair: list[SocketPeers]) -> None:
    before = counted_by_kernel()
    with ThreadPoolExecutor(2) as threads:
        values = [np.arange(BIG, dtype=np.float64) + rank for rank in (0, 1)]
        sums = list(threads.map(lambda p: ring.ring_all_reduce(values[p.rank], p), pair))
    assert all(np.array_equal(found, values[0] + values[1]) for found in sums)
    assert [(p.sent_bytes, p.received_bytes) for p in pair] == [(8 * BIG, 8 * BIG)] * 2
    after = counted_by_kernel()
    if before is not None and after is not None:
        assert after.sent_bytes - before.sent_bytes == 2 * 8 * BIG


def test_who_is_left_alone_says_so(pair: list[SocketPeers]) -> None:
    pair[1].connections[0].close()
    with pytest.raises(ConnectionError, match="process 1 has left"):
        pair[0].receive((3,), 1)


def planned(folder: Path, code: str) -> ProcessPlan:
    argv = (sys.executable, "-c", code)
    return ProcessPlan(folder.name, "127.0.0.1", argv, {}, folder, None)


def test_a_lost_member_ends_the_group(tmp_path: Path) -> None:
    waits = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)"
    fails = (
        "import pathlib, time\n"
        "while not pathlib.Path('../one/pid').exists(): time.sleep(0.01)\n"
        "raise ValueError('lost')"
    )
    with pytest.raises(RunFailed, match=r"two ended with status 1: ValueError: lost"):
        run_as_group([planned(tmp_path / "one", waits), planned(tmp_path / "two", fails)], 60.0)
    assert not psutil.pid_exists(int((tmp_path / "one" / "pid").read_text()))

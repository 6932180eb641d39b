import os
import subprocess
import sys

import psutil
import pytest

from horizont.monitoring.groups import Groups
from horizont.monitoring.host import HostReader
from horizont.monitoring.processes import ProcessReader


def test_counters_agree_with_psutil(tree):
    tree.tell("burn", 0.3)
    reading = ProcessReader(tree.pid).read()
    theirs = psutil.Process(tree.pid)
    times = theirs.cpu_times()
    # The tree is idle now; psutil sees ticks of 10 ms.
    assert reading.cpu_s == pytest.approx(times.user + times.system, abs=0.03)
    assert reading.rss_bytes == pytest.approx(theirs.memory_info().rss, rel=0.1)
    assert reading.threads == theirs.num_threads() == 1
    assert (reading.read_bytes, reading.write_bytes) == theirs.io_counters()[2:4]


def test_burned_time_and_held_memory_are_seen(tree):
    reader = ProcessReader(tree.pid)
    before = reader.read()
    tree.tell("burn", 0.5)
    tree.tell("hold", 200)
    after = reader.read()
    # Its own clock told it when to stop burning, so a busy machine changes nothing.
    assert 0.5 <= after.cpu_s - before.cpu_s < 5
    assert after.rss_bytes - before.rss_bytes == pytest.approx(200 * 2**20, rel=0.1)


def test_threads_are_counted():
    code = (
        "import threading, sys\n"
        "for _ in range(5): threading.Thread(target=sys.stdin.read, daemon=True).start()\n"
        "print('up', flush=True); threading.Event().wait()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        assert ProcessReader(child.pid).read().threads == 6
        child.kill()


def test_a_vanished_process_reads_as_none_also_while_a_zombie(tree, until):
    reader = ProcessReader(tree.pid)
    os.kill(tree.pid, 9)
    until(lambda: psutil.Process(tree.pid).status() == psutil.STATUS_ZOMBIE)
    assert reader.read() is None
    tree.kill()
    assert reader.read() is None
    reader.close()
    reader.close()
    assert reader.read() is None


def test_there_must_be_a_process_to_begin_with(tree):
    tree.kill()
    with pytest.raises(ProcessLookupError):
        ProcessReader(tree.pid)


def test_a_name_may_hold_brackets_and_spaces(tmp_path):
    program = tmp_path / "a) R (b"
    program.symlink_to("/bin/cat")
    with subprocess.Popen([program], stdin=subprocess.PIPE) as child:
        assert ProcessReader(child.pid).read().threads == 1
        child.stdin.close()


def test_groups_grow_and_shrink(tree, until):
    groups = Groups()
    groups.add_root(tree.pid, "worker-0")
    groups.scan()
    assert groups.members == {tree.pid: "worker-0"}
    tree.tell("grow", 3)
    groups.scan()
    assert len(groups.members) == 4
    assert set(groups.members.values()) == {"worker-0"}
    for child in set(groups.members) - {tree.pid}:
        groups.drop(child)
    tree.tell("shrink", 3)
    groups.scan()
    assert groups.members == {tree.pid: "worker-0"}


def test_children_from_before_the_root_was_named_are_found(tree):
    groups = Groups()
    tree.tell("grow", 2)
    groups.scan()
    assert groups.members == {}
    groups.add_root(tree.pid, "worker-0")
    groups.scan()
    assert len(groups.members) == 3


@pytest.mark.parametrize(
    ("launch", "leave_group"), [({"process_group": 0}, 0), ({"start_new_session": True}, 1)]
)
def test_a_grandchild_whose_parent_has_ended_is_found(plant, launch, leave_group):
    groups, tree = Groups(), plant(**launch)
    groups.add_root(tree.pid, "worker-0")
    groups.scan()
    tree.tell("orphan", leave_group)  # what remains is the process group, or the session
    groups.scan()
    assert len(groups.members) == 2


def test_two_roots_do_not_mix_and_the_ignored_stay_out(plant):
    one, other, third = plant(), plant(), plant()
    groups = Groups(ignored=[third.pid])
    groups.add_root(one.pid, "worker-0")
    groups.add_root(other.pid, "server-0")
    groups.add_root(os.getpid(), "launcher")
    one.tell("grow", 1)
    other.tell("grow", 2)
    groups.scan()
    names = list(groups.members.values())
    assert (names.count("worker-0"), names.count("server-0")) == (2, 3)
    assert third.pid not in groups.members


def test_the_host_agrees_with_psutil():
    host = HostReader()
    before = psutil.cpu_times()
    reading = host.read()
    after = psutil.cpu_times()
    memory = psutil.virtual_memory()

    def busy(cpu):
        return cpu.user + cpu.nice + cpu.system + cpu.irq + cpu.softirq

    assert busy(before) - 0.1 <= reading.cpu_s <= busy(after) + 0.1
    assert before.steal <= reading.steal_s <= after.steal
    assert reading.memory_available_bytes == pytest.approx(memory.available, rel=0.1)
    total = reading.memory_used_bytes + reading.memory_available_bytes
    assert total == memory.total
    assert reading.runnable >= 1
    host.close()


def test_interfaces_agree_with_psutil_and_can_be_chosen():
    before = psutil.net_io_counters(pernic=True, nowrap=False)
    traffic = HostReader().traffic()
    after = psutil.net_io_counters(pernic=True, nowrap=False)
    assert traffic.keys() == before.keys()
    for name, bytes_ in traffic.items():
        assert before[name].bytes_sent <= bytes_.sent_bytes <= after[name].bytes_sent
        assert before[name].bytes_recv <= bytes_.received_bytes <= after[name].bytes_recv
    assert HostReader(["lo"]).traffic().keys() == {"lo"}
    assert HostReader(["no-such"]).traffic() == {}

import os
import subprocess
import sys

import psutil
import pytest

from horizont.monitoring import counters
from horizont.monitoring.counters import process_usage
from horizont.monitoring.process_tree import ProcessTree


def members(tree):
    """List the root names of the living processes of a tree."""
    return sorted(name for _, name, _ in tree.usage(0.0, details=False))


def test_counters_agree_with_psutil(process):
    process.command("burn", 0.3)
    reference = psutil.Process(process.pid)
    usage = process_usage(reference, details=True)
    times = reference.cpu_times()
    # The process is idle now; psutil sees ticks of 10 ms.
    assert usage.cpu_s == pytest.approx(times.user + times.system, abs=0.03)
    assert usage.rss_bytes == pytest.approx(reference.memory_info().rss, rel=0.1)
    assert usage.threads == reference.num_threads() == 1
    assert (usage.read_bytes, usage.write_bytes) == reference.io_counters()[2:4]
    assert process_usage(reference, details=False)[2:] == (None, None, None)


def test_cpu_time_and_memory_of_a_process_are_measured(process):
    reference = psutil.Process(process.pid)
    before = process_usage(reference, details=False)
    process.command("burn", 0.5)
    process.command("hold", 200)
    after = process_usage(reference, details=False)
    # The process stops by its own CPU clock, so that a busy machine changes nothing.
    assert 0.5 <= after.cpu_s - before.cpu_s < 5
    assert after.rss_bytes - before.rss_bytes == pytest.approx(200 * 2**20, rel=0.1)


def test_cpu_time_is_finer_than_the_ticks_of_the_kernel(process):
    reference = psutil.Process(process.pid)
    values = set()
    for _ in range(5):
        process.command("burn", 0.001)
        values.add(process_usage(reference, details=False).cpu_s)
    assert len(values) == 5
    assert any(abs(value * 100 - round(value * 100)) > 1e-6 for value in values)


def test_without_the_posix_clock_cpu_time_comes_from_psutil(process, monkeypatch):
    process.command("burn", 0.3)
    reference = psutil.Process(process.pid)
    exact = process_usage(reference, details=False).cpu_s

    def unavailable(clock):
        raise OSError(clock)

    monkeypatch.setattr(counters.time, "clock_gettime", unavailable)
    assert process_usage(reference, details=False).cpu_s == pytest.approx(exact, abs=0.03)


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
        assert process_usage(psutil.Process(child.pid), details=True).threads == 6
        child.kill()


def test_an_ended_process_has_no_usage_even_as_a_zombie(process, until):
    tree = ProcessTree()
    tree.add_root(process.pid, "worker-0")
    assert members(tree) == ["worker-0"]
    reference = psutil.Process(process.pid)
    os.kill(process.pid, 9)
    until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
    with pytest.raises(psutil.NoSuchProcess):
        process_usage(reference, details=False)
    process.kill()
    with pytest.raises(psutil.NoSuchProcess):
        process_usage(reference, details=False)
    assert members(tree) == []
    assert [each["ended"] for each in tree.report()["processes"]] == [True]


def test_a_root_that_has_ended_is_recorded(process):
    process.kill()
    tree = ProcessTree()
    tree.add_root(process.pid, "worker-0")
    tree.scan()
    found = tree.report()["processes"]
    assert [(each["name"], each["ended"], each["first_s"]) for each in found] == [
        ("worker-0", True, None)
    ]


def test_the_name_of_a_program_may_hold_brackets_and_spaces(tmp_path):
    program = tmp_path / "a) R (b"
    program.symlink_to("/bin/cat")
    with subprocess.Popen([program], stdin=subprocess.PIPE) as child:
        assert process_usage(psutil.Process(child.pid), details=True).threads == 1
        child.stdin.close()


def test_a_tree_grows_and_shrinks(process):
    tree = ProcessTree()
    tree.add_root(process.pid, "worker-0")
    tree.scan()
    assert members(tree) == ["worker-0"]
    process.command("grow", 3)
    tree.scan()
    assert members(tree) == ["worker-0"] * 4
    process.command("shrink", 3)
    tree.scan()
    assert members(tree) == ["worker-0"]
    assert [each["ended"] for each in tree.report()["processes"]] == [False, True, True, True]


def test_children_older_than_their_root_are_found(process):
    tree = ProcessTree()
    process.command("grow", 2)
    tree.scan()
    assert members(tree) == []
    tree.add_root(process.pid, "worker-0")
    tree.scan()
    assert members(tree) == ["worker-0"] * 3


@pytest.mark.parametrize(
    ("launch", "leave_group"), [({"process_group": 0}, 0), ({"start_new_session": True}, 1)]
)
def test_a_grandchild_whose_parent_has_ended_is_found(start_process, launch, leave_group):
    tree, process = ProcessTree(), start_process(**launch)
    tree.add_root(process.pid, "worker-0")
    tree.scan()
    process.command("orphan", leave_group)  # what remains is the process group, or the session
    tree.scan()
    assert members(tree) == ["worker-0"] * 2


def test_roots_do_not_mix_and_excluded_processes_stay_out(start_process):
    first, second, excluded = start_process(), start_process(), start_process()
    tree = ProcessTree(excluded.pid)
    tree.add_root(first.pid, "worker-0")
    tree.add_root(second.pid, "server-0")
    tree.add_root(os.getpid(), "launcher")
    first.command("grow", 1)
    second.command("grow", 2)
    assert tree.scan() == pytest.approx(len(psutil.pids()), abs=50)
    names = members(tree)
    assert (names.count("worker-0"), names.count("server-0")) == (2, 3)
    assert excluded.pid not in {each["pid"] for each in tree.report()["processes"]}


def test_a_reused_process_id_does_not_belong_to_the_tree(process, monkeypatch):
    tree = ProcessTree()
    tree.add_root(process.pid, "worker-0")
    tree.scan()
    # What psutil finds if the ID belongs to a process with another creation time by now.
    monkeypatch.setattr(psutil.Process, "is_running", lambda self: self.pid != process.pid)
    tree.scan()
    assert tree.report()["processes"][0]["ended"]


def test_a_process_that_cannot_be_read_is_a_problem_and_stays_in_the_tree(process, monkeypatch):
    tree = ProcessTree()
    tree.add_root(process.pid, "worker-0")

    def refuse(self):
        raise psutil.AccessDenied(self.pid)

    with monkeypatch.context() as patch:
        patch.setattr(psutil.Process, "memory_info", refuse)
        assert members(tree) == []
    assert tree.report()["problems"] == {"AccessDenied": 1}
    assert members(tree) == ["worker-0"]

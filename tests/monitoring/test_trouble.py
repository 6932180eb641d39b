"""What befalls a sampler: crowds, processes that vanish, clocks that jump, too few descriptors."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

from horizont.monitoring.deadlines import Deadlines
from horizont.monitoring.handle import start_sampler
from horizont.monitoring.samples import read_samples

CROWD = 500

#: Every clock but the processes' own jumps once, when a file appears: the wall clock an hour
#: back, the monotonic one by so many seconds.
_JUMP = """
#define _GNU_SOURCE
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    int status = syscall(SYS_clock_gettime, clock, now);
    if (clock < 0 || access(SIGN, F_OK)) return status;
    if (clock == CLOCK_REALTIME) now->tv_sec -= 3600;
    if (clock == CLOCK_MONOTONIC) now->tv_sec += JUMP_S;
    return status;
}
"""


@pytest.fixture
def crowd():
    """Five hundred processes that sleep, and their shell."""
    script = f"for i in $(seq {CROWD}); do sleep 900 & done; echo up; wait"
    shell = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    assert shell.stdout.readline() == b"up\n"
    yield shell
    os.killpg(shell.pid, signal.SIGKILL)
    shell.wait()
    shell.stdout.close()


def test_a_group_of_five_hundred_is_followed_and_its_sudden_end_too(crowd, tmp_path, until):
    def seen():
        frame = read_samples(tmp_path).to_pandas()
        return (frame[frame["sample"] == frame["sample"].max()]["scope"] == "process").sum()

    with start_sampler(tmp_path, 0.1, scan_s=0.1, spill_s=0.1) as sampler:
        sampler.add_root(crowd.pid, "crowd")
        until(lambda: seen() == CROWD + 1)
        os.killpg(crowd.pid, signal.SIGKILL)
        until(lambda: seen() == 0)
        outcome = sampler.stop()
    assert outcome.reason == ""
    assert outcome.report["problems"] == {}
    lives = outcome.report["processes"]
    assert len(lives) == CROWD + 1
    assert all(life["ended"] for life in lives)


def test_processes_that_vanish_at_once_do_not_disturb(tmp_path):
    # The nap at the end is for a sampler that a busy machine keeps from seeing anything before.
    script = "i=0; while [ $i -lt 300 ]; do true & /bin/true & i=$((i+1)); done; wait; sleep 0.5"
    with start_sampler(tmp_path, 0.005, scan_s=0.005, spill_s=0.1) as sampler:
        with subprocess.Popen(["sh", "-c", script], start_new_session=True) as shell:
            sampler.add_root(shell.pid, "flies")
        outcome = sampler.stop()
    assert outcome.reason == ""
    lives = outcome.report["processes"]
    assert [life for life in lives if life["first_s"] is not None]
    assert outcome.report["samples"] == read_samples(tmp_path).to_pandas()["sample"].nunique()


def jumping(folder, jump_s):
    """Build the clocks that jump, and tell how to put them before a command."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    source, library = folder / "jump.c", folder / "jump.so"
    source.write_text(_JUMP)
    sign = f'-DSIGN="{folder / "jump"}"'
    command = ["cc", "-shared", "-fPIC", sign, f"-DJUMP_S={jump_s}", "-o", library, source]
    subprocess.run(command, check=True)
    return ["env", f"LD_PRELOAD={library}"]


@pytest.mark.parametrize("jump_s", [100, -100])
def test_a_clock_that_jumps_leaves_a_gap_and_a_note(tmp_path, until, jump_s):
    folder = tmp_path / "record"
    folder.mkdir()
    prefix = jumping(tmp_path, jump_s)

    def samples():
        return read_samples(folder).to_pandas().query("scope == 'host'")

    with start_sampler(folder, 0.05, prefix=prefix, spill_s=0.05) as sampler:
        until(lambda: len(samples()) > 3)
        (tmp_path / "jump").touch()
        before = len(samples())
        until(lambda: len(samples()) > before + 5)
        outcome = sampler.stop()
    assert outcome.reason == ""
    steps_s = np.diff(samples()["time_s"])
    if jump_s > 0:
        assert outcome.report["missed"] >= 1900
        assert outcome.report["clock_set_back"] == 0
    else:
        assert outcome.report["clock_set_back"] == 1
    assert (np.abs(steps_s) > 90).sum() == 1
    assert (np.diff(samples()["sample"]) >= 1).all()


def test_ticks_go_on_after_a_clock_was_set_back():
    deadlines = Deadlines(100.0, 0.5)
    assert [deadlines.next(100.0 + n / 2).tick for n in range(4)] == [0, 1, 2, 3]
    deadlines.go_on_from(40.0)
    assert deadlines.next(40.0) == (3, 40.0, 0)
    assert deadlines.next(40.0) == (4, 40.5, 0)


def test_too_few_descriptors_are_on_record(tmp_path, tree, until):
    if shutil.which("prlimit") is None:
        pytest.skip("no prlimit")
    tree.tell("grow", 40)
    prefix = ["prlimit", "--nofile=48:48"]
    with start_sampler(tmp_path, 0.02, prefix=prefix, scan_s=0.05, spill_s=0.05) as sampler:
        sampler.add_root(tree.pid, "crowd")
        until(lambda: "crowd" in set(read_samples(tmp_path).to_pandas()["name"]))
        time.sleep(0.3)
        outcome = sampler.stop()
    assert outcome.reason == ""
    assert outcome.report["problems"]["EMFILE"] > 0
    assert json.loads((tmp_path / "samples.json").read_text()) == outcome.report

"""Robustness: many and vanishing processes, clock jumps, few descriptors, killed launchers."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from horizont.monitoring.client import start_sampler
from horizont.monitoring.samples import read_samples

CROWD = 500

_LAUNCHER = """
import sys
from pathlib import Path
from horizont.monitoring.client import start_sampler
client = start_sampler(Path(sys.argv[1]), 0.02)
print(client.pid, flush=True)
sys.stdin.read()
"""

#: Makes the counters of the host fail while a file exists.
_FAILING_HOST = """
import errno, os, psutil
memory = psutil.virtual_memory
def virtual_memory():
    if os.path.exists(%r):
        raise OSError(errno.EMFILE, "too many open files")
    return memory()
psutil.virtual_memory = virtual_memory
"""

#: A launcher whose child holds its end of the sampler's pipe; prints the number of the child.
_FORKING_LAUNCHER = """
import os, sys, time
from pathlib import Path
from horizont.monitoring.client import start_sampler
client = start_sampler(Path(sys.argv[1]), 0.02)
child = os.fork()
if child:
    print(child, flush=True)
time.sleep(600)
"""

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


def test_five_hundred_processes_are_tracked_to_their_sudden_end(crowd, tmp_path, until):
    def seen():
        frame = read_samples(tmp_path).to_pandas()
        return (frame[frame["sample"] == frame["sample"].max()]["scope"] == "process").sum()

    with start_sampler(tmp_path, 0.1, scan_interval_s=0.1, flush_interval_s=0.1) as sampler:
        sampler.add_root(crowd.pid, "crowd")
        until(lambda: seen() == CROWD + 1)
        os.killpg(crowd.pid, signal.SIGKILL)
        until(lambda: seen() == 0)
        result = sampler.stop()
    assert result.reason == ""
    assert result.report["problems"] == {}
    processes = result.report["processes"]
    assert len(processes) == CROWD + 1
    assert all(each["ended"] for each in processes)


def test_processes_that_vanish_at_once_do_no_harm(tmp_path):
    # The nap at the end is for a sampler that a busy machine keeps from seeing anything before.
    script = "i=0; while [ $i -lt 300 ]; do true & /bin/true & i=$((i+1)); done; wait; sleep 0.5"
    with start_sampler(tmp_path, 0.005, scan_interval_s=0.005, flush_interval_s=0.1) as sampler:
        with subprocess.Popen(["sh", "-c", script], start_new_session=True) as shell:
            sampler.add_root(shell.pid, "flies")
        result = sampler.stop()
    assert result.reason == ""
    processes = result.report["processes"]
    assert [each for each in processes if each["first_s"] is not None]
    assert result.report["samples"] == read_samples(tmp_path).to_pandas()["sample"].nunique()


def build_jumping_clocks(folder, jump_s):
    """Return the library that is to be loaded before others."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    source, library = folder / "jump.c", folder / "jump.so"
    source.write_text(_JUMP)
    sign = f'-DSIGN="{folder / "jump"}"'
    command = ["cc", "-shared", "-fPIC", sign, f"-DJUMP_S={jump_s}", "-o", library, source]
    subprocess.run(command, check=True)
    return library


@pytest.mark.parametrize("jump_s", [100, -100])
def test_a_clock_that_jumps_leaves_a_gap_and_is_recorded(tmp_path, until, jump_s, monkeypatch):
    folder = tmp_path / "record"
    folder.mkdir()
    monkeypatch.setenv("LD_PRELOAD", str(build_jumping_clocks(tmp_path, jump_s)))

    def samples():
        return read_samples(folder).to_pandas().query("scope == 'host'")

    with start_sampler(folder, 0.05, flush_interval_s=0.05) as sampler:
        until(lambda: len(samples()) > 3)
        (tmp_path / "jump").touch()
        before = len(samples())
        until(lambda: len(samples()) > before + 5)
        result = sampler.stop()
    assert result.reason == ""
    steps_s = np.diff(samples()["time_s"])
    if jump_s > 0:
        assert result.report["missed"] >= 1900
        assert result.report["clock_set_back"] == 0
    else:
        assert result.report["clock_set_back"] == 1
    assert (np.abs(steps_s) > 90).sum() == 1
    assert (np.diff(samples()["sample"]) >= 1).all()


def test_too_few_descriptors_are_a_problem_and_not_the_end(tmp_path, process, until):
    quick = {"scan_interval_s": 0.05, "flush_interval_s": 0.05}

    def count():
        return (read_samples(tmp_path).to_pandas()["scope"] == "process").sum()

    with start_sampler(tmp_path, 0.02, **quick) as sampler:
        sampler.add_root(process.pid, "worker-0")
        until(lambda: count() > 3)
        allowed = resource.prlimit(sampler.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(sampler.pid, resource.RLIMIT_NOFILE, (4, allowed[1]))
        time.sleep(0.3)
        before = count()
        resource.prlimit(sampler.pid, resource.RLIMIT_NOFILE, allowed)
        until(lambda: count() > before + 3)
        result = sampler.stop()
    assert result.reason == ""
    assert result.report["problems"]["EMFILE"] > 0
    assert json.loads((tmp_path / "samples.json").read_text()) == result.report


def test_a_sample_that_fails_halfway_leaves_no_rows(tmp_path, process, until, monkeypatch):
    folder, patch, failing = tmp_path / "record", tmp_path / "patch", tmp_path / "failing"
    folder.mkdir()
    patch.mkdir()
    (patch / "sitecustomize.py").write_text(_FAILING_HOST % str(failing))
    monkeypatch.setenv("PYTHONPATH", str(patch))

    def samples():
        return read_samples(folder).to_pandas()

    with start_sampler(folder, 0.02, flush_interval_s=0.05) as sampler:
        sampler.add_root(process.pid, "worker-0")
        sampler.add_host("host-1", Path("/proc/self/mem"))  # can be opened and not be read
        until(lambda: "worker-0" in set(samples()["name"]))
        failing.touch()
        time.sleep(0.3)
        failing.unlink()
        before = len(samples())
        until(lambda: len(samples()) > before + 10)
        result = sampler.stop()
    assert result.report["problems"]["EMFILE"] > 0
    assert result.report["problems"]["EIO"] > 0
    complete = samples().groupby("sample")["scope"].agg(lambda own: "host" in set(own))
    assert complete.all()
    assert len(complete) < result.report["samples"]


def test_a_launcher_that_is_killed_while_the_sampler_is_stopped_leaves_no_sampler(
    tmp_path, until, kill_at_end
):
    command = [sys.executable, "-c", _LAUNCHER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as launcher:
        sampler = int(launcher.stdout.readline())
        kill_at_end.append(sampler)
        os.kill(sampler, signal.SIGSTOP)
        launcher.kill()
    until((tmp_path / "samples.parquet").exists)
    assert json.loads((tmp_path / "samples.json").read_text())["ended"] == "the launcher ended"


def test_a_pipe_inherited_by_another_process_does_not_keep_the_sampler(
    tmp_path, until, kill_at_end
):
    command = [sys.executable, "-c", _FORKING_LAUNCHER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as launcher:
        kill_at_end.append(int(launcher.stdout.readline()))
        launcher.kill()
        until((tmp_path / "samples.parquet").exists)
        os.kill(kill_at_end[0], signal.SIGKILL)
    assert json.loads((tmp_path / "samples.json").read_text())["ended"] == "the launcher ended"

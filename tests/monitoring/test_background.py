"""Background load: CPU time of unrelated processes, with and without CPU quotas."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from horizont.monitoring import background
from horizont.monitoring.background import BackgroundMeter, _ProcessTimes, _used_s

#: Uses a CPU for a time in seconds.
BURN = "import time; end = time.process_time() + {}\nwhile time.process_time() < end: pass"

#: Measures until it reads a line, while a child of its own uses a CPU for 0.5 s. Prints the CPU
#: time of others in seconds, without and with quotas.
MEASURE = f"""
import subprocess, sys
from horizont.monitoring.background import BackgroundMeter
meter = BackgroundMeter()
print(flush=True)
subprocess.run([sys.executable, "-c", {BURN!r}.format(0.5)], check=True)
sys.stdin.readline()
print(meter.usage().others_s, meter.usage(with_quotas=True).others_s, flush=True)
"""


@contextmanager
def measuring_process() -> Iterator[subprocess.Popen[str]]:
    """Start a process that measures until it reads a line; to it, this one is unrelated."""
    command = [sys.executable, "-c", MEASURE]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process


def cpu_s_of_others(process: subprocess.Popen[str]) -> list[float]:
    """Return the CPU time of others in seconds, without and with quotas."""
    output, _ = process.communicate("\n")
    return [float(text) for text in output.split()]


def burn(seconds: float) -> None:
    end_s = time.process_time() + seconds
    while time.process_time() < end_s:
        pass


def test_an_unrelated_process_is_background_and_an_own_child_is_not() -> None:
    with measuring_process() as process:
        burn(1.0)
        host_s, processes_s = cpu_s_of_others(process)
    # Others on a busy machine only add to both.
    assert host_s > 0.7
    assert processes_s > 0.7


def test_an_own_child_is_no_background(monkeypatch: pytest.MonkeyPatch) -> None:
    others = {(1, 0.0): _ProcessTimes("init", 0, 5.0, 2.0)}
    monkeypatch.setattr("horizont.monitoring.background._other_processes", lambda: others)
    meter = BackgroundMeter()
    subprocess.run([sys.executable, "-c", BURN.format(0.3)], check=True)
    assert meter.load(with_quotas=True).cpu_fraction == 0


def test_short_lived_processes_count_by_their_parent() -> None:
    with measuring_process() as process:
        for _ in range(5):
            subprocess.run([sys.executable, "-c", BURN.format(0.1)], check=True)
        _, processes_s = cpu_s_of_others(process)
    assert processes_s > 0.4


#: Has a child that uses a CPU for 1 s, and does not wait for it: its CPU time is lost at its end.
IGNORE_CHILD = f"""
import signal, subprocess, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
burn = {BURN!r}.format(1.0) + "\\nprint(flush=True); input()"
child = subprocess.Popen([sys.executable, "-c", burn])
signal.pause()
"""


def test_lost_cpu_time_of_a_process_is_not_taken_from_others() -> None:
    command = [sys.executable, "-c", IGNORE_CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdout.readline()
        with measuring_process() as process:
            (child,) = psutil.Process(parent.pid).children()
            parent.stdin.close()
            child.wait(10)
            for _ in range(5):
                subprocess.run([sys.executable, "-c", BURN.format(0.1)], check=True)
            _, processes_s = cpu_s_of_others(process)
        parent.kill()
    assert processes_s > 0.4


def test_an_orphan_counts_by_its_adopter() -> None:
    init, shell = _ProcessTimes("init", 0, 1.0, 0.0), _ProcessTimes("shell", 1, 1.0, 0.0)
    before = {
        (1, 0.0): init,
        (7, 0.0): shell,
        (8, 0.0): _ProcessTimes("make", 7, 2.0, 0.0),
        (9, 0.0): _ProcessTimes("compiler", 8, 50.0, 0.0),
    }
    # `make` has ended first, then the compiler, after another 0.25 s.
    after = {
        (1, 0.0): init._replace(children_s=50.25),
        (7, 0.0): shell._replace(children_s=2.0),
    }
    assert _used_s(before, after) == pytest.approx(0.25)


def test_processes_are_read_again_when_one_of_them_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read_processes = background._read_processes
    readings = []
    with subprocess.Popen(["sleep", "60"]) as child:

        def read_while_a_process_ends() -> object:
            readings.append(read_processes())
            child.kill()
            child.wait()
            return readings[-1]

        monkeypatch.setattr(background, "_read_processes", read_while_a_process_ends)
        assert background._other_processes() is readings[-1]
    assert len(readings) > 1


def test_the_earlier_life_of_a_process_is_no_background(monkeypatch: pytest.MonkeyPatch) -> None:
    parent, child = (7, 0.0), (8, 0.0)
    shell = _ProcessTimes("shell", 1, 1.0, 0.0)
    before = {parent: shell, child: _ProcessTimes("compiler", 7, 50.0, 0.0)}
    # The child has ended after another 0.25 s.
    after = {parent: shell._replace(children_s=50.25)}
    snapshots = iter([before, after])
    monkeypatch.setattr("horizont.monitoring.background._other_processes", lambda: next(snapshots))
    start_s = time.monotonic()
    load = BackgroundMeter().load(with_quotas=True)
    span_s = time.monotonic() - start_s
    others_s = load.cpu_fraction * span_s * psutil.cpu_count()
    assert 0.25 <= others_s < 25  # the span of the meter is a little shorter than this one


@pytest.mark.parametrize(("stolen_s", "is_disturbed"), [(0.0, False), (9.0, True)])
def test_steal_time_disturbs_too(
    monkeypatch: pytest.MonkeyPatch, stolen_s: float, is_disturbed: bool
) -> None:
    idle = psutil.cpu_times()
    times = iter([idle, idle._replace(steal=idle.steal + stolen_s)])
    monkeypatch.setattr(psutil, "cpu_times", lambda: next(times))
    load = BackgroundMeter().load()
    assert load.cpu_fraction == 0
    assert load.disturbed is is_disturbed


@pytest.mark.parametrize(("own_s", "is_disturbed"), [(9.0, False), (5.0, True)])
def test_the_calling_process_is_no_background(
    monkeypatch: pytest.MonkeyPatch, own_s: float, is_disturbed: bool
) -> None:
    idle = psutil.cpu_times()
    host, own = iter([idle, idle._replace(user=idle.user + 9)]), iter([1.0, 1.0 + own_s])
    monkeypatch.setattr(psutil, "cpu_times", lambda: next(host))
    monkeypatch.setattr("horizont.monitoring.background._own_cpu_s", lambda: next(own))
    assert BackgroundMeter().load().disturbed is is_disturbed

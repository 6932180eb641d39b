"""Agents on this machine against the local launcher: start, throughput, cost, clocks, losses.

Goals: a run on agents that are up starts at most 0.5 s later; an agent uses at most 0.5 % of a
core, and throughput is at least 0.99 of that without; clocks within 20 microseconds; a dead worker
or agent is detected within 1 s, a dead launcher within 4 s, and nothing is left 5 s later.
"""

from __future__ import annotations

import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from bench.cases import lenet5_run
from horizont.data.preparation import prepare
from horizont.launchers.agent.session import close_sessions
from horizont.launchers.execute import RunPaths, execute
from horizont.records.record import Record

#: Pairs of runs, with and without agents in alternating order.
PAIRS = 6


def agents_here(hosts: int) -> dict[str, Any]:
    """Return the settings of a topology whose hosts are agents on this machine."""
    names = [f"node{number}" for number in range(hosts)]
    return {"launcher": "command", "options": {"command": "env HOST={host}", "hosts": names}}


AGENTS = agents_here(2)


def run() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="horizont-bench-") as name:
        folder = Path(name)
        prepare("cifar10", "synthetic", folder / "raw", folder, train_examples=2048)
        bench = _Bench(folder)
        bench.train(AGENTS)  # starts the agents
        bench.compare_starts()
        bench.compare_throughput()
        for process_name in ("worker", "agent"):
            bench.time_loss(process_name)
        close_sessions()
        bench.time_loss_of_launcher()


def train_below(folder: Path) -> None:
    """Execute a long run on agents, for a process of its own."""
    _Bench(folder).train(AGENTS, timed=200_000)


class _Bench:
    """Runs of LeNet-5 with two workers below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def train(self, topology: dict[str, Any], timed: int = 4) -> tuple[Record, float]:
        """Execute a run; return its record and the duration of everything."""
        run = lenet5_run(
            topology={"workers": 2, "threads": 1, **topology},
            steps={"warmup": 2, "timed": timed},
            sampler_hz=0,
        )
        paths = RunPaths(self._folder / "records", self._folder / "cifar10", {})
        start_s = time.monotonic()
        record = execute(run, "key", paths, lambda done, planned: None)
        return record, time.monotonic() - start_s

    def compare_starts(self) -> None:
        """Compare the durations of short runs, which are little but start and end."""
        differences_s = []
        for number in range(PAIRS):
            durations_s = {}
            for with_agents in (number % 2 == 0, number % 2 == 1):
                durations_s[with_agents] = self.train(AGENTS if with_agents else {})[1]
            differences_s.append(durations_s[True] - durations_s[False])
        middle_s = statistics.median(differences_s)
        spread = f"{min(differences_s):+.2f} to {max(differences_s):+.2f}"
        print(
            f"  a run on agents that are up takes {middle_s:+.2f} s longer ({spread}; goal 0.5 s)"
        )

    def compare_throughput(self) -> None:
        """Compare the rates of longer runs, and measure the agents' CPU time meanwhile."""
        ratios, cores = [], []
        for number in range(PAIRS):
            rates = {}
            for with_agents in (number % 2 == 0, number % 2 == 1):
                before_s, start_s = _agents_cpu_s(), time.monotonic()
                record, _ = self.train(AGENTS if with_agents else {}, timed=800)
                assert record.result.train_s is not None, record.result.reason
                rates[with_agents] = 1 / record.result.train_s
                if with_agents:
                    used_s = _agents_cpu_s() - before_s
                    cores.append(used_s / (time.monotonic() - start_s) / 2)
                    clocks = [e for e in record.events() if e["event"] == "clock"]
            ratios.append(rates[True] / rates[False])
        text = f"{min(ratios):.3f} to {max(ratios):.3f}; goal 0.99"
        print(f"  throughput with agents over without: {statistics.median(ratios):.3f} ({text})")
        print(f"  an agent uses {statistics.median(cores):.2%} of a core (goal 0.5%)")
        for clock in clocks:
            offset, error, drift = (1e6 * clock[f"{n}_s"] for n in ("offset", "error", "drift"))
            print(
                f"  clock of {clock['host']}: offset {offset:.1f} us, known to {error:.1f} us, "
                f"drift {drift:.1f} us (goal 20 us)"
            )

    def time_loss(self, process_name: str) -> None:
        """Kill a process while a run trains, and measure how soon the run has failed."""
        killed_s: list[float] = []
        failed_s: list[float] = []

        def inject() -> None:
            while not (workers := _processes("horizont.training")):
                time.sleep(0.05)
            time.sleep(8)
            target = workers[0] if process_name == "worker" else workers[0].parent()
            assert target is not None
            killed_s.append(time.monotonic())
            target.send_signal(signal.SIGKILL)

        injector = threading.Thread(target=inject)
        injector.start()
        record, _ = self.train(AGENTS, timed=20_000)
        injector.join()
        failed_s += [e["time_s"] for e in record.events() if e["event"] == "failed"]
        print(
            f"  a killed {process_name} ends the run after {failed_s[0] - killed_s[0]:.2f} s "
            f"(goal 1 s): {record.result.reason}"
        )
        assert not _processes("horizont.training")

    def time_loss_of_launcher(self) -> None:
        """Kill a launcher while its run trains, and measure when its processes have ended."""
        program = f"from bench.agents import *; train_below(Path({str(self._folder)!r}))"
        with subprocess.Popen([sys.executable, "-c", program]) as launcher:
            while not _processes("horizont.training"):
                time.sleep(0.05)
            time.sleep(8)
            found = psutil.Process(launcher.pid).children(recursive=True)
            launcher.kill()
            start_s = time.monotonic()
            _, alive = psutil.wait_procs(found, timeout=30)
            ended_s = time.monotonic() - start_s
        print(
            f"  of a killed launcher's {len(found)} processes {len(alive)} are left "
            f"after {ended_s:.2f} s (goal 0, after 4 + 5 s)"
        )


def _processes(module: str) -> list[psutil.Process]:
    """List the running processes of a module below this one."""
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if child.status() != psutil.STATUS_ZOMBIE and module in child.cmdline()
    ]


def _agents_cpu_s() -> float:
    """Return the CPU time of all agents, without that of the processes that they started."""
    return sum(sum(each.cpu_times()[:2]) for each in _processes("horizont.launchers.agent"))

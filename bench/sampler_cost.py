"""Cost of ten samples a second of eight processes: the sampler, naive psutil, and psrecord.

All three sample the same process tree alternately, each from a process of its own, whose CPU time
the kernel counts. The eight processes do a little work, as workers do.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import psutil

from horizont.monitoring.client import start_sampler
from horizont.monitoring.samples import read_samples

HZ = 10.0
PROCESSES = 8
SPAN_S = 10.0
ROUNDS = 3
#: What the sampler does once, at its first sample, is not part of its running cost.
START_S = 1.0
GOAL_PERCENT = 1.0
GOAL_LATE_MS = 5.0

#: A parent and its children, each busy for a tenth of the time.
TREE = """
import os, time
for _ in range(%d):
    if not os.fork():
        break
while True:
    end = time.process_time() + 0.002
    while time.process_time() < end:
        pass
    time.sleep(0.018)
"""

#: A first attempt: walk the tree, read everything of each process, then sleep.
NAIVE = """
import sys, time, psutil
root, hz, span = psutil.Process(int(sys.argv[1])), float(sys.argv[2]), float(sys.argv[3])
start, rows, late = time.monotonic(), [], []
due = start
begun = time.process_time()
while time.monotonic() - start < span:
    late.append(time.monotonic() - due)
    for process in [root, *root.children(recursive=True)]:
        try:
            with process.oneshot():
                rows.append((process.cpu_times(), process.memory_info(), process.num_threads(),
                             process.io_counters(), process.name(), process.status()))
        except psutil.Error:
            continue
    due += 1 / hz
    time.sleep(max(0.0, 1 / hz))
print((time.process_time() - begun) / (time.monotonic() - start), sorted(late)[len(late) // 2])
"""

PSRECORD = """
import sys, time, psutil
from psrecord.main import monitor
start, begun = time.monotonic(), time.process_time()
monitor(int(sys.argv[1]), logfile="/dev/null", duration=float(sys.argv[3]),
        interval=1 / float(sys.argv[2]), include_children=True, include_io=True)
print((time.process_time() - begun) / (time.monotonic() - start))
"""


def run() -> None:
    """Print the cost of each in percent of a core, and the lateness of the samples."""
    tree = subprocess.Popen([sys.executable, "-S", "-c", TREE % (PROCESSES - 1)])
    try:
        time.sleep(0.5)
        ours, late, naive, naive_late, psrecord = [], [], [], [], []
        for _ in range(ROUNDS):
            cost, lateness = _sampler(tree.pid)
            ours.append(cost)
            late.append(lateness)
            cost, lateness = _other(NAIVE, tree.pid)
            naive.append(cost)
            naive_late.append(lateness)
            psrecord.append(_other(PSRECORD, tree.pid)[0])
    finally:
        for child in psutil.Process(tree.pid).children():
            child.kill()
        tree.kill()
        tree.wait()
    _report(ours, late, naive, naive_late, psrecord)


def _sampler(root: int) -> tuple[float, float]:
    """Return the fraction of a core that the sampler used after its start, and median lateness."""
    with tempfile.TemporaryDirectory(prefix="horizont-bench-") as name:
        with start_sampler(Path(name), 1 / HZ) as sampler:
            sampler.add_root(root, "tree")
            time.sleep(SPAN_S)
            result = sampler.stop()
        frame = read_samples(Path(name)).to_pandas()
        rows = frame[frame["scope"] == "sampler"]
        rows = rows[rows["time_s"] > rows["time_s"].min() + START_S]
        assert len(result.report["processes"]) == PROCESSES, result.report["processes"]
        used_s = rows["cpu_s"].iloc[-1] - rows["cpu_s"].iloc[0]
        span_s = rows["time_s"].iloc[-1] - rows["time_s"].iloc[0]
        return float(used_s / span_s), float(result.report["late_median_s"])


def _other(code: str, root: int) -> tuple[float, float]:
    """Return the fraction of a core that a program used, and the median lateness it printed."""
    words = [str(root), str(HZ), str(SPAN_S)]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )
    cost, *late = (float(word) for word in done.stdout.splitlines()[-1].split())
    return cost, late[0] if late else float("nan")


def _report(
    ours: list[float],
    late: list[float],
    naive: list[float],
    naive_late: list[float],
    psrecord: list[float],
) -> None:
    cost, lateness = 100 * median(ours), 1e3 * median(late)
    print(
        f"  {PROCESSES} processes at {HZ:g} Hz, median of {ROUNDS} rounds of {SPAN_S:g} s, "
        "percent of a core:"
    )
    print(
        f"  sampler {cost:.2f} (goal {GOAL_PERCENT:g}) {'ok' if cost <= GOAL_PERCENT else 'ABOVE'}"
    )
    for name, costs in (("psutil, naively", naive), ("psrecord", psrecord)):
        print(f"  {name} {100 * median(costs):.2f}, {median(costs) / median(ours):.1f} times that")
    print(
        f"  median lateness {lateness:.2f} ms (goal {GOAL_LATE_MS:g}) "
        f"{'ok' if lateness < GOAL_LATE_MS else 'ABOVE'}; "
        f"a naive loop {1e3 * median(naive_late):.1f} ms, and increasing"
    )

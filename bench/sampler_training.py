"""Training throughput with the sampler on against off, on both cores.

Two workers train without pause while their sampler is stopped and continued every two seconds, so
that slow drifts of the machine affect both sides alike.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil

from bench.cases import lenet5_run
from horizont.config.run import Run
from horizont.data.preparation import prepare
from horizont.launchers.execute import RunPaths, execute

GOAL = 0.99
HZ = 5.0
WINDOW_S = 2.0


class Toggle(threading.Thread):
    """Stops and continues the sampler of the run alternately, and records the times."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.ended = threading.Event()
        self.windows: list[tuple[float, float, bool]] = []

    def run(self) -> None:
        """Switch the sampler off and on until the run is over; it runs at the end."""
        on = True
        while not self.ended.is_set():
            started = time.monotonic()
            self.ended.wait(WINDOW_S)
            self.windows.append((started, time.monotonic(), on))
            on = not on
            self._signal(signal.SIGCONT if on else signal.SIGSTOP)
        self._signal(signal.SIGCONT)

    @staticmethod
    def _signal(number: int) -> None:
        for child in psutil.Process().children():
            if "horizont.monitoring.sampler" in child.cmdline():
                os.kill(child.pid, number)


def long_run(steps: int) -> Run:
    """Plan a run that trains for about a minute on two workers."""
    return lenet5_run(steps={"warmup": 20, "timed": steps, "instrumented": 0}, sampler_hz=HZ)


def run() -> None:
    """Print the ratio of the step rates."""
    with tempfile.TemporaryDirectory(prefix="horizont-bench-") as folder:
        root = Path(folder)
        prepare("cifar10", "synthetic", root / "raw", root, train_examples=5000, test_examples=10)
        toggle = Toggle()
        toggle.start()
        record = execute(
            long_run(5000), "bench", RunPaths(root / "records", root / "cifar10", {}), _silent
        )
        toggle.ended.set()
        toggle.join()
        if not record.ok:
            print(f"  failed: {record.result.reason}")
            return
        _report(record.steps().to_pandas(), toggle.windows)


def _silent(done: int, planned: int) -> None:
    del done, planned


def _report(steps, windows) -> None:  # type: ignore[no-untyped-def]
    """Compare the median rates of the windows with the sampler on and off."""
    timed = steps[steps["kind"] == "timed"]
    ends = np.sort((timed["start_s"] + timed["step_s"]).to_numpy())
    rates: dict[bool, list[float]] = {True: [], False: []}
    for start, end, on in windows:
        if start < ends[0] or end > ends[-1]:
            continue
        rates[on].append(np.sum((ends >= start) & (ends < end)) / (end - start))
    with_s, without_s = np.median(rates[True]), np.median(rates[False])
    ratio = with_s / without_s
    pairs = np.array(rates[True][: len(rates[False])]) / np.array(rates[False][: len(rates[True])])
    spread = np.percentile(pairs, [25, 75])
    print(
        f"  {len(rates[True])} windows with the sampler at {HZ:g} Hz, {len(rates[False])} without: "
        f"ratio {ratio:.3f}, middle half of pairs {spread[0]:.3f} to {spread[1]:.3f} "
        f"(goal {GOAL}) {'ok' if ratio >= GOAL else 'BELOW'}"
    )


if __name__ == "__main__":
    run()

"""The noise of a machine: one computation, the same each time, timed in a few fresh processes.

``python -m horizont.monitoring.noise SECONDS`` is one of the processes.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from horizont.monitoring.process_control import (
    child_environment,
    defer_interrupts,
    parent_death_signal,
)

#: Fresh processes: the layout of memory, and with it the speed, differs from one to the next.
PROCESSES = 8

#: Fewer repetitions of a process show no spread.
MIN_REPETITIONS = 3

#: The products of a repetition, some ten milliseconds; a matrix fits into the second-level cache,
#: the vector into none, so that neighbours who share caches and memory are felt.
_PRODUCTS, _MATRIX, _VECTOR = 8, 256, 1 << 21


def measure_noise(duration_s: float, on_process: Callable[[int], None]) -> list[list[float]]:
    """Time the computation in fresh processes, one after the other, with one thread each.

    All together last `duration_s`, without their start. `on_process` is called with the number of
    each process, from 0, before it starts.

    Returns
    -------
    list
        For each process the durations of its repetitions, in seconds.
    """
    times_s = []
    for number in range(PROCESSES):
        on_process(number)
        times_s.append(_run_process(duration_s / PROCESSES))
    return times_s


def _run_process(duration_s: float) -> list[float]:
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
    command = [sys.executable, "-m", "horizont.monitoring.noise", str(duration_s)]
    process = None
    try:
        with defer_interrupts():  # one that arrives during a fork would be lost
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                env=child_environment(**threads),
                start_new_session=True,  # a Ctrl-C is for the parent, which then kills the process
                preexec_fn=parent_death_signal(signal.SIGKILL),  # noqa: PLW1509 - takes no lock
            )
        output, _ = process.communicate()
    except BaseException:
        if process is not None:
            process.kill()
            process.wait()
        raise
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    times_s: list[float] = json.loads(output)
    return times_s


def repeat_computation(duration_s: float) -> list[float]:
    """Repeat the computation for so long; return the duration of each repetition in seconds."""
    random = np.random.default_rng(0)
    left, right = random.random((2, _MATRIX, _MATRIX), dtype=np.float32)
    vector = np.ones(_VECTOR, dtype=np.float32)
    times_s: list[float] = []
    end_s = time.perf_counter() + duration_s
    while time.perf_counter() < end_s or len(times_s) <= MIN_REPETITIONS:
        start_s = time.perf_counter()
        for _ in range(_PRODUCTS):
            np.tanh(left @ right)
            np.negative(vector, out=vector)
        times_s.append(time.perf_counter() - start_s)
    return times_s[1:]  # the first one pays for fresh memory


if __name__ == "__main__":
    print(json.dumps(repeat_computation(float(sys.argv[1]))))

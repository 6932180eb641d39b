"""Our training loop against each framework's own trainer: same network, data in memory, one thread.

In a fresh process, segments of our loop and of the framework's own alternate; the ratio of the
process is the median of those of neighbouring segments, so that a temporary slowdown of the
machine affects both. The location of the two in memory speeds one of them up for the lifetime of
the process, by up to five percent, so the median of several processes is reported.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any

from bench.cases import CASES
from horizont.config.interpreters import import_variables
from horizont.config.system import (
    DEFAULT,
    FRAMEWORKS,
    framework_python,
    installed_version,
    qualified_name,
)
from horizont.launchers.plan import thread_environment

GOAL = 0.98


def run() -> None:
    """Print a row for each framework."""
    for framework in FRAMEWORKS:
        compare(framework, "lenet5", GOAL)


def compare(
    framework: str, network: str, goal: float | None = None, variant: str = DEFAULT
) -> None:
    """Compare in fresh processes, and print a row.

    Without a goal the ratio of a single process is printed.
    """
    name = qualified_name(framework, variant)
    if installed_version(framework) is None:
        print(f"  {name:<21} skipped: not installed")
        return
    processes = 1 if goal is None else CASES[network].processes
    rows = run_in_processes(f"  {name:<21}", processes, framework, "bench.own", network, variant)
    if not rows:
        return
    ratios = [row["ratio"] for row in rows]
    ratio = statistics.median(ratios)
    verdict = ""
    if goal is not None:
        verdict = f" (goal {goal:.2f}) {'ok' if ratio >= goal else 'BELOW'}"
    ours, theirs = (statistics.median(row[side] for row in rows) for side in ("ours", "theirs"))
    print(
        f"  {name:<21} {network:<13} against {rows[0]['peer']:<22} "
        f"ours {ours:8.2f} steps/s, theirs {theirs:8.2f}: "
        f"ratio {ratio:.3f} of {len(ratios)} ({min(ratios):.3f} to {max(ratios):.3f}){verdict}",
        flush=True,
    )


def run_in_processes(
    head: str, processes: int, framework: str, program: str, *words: str
) -> list[Any]:
    """Run a program of this package with a framework, one thread, in several fresh processes.

    Its first argument is the framework.

    Returns
    -------
    list
        The last line that each printed, as JSON. If one fails, its error is printed after `head`,
        and the list is empty.
    """
    results = []
    python = framework_python(framework)
    variables = {**thread_environment(1), **import_variables(python), "TF_CPP_MIN_LOG_LEVEL": "3"}
    for _ in range(processes):
        done = subprocess.run(
            [python, "-m", program, framework, *words],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            print(f"{head} failed: {done.stderr.strip().splitlines()[-1]}", flush=True)
            return []
        results.append(json.loads(done.stdout.strip().splitlines()[-1]))
    return results


def alternate(
    ours: Callable[[], None], theirs: Callable[[], None], *, steps: int, rounds: int
) -> dict[str, float]:
    """Run two loops of `steps` steps alternately.

    Returns
    -------
    dict
        The median rate of each in steps/s, and the median ratio of neighbours.
    """
    ours()
    theirs()
    rates: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        pair = [(ours, rates[0]), (theirs, rates[1])]
        for loop, rate in pair if number % 2 else reversed(pair):
            started = time.perf_counter()
            loop()
            rate.append(steps / (time.perf_counter() - started))
    return {
        "ours": statistics.median(rates[0]),
        "theirs": statistics.median(rates[1]),
        "ratio": statistics.median(one / other for one, other in zip(*rates, strict=True)),
    }

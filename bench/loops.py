"""Our training loop against each framework's own trainer: same network, data in memory, one thread.

Each framework has a fresh process. In it, segments of our loop and of the framework's own take
turns; the ratio is the median of those of neighbouring segments, so that a machine that slows
down for a while slows both.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from horizont.cluster.plan import surroundings
from horizont.spec import FRAMEWORKS, PLAIN, Build, installed_version
from horizont.spec.build import trainer_name

GOAL = 0.98


def run() -> None:
    """Print a row for each framework."""
    for framework in FRAMEWORKS:
        compare(framework, "lenet5", GOAL)


def compare(framework: str, network: str, goal: float | None = None, build: Build = PLAIN) -> None:
    """Compare in a fresh process, and print a row for each peer of ours.

    Without a goal the ratio is told and not judged.
    """
    name = trainer_name(framework, build)
    if installed_version(framework) is None:
        print(f"  {name:<21} skipped: not installed")
        return
    done = subprocess.run(
        [sys.executable, "-m", "bench.own", framework, network, build],
        env={**os.environ, **surroundings(1), "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(f"  {name:<21} failed: {done.stderr.strip().splitlines()[-1]}")
        return
    for row in json.loads(done.stdout.strip().splitlines()[-1]):
        verdict = ""
        if goal is not None:
            verdict = f" (goal {goal:.2f}) {'ok' if row['ratio'] >= goal else 'BELOW'}"
        print(
            f"  {name:<21} {network:<13} against {row['peer']:<22} "
            f"ours {row['ours']:8.2f} steps/s, theirs {row['theirs']:8.2f}: "
            f"ratio {row['ratio']:.3f}{verdict}",
            flush=True,
        )


def take_turns(
    ours: Callable[[], None], theirs: Callable[[], None], *, steps: int, rounds: int
) -> dict[str, float]:
    """Let two loops of so many steps take turns.

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

"""The tutorial: small programs of each framework, really started, and held against one process."""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from horizont.cluster import PlannedProcess, holding_ports
from horizont.cluster.group import ProcessGroup, ending_all
from horizont.cluster.plan import surroundings
from horizont.cluster.watch import watch
from horizont.errors import MissingFramework, UserError
from horizont.measure.interrupts import interrupts_later
from horizont.pipeline.ground import SOURCE
from horizont.pipeline.progress import Progress
from horizont.pipeline.ways import LOOPBACK, WAYS, Way
from horizont.report.lessons.tutorial import Lesson, Member
from horizont.report.shown import Source
from horizont.spec import installed_version
from horizont.theory import tutorial

PROGRAMS = SOURCE / "frameworks" / "tutorial"
DEADLINE_S = 120.0


def tutorial_program(way: str) -> Source:
    """Show the program of a way as it is run."""
    return Source((PROGRAMS / f"{_way(way).program}.py").read_text(encoding="utf-8").rstrip())


def start_tutorial(name: str, leave_out: str = "") -> Lesson:
    """Start the processes of a way, wait for them, and read what they came to.

    Parameters
    ----------
    leave_out
        Names of ways that are shown and not started, with spaces between them.

    Raises
    ------
    UserError
        If there is no such way, or its framework is not installed.
    RunFailed
        If a process ends badly or all take too long. None is left running.
    """
    way = _way(name)
    if name in leave_out.split():
        return Lesson(name, way.framework, way.means, way.exact)
    if installed_version(way.framework) is None:
        raise MissingFramework(way.framework)
    progress = Progress("program", 1)
    progress.begin(f"{way.means} with {len(way.roles)} processes")
    begun_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="horizont-") as made:
        members = _carry_out(way, Path(made))
        trained = _told(Path(made), members)
    wall_s = time.monotonic() - begun_s
    progress.end(f"{wall_s:.1f} s")
    progress.close()
    return Lesson(name, way.framework, way.means, way.exact, members, trained, wall_s)


def plan_tutorial(way: Way, folder: Path, addresses: list[str]) -> list[PlannedProcess]:
    """Plan the processes of a way; those that serve come first."""
    return [
        PlannedProcess(
            name=f"{role}-{way.roles[:place].count(role)}",
            host=LOOPBACK,
            argv=(sys.executable, str(PROGRAMS / f"{way.program}.py"), *way.words),
            environment={
                **surroundings(1),
                **way.variables(way.roles, addresses, place),
                "TF_CPP_MIN_LOG_LEVEL": "2",
                "TMPDIR": str(folder),
            },
            folder=folder / f"{role}-{way.roles[:place].count(role)}",
            job=None,
            passive=role in way.serving,
        )
        for place, role in enumerate(way.roles)
    ]


def _carry_out(way: Way, folder: Path) -> tuple[Member, ...]:
    """Start all processes of a way and wait until those that train have ended."""
    x, labels = tutorial.examples()
    np.savez(folder / "examples.npz", x=x, labels=labels)
    groups: list[ProcessGroup] = []
    with holding_ports([LOOPBACK] * len(way.roles), 0) as ports:
        addresses = [f"{LOOPBACK}:{port}" for port in ports]
        planned = plan_tutorial(way, folder, addresses)
        with ending_all(groups):
            for each in planned:
                with interrupts_later():
                    groups.append(ProcessGroup(each, folder / f"{each.name}.log"))
            watch(groups, DEADLINE_S, lambda: None)
    own = [way.variables(way.roles, addresses, place) for place in range(len(way.roles))]
    return tuple(
        Member(group.name, group.process.pid, address if variables else "", variables)
        for group, address, variables in zip(groups, addresses, own, strict=True)
    )


def _told(folder: Path, members: tuple[Member, ...]) -> tutorial.Trained:
    """Read what the processes left: mean losses, and the weights of the one that came last.

    Workers that do not wait for each other leave with different weights.
    """
    files = sorted(folder.glob("*/told.npz"), key=lambda file: file.stat().st_mtime_ns)
    if not files:
        raise UserError("tutorial", [m.name for m in members], "processes that leave told.npz")
    told = [np.load(file) for file in files]
    losses = [each["losses"] for each in told if each["losses"].size]
    by_step = [each.reshape(tutorial.STEPS, -1).mean(axis=1) for each in losses]
    return tutorial.Trained(np.mean(by_step, axis=0), told[-1]["weight"], told[-1]["bias"])


def _way(name: str) -> Way:
    if name not in WAYS:
        raise UserError("way", name, list(WAYS))
    return WAYS[name]

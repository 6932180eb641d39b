"""The tutorial: small programs of each framework, really started, and held against one process."""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from horizont.config.system import installed_version
from horizont.errors import MissingFramework, UserError
from horizont.launchers.local import reserve_ports
from horizont.launchers.plan import ProcessPlan, thread_environment
from horizont.launchers.supervisor import run_as_group
from horizont.reporting.lessons.lesson import Lesson, Member
from horizont.reporting.page import SourceListing
from horizont.theory import tutorial
from horizont.workflow.progress import Progress
from horizont.workflow.provenance import PACKAGE_FOLDER
from horizont.workflow.ways import LOOPBACK, WAYS, Way

PROGRAMS = PACKAGE_FOLDER / "frameworks" / "tutorial"
DEADLINE_S = 120.0

REMARK = re.compile(r"  # (type: ignore|noqa).*")


def tutorial_program(way: str) -> SourceListing:
    """Show the program of a way as it is run, without remarks to those who check its style."""
    text = (PROGRAMS / f"{_way(way).program}.py").read_text(encoding="utf-8")
    return SourceListing(REMARK.sub("", text).rstrip())


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
    progress.start(f"{way.means} with {len(way.roles)} processes")
    begun_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="horizont-") as made:
        members = _carry_out(way, Path(made))
        trained = _told(Path(made), members)
    wall_s = time.monotonic() - begun_s
    progress.finish(f"{wall_s:.1f} s")
    progress.close()
    return Lesson(name, way.framework, way.means, way.exact, members, trained, wall_s)


def plan_tutorial(way: Way, folder: Path, addresses: list[str]) -> list[tuple[ProcessPlan, Member]]:
    """Plan the processes of a way, and write down what each is told."""
    planned = []
    for place, role in enumerate(way.roles):
        name = f"{role}-{way.roles[:place].count(role)}"
        told = way.variables(way.roles, addresses, place)
        process = ProcessPlan(
            name=name,
            host=LOOPBACK,
            argv=(sys.executable, str(PROGRAMS / f"{way.program}.py"), *way.words),
            environment={
                **thread_environment(1),
                **told,
                "TF_CPP_MIN_LOG_LEVEL": "2",
                "TMPDIR": str(folder),
            },
            folder=folder / name,
            job=None,
            is_service=role in way.serving,
        )
        own = addresses[place]
        listens = any(value == own.rpartition(":")[2] or own in value for value in told.values())
        planned.append((process, Member(name, own if listens else "", told)))
    return planned


def _carry_out(way: Way, folder: Path) -> tuple[Member, ...]:
    """Start all processes of a way and wait until those that train have ended."""
    x, labels = tutorial.examples()
    np.savez(folder / "examples.npz", x=x, labels=labels)
    with reserve_ports([LOOPBACK] * len(way.roles), 0) as ports:
        planned = plan_tutorial(way, folder, [f"{LOOPBACK}:{port}" for port in ports])
        run_as_group([process for process, _ in planned], DEADLINE_S)
    return tuple(member for _, member in planned)


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

"""Signs of life: steps made, stages of the start-up passed, processor time used."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from horizont.cluster.group import ProcessGroup
from horizont.cluster.plan import PROGRESS_FILE
from horizont.measure.progress import read_progress

#: Processes that use less than this, all together, in cores, only keep themselves alive.
IDLE_CORES = 0.1
#: So much may be used at a stroke, in seconds.
IDLE_S = 0.1


class Signs:
    """How long the processes of a run have shown no sign of getting on.

    A long step, or one on a busy machine, is told from a hang by the processor time that it uses.

    Parameters
    ----------
    groups
        The processes; one may be added later.
    """

    def __init__(self, groups: Sequence[ProcessGroup]) -> None:
        self.groups = list(groups)
        self._seen: list[object] = []
        self._since_s = time.monotonic()
        self._cpu_s: dict[str, float] = {}
        self._cpu_then_s = 0.0

    def quiet_s(self) -> float:
        """Look, and tell for how long nothing has moved, in seconds."""
        now_s = time.monotonic()
        folders = [group.planned.folder for group in self.groups]
        seen: list[object] = [(steps_done(folder), _diary_bytes(folder)) for folder in folders]
        used_s = self._used_s() - self._cpu_then_s
        if seen != self._seen or used_s > IDLE_S + IDLE_CORES * (now_s - self._since_s):
            self._seen, self._since_s = seen, now_s
            self._cpu_then_s += used_s
        return now_s - self._since_s

    def _used_s(self) -> float:
        """Tell the processor time of all, those that have ended included, in seconds."""
        for group in self.groups:
            with contextlib.suppress(psutil.NoSuchProcess):
                times = psutil.Process(group.process.pid).cpu_times()
                self._cpu_s[group.name] = times.user + times.system
        return sum(self._cpu_s.values())


def steps_done(folder: Path) -> int | None:
    """Tell the steps that a process has made; None if it counts none (yet)."""
    progress = read_progress(folder / PROGRESS_FILE)
    return None if progress is None else progress.done


def _diary_bytes(folder: Path) -> int:
    try:
        return (folder / "events.jsonl").stat().st_size
    except FileNotFoundError:
        return 0

"""Signs of life: steps made, stages of the start-up passed, processes ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from horizont.cluster.plan import PROGRESS_FILE
from horizont.measure.progress import read_progress


class Signs:
    """How long the processes of a run have shown no sign of getting on.

    Parameters
    ----------
    folders
        Those of the processes; one may be added later.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = list(folders)
        self._seen: list[object] = []
        self._since_s = time.monotonic()

    def quiet_s(self) -> float:
        """Look, and tell for how long nothing has changed, in seconds."""
        seen = [(steps_done(folder), _diary_bytes(folder)) for folder in self.folders]
        if seen != self._seen:
            self._seen, self._since_s = list(seen), time.monotonic()
        return time.monotonic() - self._since_s


def steps_done(folder: Path) -> int | None:
    """Tell the steps that a process has made; None if it counts none (yet)."""
    progress = read_progress(folder / PROGRESS_FILE)
    return None if progress is None else progress.done


def _diary_bytes(folder: Path) -> int:
    try:
        return (folder / "events.jsonl").stat().st_size
    except FileNotFoundError:
        return 0

"""Folders of runs, finished and running, and their event logs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from horizont.records.files import read_events
from horizont.records.record import writer_alive

#: ``abandoned``: the launcher has exited; ``missing``: there is no folder, as after an interrupt.
RunState = Literal["running", "finished", "abandoned", "missing"]

_TEMPORARY = re.compile(r"\.(?P<key>.+)\.\d+\.tmp")


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run at this moment."""

    folder: Path
    state: RunState

    def events(self) -> list[dict[str, Any]]:
        """Read the events of the launcher and of all processes, in order of time."""
        events = read_events(self.folder / "events.jsonl")
        for log in self.folder.glob("processes/*/events.jsonl"):
            events += [{**event, "process": log.parent.name} for event in read_events(log)]
        return sorted(events, key=lambda event: float(event["time_s"]))


def locate_run(record: Path) -> RunFolder:
    """Find the folder of a run by the path of its record once it is finished.

    A running repetition of the run comes before an earlier record of it that failed.
    """
    for folder in record.parent.glob(f".{record.name}.*.tmp"):
        if _TEMPORARY.fullmatch(folder.name):
            return RunFolder(folder, "running" if writer_alive(folder) else "abandoned")
    return RunFolder(record, "finished" if (record / "result.json").exists() else "missing")


def find_runs(records: Path) -> list[Path]:
    """List the paths of all records, those of running runs first, then the newest first.

    The path of each record is that once it is finished; see `locate_run`.
    """
    ranks: dict[Path, tuple[bool, float]] = {}
    for spec in records.glob("*/*/*/spec.json"):
        temporary = _TEMPORARY.fullmatch(spec.parent.name)
        record = spec.parent.with_name(temporary["key"]) if temporary else spec.parent
        try:
            rank = (temporary is not None, spec.stat().st_mtime)
        except FileNotFoundError:  # renamed meanwhile; the next call finds it
            continue
        ranks[record] = max(rank, ranks.get(record, rank))
    return sorted(ranks, key=lambda record: ranks[record], reverse=True)

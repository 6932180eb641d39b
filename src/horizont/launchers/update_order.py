"""Who sent each update that a server applied, and how stale it was: found by content.

Workers and servers left digests of what they sent and applied. Each applied gradient must be one
that a worker sent, each sent one must have been applied once, and each must have been computed
on weights that the server really had.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict, deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from horizont.config.jobs import APPLIED_FILE, GRADIENTS_FILE, PUSHED_FILE, SERVER_WEIGHTS_FILE
from horizont.launchers.supervisor import RunFailed
from horizont.records.files import write_table
from horizont.records.record import RecordWriter

UPDATE_COLUMNS = ("server", "sequence", "part", "worker", "step", "version", "staleness")

LogLine = dict[str, Any]


def collect_updates(record: RecordWriter, folders: list[Path]) -> None:
    """Put the updates of all servers into one table, and the gradients into the record.

    Raises
    ------
    RunFailed
        If the servers did not apply exactly what the workers sent.
    """
    pushed, applied = _read_log_lines(folders, PUSHED_FILE), _read_log_lines(folders, APPLIED_FILE)
    rows = match_updates(pushed, applied)
    table = pa.table({name: [row[name] for row in rows] for name in UPDATE_COLUMNS})
    write_table(record.folder / "updates.parquet", table)
    for folder in folders:
        for file, name in (
            (GRADIENTS_FILE, f"{folder.name}.npz"),
            (SERVER_WEIGHTS_FILE, SERVER_WEIGHTS_FILE),
        ):
            if (folder / file).exists():
                (record.folder / "gradients").mkdir(exist_ok=True)
                shutil.move(folder / file, record.folder / "gradients" / name)


def _read_log_lines(folders: list[Path], file: str) -> list[LogLine]:
    """Read what the processes noted, each line with the rank of its process."""
    return [
        {**json.loads(line), "rank": int(folder.name.rsplit("-", 1)[1])}
        for folder in folders
        if (folder / file).exists()
        for line in (folder / file).read_text(encoding="utf-8").splitlines()
    ]


class WeightVersions:
    """The digests of a part of the weights after 0, 1, 2... updates.

    Attributes
    ----------
    versions
        How many updates made each digest; the most of equal ones: a gradient of zeros leaves
        the weights as they are.
    """

    def __init__(self, first: str) -> None:
        self.versions = {first: 0}
        self.updates = 0
        self.last_digest = first

    def add(self, digest: str) -> None:
        """Take in what an update left."""
        self.updates += 1
        self.versions[digest] = self.updates
        self.last_digest = digest


def match_updates(pushed: Iterable[LogLine], applied: Iterable[LogLine]) -> list[LogLine]:
    """Find for each applied gradient the worker and step that it came from.

    Parameters
    ----------
    pushed
        Lines with rank, part, step, and the digests `on` (of the weights) and `gradient`.
    applied
        Lines with rank, part, and the digests `before`, `gradient` and `after`, in the order of
        each server.

    Returns
    -------
    list
        A row for each update, with the columns of the record's table.

    Raises
    ------
    RunFailed
        If a line fits nowhere.
    """
    waiting: dict[tuple[str, str], deque[LogLine]] = defaultdict(deque)
    for line in pushed:
        waiting[line["part"], line["gradient"]].append(line)
    histories: dict[str, WeightVersions] = {}
    sequences: dict[int, int] = defaultdict(int)
    rows = []
    for line in applied:
        rows.append(_match_update(line, waiting, histories) | {"sequence": sequences[line["rank"]]})
        sequences[line["rank"]] += 1
    left = sum(map(len, waiting.values()))
    if left:
        raise RunFailed(f"{left} gradients were sent but never applied")
    return rows


def _match_update(
    line: LogLine,
    waiting: dict[tuple[str, str], deque[LogLine]],
    histories: dict[str, WeightVersions],
) -> LogLine:
    """Match one update."""
    part = line["part"]
    history = histories.setdefault(part, WeightVersions(line["before"]))
    where = f"update {history.updates + 1} of {part} on server-{line['rank']}"
    if history.last_digest != line["before"]:
        raise RunFailed(f"{where} met weights that the update before did not leave")
    senders = waiting[part, line["gradient"]]
    if not senders:
        raise RunFailed(f"{where} was of a gradient that no worker sent, or sent but once")
    sender = senders.popleft()
    version = history.versions.get(sender["on"])
    if version is None:
        worker = f"worker-{sender['rank']}, step {sender['step']}"
        raise RunFailed(f"{where} was computed on weights that the server never had ({worker})")
    staleness = history.updates - version
    history.add(line["after"])
    return {
        "server": line["rank"],
        "part": part,
        "worker": sender["rank"],
        "step": sender["step"],
        "version": version,
        "staleness": staleness,
    }

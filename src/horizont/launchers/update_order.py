"""Origin and staleness of each update that asynchronous servers applied, matched by content.

Workers and servers log digests of the gradients that they pushed and applied. Each applied gradient
must have been pushed by a worker, each pushed one must have been applied once, and each must have
been computed on weights that the server really had.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from horizont.config.jobs import APPLIED_FILE, GRADIENTS_FILE, PUSHED_FILE, SERVER_WEIGHTS_FILE
from horizont.errors import RunFailed
from horizont.records.files import write_table
from horizont.records.record import RecordWriter
from horizont.records.schema import UPDATE_COLUMNS

LogLine = dict[str, Any]


def collect_updates(record: RecordWriter, folders: Sequence[Path]) -> None:
    """Write the updates of all servers as one table, and move the gradients into the record.

    Unless the servers applied exactly what the workers pushed, the run has failed.
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


def _read_log_lines(folders: Sequence[Path], file: str) -> list[LogLine]:
    """Read a log of all processes, each line with the rank of its process."""
    return [
        {**json.loads(line), "rank": int(folder.name.rsplit("-", 1)[1])}
        for folder in folders
        if (folder / file).exists()
        for line in (folder / file).read_text(encoding="utf-8").splitlines()
    ]


def match_updates(pushed: Iterable[LogLine], applied: Iterable[LogLine]) -> list[LogLine]:
    """Find the worker and the step that each applied gradient came from.

    Lines of what was pushed have rank, part, step, and the digests `on` (of the weights) and
    `gradient`; lines of what was applied, in the order of each server, have rank, part, and the
    digests `before`, `gradient` and `after`. A line without a counterpart raises `RunFailed`.

    Returns
    -------
    list
        A row for each update, with the columns `UPDATE_COLUMNS`.
    """
    pending: dict[tuple[str, str], deque[LogLine]] = defaultdict(deque)
    for line in pushed:
        pending[line["part"], line["gradient"]].append(line)
    digests_by_part: dict[str, list[str]] = {}
    sequences: Counter[int] = Counter()
    rows = []
    for line in applied:
        digests = digests_by_part.setdefault(line["part"], [line["before"]])
        row = _match_update(line, pending[line["part"], line["gradient"]], digests)
        rows.append(row | {"sequence": sequences[line["rank"]]})
        sequences[line["rank"]] += 1
        digests.append(line["after"])
    not_applied = sum(map(len, pending.values()))
    if not_applied:
        raise RunFailed(f"{not_applied} gradients were pushed but never applied")
    return rows


def _match_update(line: LogLine, pushes: deque[LogLine], digests: list[str]) -> LogLine:
    """Match an update with the first of the pushes of the same gradient.

    The digests are those of the part of the weights after 0, 1, 2... updates.
    """
    updates = len(digests) - 1
    update = f"update {updates + 1} of {line['part']} on server-{line['rank']}"
    if digests[-1] != line["before"]:
        raise RunFailed(f"{update} started from weights that the previous update did not produce")
    if not pushes:
        raise RunFailed(f"{update} applied a gradient that no worker pushed, or pushed only once")
    push = pushes.popleft()
    if push["on"] not in digests:
        source = f"worker-{push['rank']}, step {push['step']}"
        raise RunFailed(f"{update} was computed on weights that the server never had ({source})")
    # The last of equal digests, as a gradient of zeros does not change the weights.
    staleness = digests[::-1].index(push["on"])
    return {
        "server": line["rank"],
        "part": line["part"],
        "worker": push["rank"],
        "step": push["step"],
        "version": updates - staleness,
        "staleness": staleness,
    }

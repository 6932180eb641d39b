"""Origin, order and staleness of each update of asynchronous servers, matched by content.

Workers and servers log digests of the gradients that they pushed and applied. Each pushed gradient
must be applied once, after those of the earlier steps of its worker; each applied one must have
been pushed, and have been computed on weights that the server really had. A fault may interrupt the
last step of each worker, and nothing else: what it left undone is in flight.
"""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from horizont.config.jobs import APPLIED_FILE, GRADIENTS_FILE, PUSHED_FILE, SERVER_WEIGHTS_FILE
from horizont.launchers.plan import EVENTS_FILE
from horizont.records.files import read_events, write_table
from horizont.records.record import RecordWriter
from horizont.records.results import UpdateDefect, UpdateHistory
from horizont.records.schema import UPDATE_COLUMNS

LogLine = dict[str, Any]

#: The log of each role that has one.
_LOG_BY_ROLE = {"worker": PUSHED_FILE, "server": APPLIED_FILE}


def collect_updates(record: RecordWriter, folders: Sequence[Path]) -> UpdateHistory:
    """Write the updates of all servers as one table, and move the gradients into the record.

    `folders` are those of all processes, also of the restarted ones.
    """
    logs = {
        folder.name: folder / _LOG_BY_ROLE[role]
        for folder in folders
        if (role := folder.name.split("-")[0]) in _LOG_BY_ROLE
    }
    # The log of a process is missing if nothing came back from its host. One that only recorded
    # nothing has no excuse.
    missing = tuple(
        name
        for name, path in logs.items()
        if not path.exists() and not path.with_name(EVENTS_FILE).exists()
    )
    rows, history = match_updates(
        _read_logs(logs, PUSHED_FILE), _read_logs(logs, APPLIED_FILE), missing
    )
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
    return history


def _read_logs(logs: dict[str, Path], file: str) -> list[LogLine]:
    """Read the logs of one kind, each line with the name of its process."""
    return [
        {**line, "process": name}
        for name, path in logs.items()
        if path.name == file
        for line in read_events(path)
    ]


def match_updates(
    pushed: Iterable[LogLine], applied: Iterable[LogLine], missing: Sequence[str] = ()
) -> tuple[list[LogLine], UpdateHistory]:
    """Find the worker and the step that each applied gradient came from, and what is wrong.

    Lines of what was pushed have process, part, step, and the digests `on` (of the weights) and
    `gradient`; lines of what was applied, in the order of each server, have process, part, and the
    digests `before`, `gradient` and `after`. The logs of the `missing` processes are not among
    them.

    Returns
    -------
    rows : list
        A row for each update of known origin, with the columns `UPDATE_COLUMNS`.
    history : UpdateHistory
        The number of updates, and the defects.
    """
    matching = _Matching(list(pushed), missing)
    for line in applied:
        matching.add(line)
    return matching.rows, matching.history()


@dataclass
class _ServedPart:
    """A part of the weights on a server.

    Attributes
    ----------
    versions
        Digest of the weights -> the number of updates after which they were last had.
    latest
        Digest of the present weights.
    """

    versions: dict[str, int]
    latest: str
    updates: int = 0

    def update(self, digest: str) -> None:
        """Add the digest of the weights after an update."""
        self.updates += 1
        self.latest = digest
        self.versions[digest] = self.updates


@dataclass
class _Matching:
    """The updates matched so far."""

    pushed: list[LogLine]
    missing: Sequence[str]
    rows: list[LogLine] = field(default_factory=list)
    discarded: int = 0

    def __post_init__(self) -> None:
        self._pending: dict[tuple[str, str], list[LogLine]] = defaultdict(list)
        for line in self.pushed:
            self._pending[line["part"], line["gradient"]].append(line)
        self._last_match: dict[tuple[str, str], LogLine] = {}
        self._next_step: Counter[tuple[str, str]] = Counter()
        self._parts: dict[tuple[str, str], _ServedPart] = {}
        self._sequences: Counter[str] = Counter()
        self._defects: Counter[UpdateDefect] = Counter()
        self._examples: dict[UpdateDefect, str] = {}

    def add(self, line: LogLine) -> None:
        """Match an update with a push of the same gradient."""
        sequence = self._sequences[line["process"]]
        self._sequences[line["process"]] += 1
        part = self._part(line)
        update = f"update {part.updates + 1} of {line['part']} on {line['process']}"
        if part.latest != line["before"]:
            self._report(
                "discontinuous", f"{update} started from weights that none before it produced"
            )
        push = self._origin(line, update)
        if push is not None:
            version = part.versions.get(push["on"])
            if version is None:
                source = f"{push['process']}, step {push['step']}"
                sentence = f"{update} was computed on weights that the server never had ({source})"
                self._report("unknown_weights", sentence)
            else:
                row = {
                    "server": _rank(line["process"]),
                    "sequence": sequence,
                    "part": line["part"],
                    "worker": _rank(push["process"]),
                    "step": push["step"],
                    "version": version,
                    "staleness": part.updates - version,
                }
                self.rows.append(row)
        part.update(line["after"])

    def _part(self, line: LogLine) -> _ServedPart:
        """Return the part that an update changed; a restarted server starts with its own."""
        key = (line["process"], line["part"])
        if key not in self._parts:
            for (process, name), earlier in self._parts.items():
                same = name == line["part"] and _rank(process) == _rank(line["process"])
                if same and earlier.latest != line["before"]:
                    self.discarded += earlier.updates
            self._parts[key] = _ServedPart({line["before"]: 0}, line["before"])
        return self._parts[key]

    def _origin(self, line: LogLine, update: str) -> LogLine | None:
        """Return the push of a gradient; None if there is none.

        Of several workers with an equal gradient, as one of zeros, that whose turn it is.
        """
        content = (line["part"], line["gradient"])
        pushes = self._pending[content]
        if not pushes:
            push = self._last_match.get(content)
            if push is not None:
                source = f"of step {push['step']} of {push['process']}"
                self._report("repeated", f"{update} applied the gradient {source} again")
            elif not self._lacks_log_of("worker"):
                sentence = f"{update} applied a gradient that no worker pushed"
                self._report("unknown_gradient", sentence)
            return push
        push = next((one for one in pushes if one["step"] == self._turn(one)), pushes[0])
        pushes.remove(push)
        self._last_match[content] = push
        if push["step"] < self._turn(push):
            source = f"step {push['step']} of {push['process']}"
            self._report("out_of_order", f"{update} came from {source}, after a later step of it")
        worker = (push["process"], push["part"])
        self._next_step[worker] = max(self._next_step[worker], push["step"] + 1)
        return push

    def _turn(self, push: LogLine) -> int:
        """Return the step after the last one of the worker that was applied to the part."""
        return self._next_step[push["process"], push["part"]]

    def _lacks_log_of(self, role: str) -> bool:
        return any(name.startswith(role) for name in self.missing)

    def _report(self, kind: UpdateDefect, sentence: str) -> None:
        self._defects[kind] += 1
        self._examples.setdefault(kind, sentence)

    def history(self) -> UpdateHistory:
        """Return the counts, once all updates are matched."""
        # A worker logs its steps in their order.
        last_steps = {line["process"]: line["step"] for line in self.pushed}
        in_flight = 0
        for line in (line for pushes in self._pending.values() for line in pushes):
            if line["step"] == last_steps[line["process"]]:
                in_flight += 1
            elif not self._lacks_log_of("server"):
                source = f"step {line['step']} of {line['process']}"
                self._report("lost", f"the gradient of {line['part']} in {source} was lost")
        return UpdateHistory(
            pushed=len(self.pushed),
            applied=self._sequences.total(),
            in_flight=in_flight,
            discarded=self.discarded,
            defects=dict(self._defects),
            examples=tuple(self._examples.values()),
            missing_logs=tuple(self.missing),
        )


def _rank(process: str) -> int:
    """Return the rank in the name of a process, such as ``server-0`` or ``worker-1-restarted``."""
    return int(process.split("-")[1])

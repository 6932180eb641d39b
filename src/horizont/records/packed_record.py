"""Packs, opened for reading: checked by SHA-256, and restored to folders."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from horizont.config.base import parse_config
from horizont.errors import Problem, UserError
from horizont.records.files import read_json, write_atomically, write_json, write_table
from horizont.records.pack import FILE_COLUMNS, FORMAT, MANIFEST, RUNS, Manifest, file_facts
from horizont.records.pack_tables import TABLES, decode, row_ranges
from horizont.records.record import Record, parse_spec
from horizont.records.results import RunResult


class Pack:
    """The pack in a folder, `UserError` without one. Its files are checked when they are read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / MANIFEST
        if not path.exists():
            raise UserError("pack", str(folder), f"a folder with {MANIFEST}, see `horizont pack`")
        values = read_json(path)
        number = values.get("format") if isinstance(values, dict) else None
        if number != FORMAT:
            raise UserError(f"{path}: format", number, str(FORMAT))
        self.manifest = parse_config(Manifest, values, MANIFEST)
        self._tables: dict[str, tuple[pa.Table, dict[str, tuple[int, int]]]] = {}

    def read(self, name: str) -> bytes:
        """Read a file; raise `UserError` if it is missing, or not the file that was packed."""
        facts, path = self.manifest.files.get(name), self.folder / name
        if facts is None or not path.exists():
            raise UserError(str(path), Problem("missing"), "a file of a complete pack")
        content = path.read_bytes()
        if (found := file_facts(content).sha256) != facts.sha256:
            raise UserError(f"SHA-256 of {path}", found, f"{facts.sha256}, as it was packed")
        return content

    def check(self) -> None:
        """Read every file, and so check it."""
        for name in self.manifest.files:
            self.read(name)

    @cached_property
    def rows(self) -> dict[str, dict[str, Any]]:
        """The table of runs, by the name of the run."""
        rows = self._parse(RUNS).to_pylist()
        return {row["run"]: row for row in rows}

    def table(self, name: str, run: str) -> pa.Table:
        """Return the rows of a run in a packed table."""
        if name not in self._tables:
            table = self._parse(name)
            self._tables[name] = table, row_ranges(table)
        table, ranges = self._tables[name]
        return table.slice(*ranges.get(run, (0, 0)))

    def _parse(self, name: str) -> pa.Table:
        # By this thread alone: `pq.read_table` starts others, and one that releases the bytes after
        # the interpreter has ended aborts the process (apache/arrow, issue 34314).
        with pq.ParquetFile(pa.BufferReader(self.read(name)), pre_buffer=False) as file:
            return file.read(use_threads=False)

    def records(self, workload: str = "") -> list[PackedRecord]:
        """Open the records of a workload, or of all, in the order in which they were packed."""
        rows = [row for row in self.rows.values() if not workload or row["workload"] == workload]
        return [self._open(row) for row in rows]

    def _open(self, row: dict[str, Any]) -> PackedRecord:
        run, number = parse_spec(json.loads(row["spec"]), self.folder / RUNS)
        return PackedRecord(
            folder=self.folder / row["run"],
            run=run,
            environment=json.loads(row["environment"]),
            result=parse_config(RunResult, json.loads(row["result"]), "result.json"),
            format=number,
            pack=self,
            row=row,
        )


@dataclass(frozen=True)
class PackedRecord(Record):
    """A record in a pack. Its folder does not exist, but names the pack and the run in it."""

    pack: Pack = field(compare=False, kw_only=True, repr=False)
    row: dict[str, Any] = field(compare=False, kw_only=True, repr=False)

    @property
    def location(self) -> str:
        """Where a page refers the reader to: the table of runs in the reference."""
        return f"reports/reference/{self.run.experiment}/{RUNS}"

    @cached_property
    def _columns(self) -> dict[str, list[str]]:
        """The columns of each of the run's tables."""
        columns: dict[str, list[str]] = json.loads(self.row["columns"])
        return columns

    def has_file(self, name: str) -> bool:
        """Whether the record has a file."""
        return name in self._columns or self._content(name) is not None

    def file_version(self, name: str) -> object:
        """Return a value that changes with the content of a file; None if there is no file."""
        packed_in = name if name in TABLES else RUNS
        return self.pack.manifest.files[packed_in].sha256 if self.has_file(name) else None

    def events(self) -> list[dict[str, Any]]:
        """Read the event log; empty if there is none."""
        return [json.loads(line) for line in (self.row["events"] or "").splitlines()]

    def log_ends(self) -> dict[str, str]:
        """Read the end of the log of each process of a failed run, by the name of the file."""
        return dict(json.loads(self.row["logs"] or "{}"))

    def read_json(self, name: str) -> Any:
        """Read a JSON file."""
        content = self._content(name)
        if content is None:
            raise UserError(
                str(self.folder / name), Problem("missing"), "a file of a complete record"
            )
        return json.loads(content)

    def read_table(self, name: str) -> pa.Table:
        """Read a table; times are whole microseconds."""
        if name not in self._columns:
            raise UserError(
                str(self.folder / name), Problem("missing"), "a file of a complete record"
            )
        return decode(self.pack.table(name, self.row["run"]), self._columns[name])

    def restore(self, folder: Path) -> None:
        """Write the files of the record to a folder, which `read_record` then opens."""
        (folder / "logs").mkdir(parents=True)
        for name in FILE_COLUMNS:
            text = self._content(name)
            if text is not None and name.endswith(".json"):
                write_json(folder / name, json.loads(text))
            elif text is not None:
                _write_text(folder / name, text)
        for name in self._columns:
            write_table(folder / name, self.read_table(name))
        for name, text in self.log_ends().items():
            _write_text(folder / "logs" / name, text)

    def _content(self, name: str) -> str | None:
        return self.row.get(FILE_COLUMNS.get(name, ""))


def _write_text(path: Path, text: str) -> None:
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))

"""A record: the folder of a run, written under a temporary name and renamed when it is complete.

Its files are listed in ``docs/architecture.md``, their columns in :mod:`horizont.records.schema`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from horizont.config.base import parse_config
from horizont.config.run import Run
from horizont.errors import UserError
from horizont.records import format1
from horizont.records.files import append_event, read_events, read_json, read_table, write_json
from horizont.records.results import FaultReport, RunResult

FORMAT = 2

#: Characters of the end of a log.
LOG_TAIL = 4000


class RecordWriter:
    """An incomplete record in the folder of the complete ones, which is created if it is missing.

    Its key becomes its name, see :func:`horizont.records.provenance.run_key`.
    """

    def __init__(self, store: Path, key: str) -> None:
        self.final = store / key
        self.folder = store / f".{key}.{os.getpid()}.tmp"
        try:
            shutil.rmtree(self.folder, ignore_errors=True)
            (self.folder / "logs").mkdir(parents=True)
        except OSError as error:
            raise UserError(
                "results folder", str(store), f"a writable folder ({error.strerror})"
            ) from None

    def start(self, run: Run, environment: dict[str, Any]) -> None:
        """Write the run and its environment."""
        write_json(self.folder / "spec.json", {"format": FORMAT, **run.model_dump(mode="json")})
        write_json(self.folder / "environment.json", environment)

    def log_event(self, event: str, **details: Any) -> None:
        """Write an event to the event log."""
        append_event(self.folder / "events.jsonl", event, **details)

    def replace_event_log(self, lines: list[dict[str, Any]]) -> None:
        """Replace the event log, once those of the processes are merged into it."""
        text = "".join(json.dumps(line, default=str) + "\n" for line in lines)
        (self.folder / "events.jsonl").write_text(text, encoding="utf-8")

    def write_fault_report(self, report: FaultReport) -> None:
        """Write the consequences of the injected fault."""
        write_json(self.folder / "fault_report.json", report.model_dump(mode="json"))

    def finish(self, result: RunResult) -> Path:
        """Write the result and rename the folder, replacing an earlier, failed record."""
        write_json(self.folder / "result.json", result.model_dump(mode="json"))
        shutil.rmtree(self.final, ignore_errors=True)
        try:
            os.replace(self.folder, self.final)
        except OSError as error:
            raise UserError("results folder", str(self.final), f"writable ({error})") from None
        return self.final

    @staticmethod
    def remove_abandoned(store: Path) -> None:
        """Remove the incomplete records of launchers that no longer run."""
        for folder in store.glob(".*.tmp"):
            if not writer_alive(folder):
                shutil.rmtree(folder, ignore_errors=True)

    def discard(self) -> None:
        """Remove the incomplete record."""
        shutil.rmtree(self.folder, ignore_errors=True)


def writer_alive(folder: Path) -> bool:
    """Whether the process that writes a record still runs, by the PID in the folder's name.

    The PID may have been reused, so the process must be older than the folder.
    """
    pid = int(folder.name.split(".")[-2])
    try:
        # Creation times of processes may deviate by some seconds from the file system's clock.
        return bool(psutil.Process(pid).create_time() < folder.stat().st_mtime + 10)
    except (psutil.NoSuchProcess, FileNotFoundError):
        return False


@dataclass(frozen=True)
class Record:
    """A complete record, opened for reading; two of the same folder are equal.

    Everything else reads a record by these methods, because the files of one from a pack do not
    exist (:class:`horizont.records.pack.PackedRecord`). The methods name files as in format 2.
    """

    folder: Path
    run: Run = field(compare=False)
    environment: dict[str, Any] = field(compare=False)
    result: RunResult = field(compare=False)
    format: int = field(default=FORMAT, compare=False)

    @property
    def ok(self) -> bool:
        """Whether the run succeeded."""
        return self.result.status == "ok"

    @property
    def is_final(self) -> bool:
        """Whether the run need not be repeated: it succeeded, or failed because of its fault."""
        return self.ok or self.has_file("fault_report.json")

    @property
    def failed_unexpectedly(self) -> bool:
        """Whether the run failed without an injected fault."""
        return self.result.status == "failed" and not self.is_final

    @property
    def is_profiled(self) -> bool:
        """Whether the record has a profile of operators."""
        return self.has_file("operators.parquet")

    @property
    def machine(self) -> str:
        """The type of the machine that executed the run; empty if it was not recorded.

        Of hosts that are machines of their own, each type once.
        """
        hosts = self.environment.get("hosts", {}).values()
        if hosts:
            return " | ".join(sorted({str(host["machine_type"]) for host in hosts}))
        return str(self.environment.get("provenance", {}).get("machine", ""))

    @property
    def location(self) -> str:
        """Where a page refers the reader to: the folder of records in a study."""
        return f"records/{self.run.experiment}/{self.run.workload_name}"

    @property
    def start_time_s(self) -> float:
        """The start of the run in Unix time; NaN if it was not logged."""
        return next((float(event["time_unix_s"]) for event in self.events()), nan)

    def has(self, capability: str) -> bool:
        """Whether the launcher of the run had a capability, for example `byte_counters`."""
        return capability in self.environment.get("capabilities", ())

    def fault_report(self) -> FaultReport | None:
        """Read the consequences of the injected fault; None if no fault was injected."""
        if not self.has_file("fault_report.json"):
            return None
        values = self.read_json("fault_report.json")
        if self.format == 1:
            values = format1.convert_fault_report(values)
        return parse_config(FaultReport, values, "fault_report.json")

    def events(self) -> list[dict[str, Any]]:
        """Read the event log; empty if there is none."""
        return read_events(self.path("events.jsonl"))

    def log_ends(self) -> dict[str, str]:
        """Read the end of the log of each process, by the name of the file."""
        return {
            path.name: path.read_text(encoding="utf-8", errors="replace")[-LOG_TAIL:]
            for path in sorted(self.path("logs").glob("*.log"))
        }

    def steps(self) -> pa.Table:
        """Read the steps, a row per step and worker."""
        return self.read_table("steps.parquet")

    def samples(self) -> pa.Table:
        """Read the resource samples, a row per sample and process."""
        return self.read_table("samples.parquet")

    def evaluation(self) -> pa.Table | None:
        """Read the evaluations: ``step``, ``time_s``, ``test_accuracy`` or ``test_perplexity``.

        With images also ``train_accuracy``, on as many of the training images.
        """
        return self._read_optional("evaluation.parquet")

    def operators(self) -> pa.Table | None:
        """Read the profile of one step, a row per operator, class, phase, node and shapes."""
        return self._read_optional("operators.parquet")

    def input_batches(self) -> pa.Table | None:
        """Read the batches of the input pipeline alone: ``batch``, ``epoch`` and ``batch_s``."""
        return self._read_optional("input_batches.parquet")

    def updates(self) -> pa.Table:
        """Read the updates that the servers applied, in their order."""
        return self.read_table("updates.parquet")

    def path(self, name: str) -> Path:
        """Return the path of a file."""
        return self.folder / (format1.FILES.get(name, name) if self.format == 1 else name)

    def has_file(self, name: str) -> bool:
        """Whether the record has a file."""
        return self.path(name).exists()

    def file_version(self, name: str) -> object:
        """Return a value that changes with the content of a file; None if there is no file."""
        return self.path(name).stat().st_mtime_ns if self.has_file(name) else None

    def read_json(self, name: str) -> Any:
        """Read a JSON file as it was written."""
        with _with_remedy(self.folder):
            return read_json(self.path(name))

    def read_table(self, name: str) -> pa.Table:
        """Read a Parquet file, with the columns of format 2."""
        with _with_remedy(self.folder):
            table = read_table(self.path(name))
        return format1.convert_table(table) if self.format == 1 else table

    def _read_optional(self, name: str) -> pa.Table | None:
        return self.read_table(name) if self.has_file(name) else None


def read_record(folder: Path) -> Record:
    """Open a record and check that it is complete; one of format 1 gets the names of format 2.

    Raises `UserError` if a file is missing or damaged, or the format is unknown.
    """
    run, number = read_run(folder)
    environment = _read_mapping(folder, "environment.json")
    result = _read_mapping(folder, "result.json")
    if number == 1:
        result = format1.convert_result(result)
        environment = format1.convert_environment(environment, run.topology.launcher)
    with _with_remedy(folder):
        parsed = parse_config(RunResult, result, str(folder / "result.json"))
    return Record(folder=folder, run=run, environment=environment, result=parsed, format=number)


@contextmanager
def _with_remedy(folder: Path) -> Iterator[None]:
    """Add to the error of a damaged file of a record how the record is made again."""
    try:
        yield
    except UserError as error:
        # records/<experiment>/<workload>/<key>; the run itself may be what is damaged.
        _, _, below = folder.absolute().as_posix().rpartition("/records/")
        experiment = below.split("/")[0] if below.count("/") else "EXPERIMENT"
        remedy = f"delete the folder of this record and run `horizont run {experiment}` again"
        raise UserError(error.field, error.value, f"{error.allowed}; {remedy}") from None


def _read_mapping(folder: Path, name: str) -> dict[str, Any]:
    """Read a JSON file of a record that holds a mapping."""
    with _with_remedy(folder):
        values = read_json(folder / name)
        if not isinstance(values, dict):
            raise UserError(str(folder / name), values, "a mapping")
    return values


def read_run(folder: Path) -> tuple[Run, int]:
    """Read the run of a record, complete or not, and the number of the record's format.

    Raises `UserError` if the file is missing or damaged, or the format is unknown.
    """
    return parse_spec(_read_mapping(folder, "spec.json"), folder / "spec.json")


def parse_spec(spec: dict[str, Any], path: Path) -> tuple[Run, int]:
    """Parse the content of ``spec.json``: the run, and the number of the record's format.

    Raises `UserError`, with the path, if a value is wrong or the format is unknown.
    """
    number = spec.pop("format", None)
    if number not in (1, FORMAT):
        raise UserError(f"{path}: format", number, f"1 or {FORMAT}")
    if number == 1:
        spec = format1.convert_run(spec)
    return parse_config(Run, spec, str(path)), number


def find_record(store: Path, key: str) -> Record | None:
    """Return the record of a run, None if there is none."""
    folder = store / key
    return read_record(folder) if folder.is_dir() else None

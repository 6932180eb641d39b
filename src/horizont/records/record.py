"""A record as a folder: made under a temporary name, moved into place when it is whole.

Layout of a record, format 1::

    spec.json         the run
    environment.json  machine and versions
    steps.parquet     a row per step and worker
    samples.parquet   a row per sample and process, if the sampler ran
    samples.json      what the sampler says of itself: what it missed, who came and went
    events.jsonl      what happened when: planned, started, the parts of the start-up, the end
    result.json       the summary, with status and reason
    aftermath.json    what came of the incident, if there was one
    operators.parquet a row per operator of a profiled step, by the framework's own profiler
    traces/           the profile for Perfetto and TensorBoard, if steps were profiled
    quality.parquet   a row per look at how good the network was, if there were any
    input.parquet     a row per batch that was taken from the input pipeline alone, before the
                      training, if there were any
    weights.npz       the final weights, if the run was asked to keep them
    updates.parquet   a row per update that a server applied, if they were recorded
    gradients/        each worker's gradients, and served.npz, the servers' weights in the end,
                      if they were recorded with the updates
    logs/             what each process printed
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from horizont.config.base import parse_config
from horizont.config.run import Run
from horizont.errors import UserError
from horizont.records.files import append_event, read_json, read_table, write_json
from horizont.records.results import FaultReport, RunResult

FORMAT = 1


class RecordWriter:
    """A record in the making.

    Parameters
    ----------
    store
        The folder of the finished records; made if it is missing.
    key
        The name of the record, from :func:`horizont.records.run_key`.
    """

    def __init__(self, store: Path, key: str) -> None:
        self.final = store / key
        self.folder = store / f".{key}.{os.getpid()}.tmp"
        try:
            shutil.rmtree(self.folder, ignore_errors=True)
            (self.folder / "logs").mkdir(parents=True)
        except OSError as error:
            raise UserError(
                "results folder", str(store), f"a folder that can be written ({error.strerror})"
            ) from None

    def start(self, run: Run, environment: dict[str, Any]) -> None:
        """Write down what is about to run, and where."""
        write_json(self.folder / "spec.json", {"format": FORMAT, **run.model_dump(mode="json")})
        write_json(self.folder / "environment.json", environment)

    def log_event(self, event: str, **details: Any) -> None:
        """Add a line to the diary."""
        append_event(self.folder / "events.jsonl", event, **details)

    def replace_event_log(self, lines: list[dict[str, Any]]) -> None:
        """Replace the diary, once the processes' own diaries are merged into it."""
        text = "".join(json.dumps(line, default=str) + "\n" for line in lines)
        (self.folder / "events.jsonl").write_text(text, encoding="utf-8")

    def write_fault_report(self, report: FaultReport) -> None:
        """Write down what came of the incident."""
        write_json(self.folder / "fault_report.json", report.model_dump(mode="json"))

    def finish(self, result: RunResult) -> Path:
        """Write the summary and move the record into place, over an earlier failed one."""
        write_json(self.folder / "result.json", result.model_dump(mode="json"))
        shutil.rmtree(self.final, ignore_errors=True)
        try:
            os.replace(self.folder, self.final)
        except OSError as error:
            raise UserError("results folder", str(self.final), f"writable ({error})") from None
        return self.final

    @staticmethod
    def remove_abandoned(store: Path) -> None:
        """Remove what launchers that are dead by now left half-made in a store."""
        for folder in store.glob(".*.tmp"):
            if not writer_alive(folder):
                shutil.rmtree(folder, ignore_errors=True)

    def discard(self) -> None:
        """Remove the record in the making."""
        shutil.rmtree(self.folder, ignore_errors=True)


def writer_alive(folder: Path) -> bool:
    """Tell whether the launcher that makes a record lives, by the name of its folder.

    Its number may belong to a younger process by now.
    """
    pid = int(folder.name.split(".")[-2])
    try:
        # The clock that processes are dated by may be off by a little.
        return bool(psutil.Process(pid).create_time() < folder.stat().st_mtime + 10)
    except (psutil.NoSuchProcess, FileNotFoundError):
        return False


@dataclass(frozen=True)
class Record:
    """A finished record, opened."""

    folder: Path
    run: Run
    environment: dict[str, Any]
    result: RunResult

    @property
    def ok(self) -> bool:
        """Whether the run did all that it was asked to."""
        return self.result.status == "ok"

    @property
    def is_final(self) -> bool:
        """Whether there is nothing to repeat: it went well, or what failed it was the incident."""
        return self.ok or (self.folder / "fault_report.json").exists()

    @property
    def failed_unexpectedly(self) -> bool:
        """Whether it failed for a reason that was not asked for."""
        return self.result.status == "failed" and not self.is_final

    @property
    def is_profiled(self) -> bool:
        """Whether it holds a profile of operators."""
        return (self.folder / "operators.parquet").exists()

    def fault_report(self) -> FaultReport | None:
        """Read what came of the incident; None if nothing happened."""
        path = self.folder / "fault_report.json"
        return parse_config(FaultReport, read_json(path), path.name) if path.exists() else None

    def _read_optional(self, name: str) -> pa.Table | None:
        """Read a table that only some runs have."""
        path = self.folder / name
        return read_table(path) if path.exists() else None

    def steps(self) -> pa.Table:
        """Read the steps: a row per step and worker."""
        return read_table(self.folder / "steps.parquet")

    def samples(self) -> pa.Table:
        """Read the resource samples: a row per sample and process."""
        return read_table(self.folder / "samples.parquet")

    def evaluation(self) -> pa.Table | None:
        """Read the looks: ``step``, ``time_s`` and ``test_accuracy`` or ``test_perplexity``."""
        return self._read_optional("evaluation.parquet")

    def operators(self) -> pa.Table | None:
        """Read the profile: a row per operator, class, phase, node and shapes, for one step."""
        return self._read_optional("operators.parquet")

    def input_batches(self) -> pa.Table | None:
        """Read what was taken from the pipeline alone: ``batch``, ``epoch`` and ``batch_s``."""
        return self._read_optional("input_batches.parquet")

    def updates(self) -> pa.Table:
        """Read the updates that the servers applied, in their order.

        The columns are `server`, `sequence` (place among the updates of the server), `part` (of
        the weights), `worker` and `step` that the gradient came from, `version` (updates that
        the part had seen when the worker got it) and `staleness` (updates that it has seen
        since).
        """
        return read_table(self.folder / "updates.parquet")


def read_record(folder: Path) -> Record:
    """Open a record and check that it is whole.

    Raises
    ------
    UserError
        If a part is missing or damaged, or the format is not known.
    """
    spec = read_json(folder / "spec.json")
    found = spec.pop("format", None)
    if found != FORMAT:
        raise UserError(f"{folder / 'spec.json'}: format", found, f"{FORMAT}")
    return Record(
        folder=folder,
        run=parse_config(Run, spec, "spec.json"),
        environment=read_json(folder / "environment.json"),
        result=parse_config(RunResult, read_json(folder / "result.json"), "result.json"),
    )


def find_record(store: Path, key: str) -> Record | None:
    """Open the record of a run if there is one."""
    folder = store / key
    return read_record(folder) if folder.is_dir() else None

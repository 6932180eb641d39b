"""A pack: the records of an experiment in a few Parquet files, small enough for git.

Layout, format 2::

    manifest.json    the format, the machines, what the records were compared under, and size and
                     SHA-256 of each other file
    params.yaml      the settings of the study
    runs.parquet     a row per run: the JSON files, the event log and, if it failed, the ends of
                     the logs of its processes
    steps.parquet    the tables of all runs, see :mod:`horizont.records.pack_tables`; likewise
    ...              all others that a run has

Weights, gradients and traces are not packed. Equal records make equal bytes. Packs are read by
:mod:`horizont.records.packed_record`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from horizont.config.base import ConfigModel
from horizont.errors import Problem, UserError
from horizont.records.files import write_atomically, write_json
from horizont.records.pack_tables import TABLES, thin_samples, write_packed, write_parquet
from horizont.records.record import FORMAT as RECORD_FORMAT
from horizont.records.record import Record

FORMAT = 2

MANIFEST, RUNS, PARAMS = "manifest.json", "runs.parquet", "params.yaml"

#: Files of a record -> the columns of the table of runs that have their content.
FILE_COLUMNS = {
    "spec.json": "spec",
    "environment.json": "environment",
    "result.json": "result",
    "fault_report.json": "fault_report",
    "samples.json": "sampler_report",
    "events.jsonl": "events",
}


class FileFacts(ConfigModel):
    """Size and SHA-256 of a file of a pack."""

    bytes: int
    sha256: str


class Manifest(ConfigModel):
    """What a pack contains, and how its files are checked.

    Attributes
    ----------
    version
        Of Horizont, which wrote the pack.
    machines
        On which the runs of each workload were executed; empty if no record says so.
    datasets
        The descriptions of the data sets, by name.
    certificates
        Whether times were comparable when the records were packed: by workload, the status of
        each framework and variant.
    """

    format: int
    experiment: str
    version: str
    machines: dict[str, str]
    runs: int
    files: dict[str, FileFacts]
    datasets: dict[str, dict[str, Any]]
    certificates: dict[str, dict[str, str]]


@dataclass(frozen=True)
class PackContext:
    """What the records of an experiment are read with: fields of `Manifest`, and the settings."""

    params: str
    version: str
    datasets: dict[str, dict[str, Any]]
    certificates: dict[str, dict[str, str]]


def write_pack(folder: Path, records: Sequence[Record], context: PackContext) -> Manifest:
    """Write the records of an experiment as a pack, in place of an earlier one.

    Samples of all blocks but the first are thinned. Raises `UserError` if the records of a workload
    are from several machines, or the folder cannot be written.
    """
    workloads = dict.fromkeys(record.run.workload_name for record in records)
    machines = {name: _common_machine(name, records) for name in workloads}
    # The records may be those of the earlier pack, so that is replaced at the end.
    complete, folder = folder, folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    try:
        folder.mkdir(parents=True)
        manifest = _write_files(folder, records, machines, context)
        shutil.rmtree(complete, ignore_errors=True)
        os.replace(folder, complete)
    except OSError as error:
        allowed = "a writable folder with free space"
        raise UserError(str(complete), Problem(error.strerror), allowed) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return manifest


def _write_files(
    folder: Path, records: Sequence[Record], machines: Mapping[str, str], context: PackContext
) -> Manifest:
    """Write all files of a pack to an empty folder."""
    columns: dict[str, dict[str, list[str]]] = {run_name(record): {} for record in records}
    for name in TABLES:
        tables = {run_name(r): _table(r, name) for r in records if r.has_file(name)}
        for run, table in tables.items():
            columns[run][name] = table.column_names
        if tables:
            write_packed(folder / name, tables)
    rows = [_row(record, columns[run_name(record)]) for record in records]
    write_parquet(folder / RUNS, pa.Table.from_pylist(rows, schema=_RUN_SCHEMA))
    write_atomically(folder / PARAMS, lambda path: path.write_text(context.params, "utf-8"))
    packed = [name for name in (PARAMS, RUNS, *TABLES) if (folder / name).exists()]
    manifest = Manifest(
        format=FORMAT,
        experiment=records[0].run.experiment,
        version=context.version,
        machines=dict(machines),
        runs=len(records),
        files={name: file_facts((folder / name).read_bytes()) for name in packed},
        datasets=context.datasets,
        certificates=context.certificates,
    )
    write_json(folder / MANIFEST, manifest.model_dump(mode="json"))
    return manifest


def run_name(record: Record) -> str:
    """Return the name of a run in its experiment: workload and key."""
    return f"{record.run.workload_name}/{record.folder.name}"


def _common_machine(workload: str, records: Sequence[Record]) -> str:
    """Return the machine of all records of a workload; refuse several."""
    found = {record.machine for record in records if record.run.workload_name == workload}
    machines = sorted(found - {""})
    if len(machines) > 1:
        where = f"{records[0].run.experiment} on {workload}"
        allowed = "runs of one machine; measure the others again on it"
        raise UserError(f"machines of {where}", " and ".join(machines), allowed)
    return machines[0] if machines else ""


def _table(record: Record, name: str) -> pa.Table:
    table = record.read_table(name)
    if name != "samples.parquet" or record.run.block == 0:
        return table
    return thin_samples(table, record.steps() if record.has_file("steps.parquet") else None)


#: Columns of the table of runs. The first ones are for readers of the file only.
_RUN_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("run", "workload", "system")),
        ("block", pa.int64()),
        *((name, pa.string()) for name in ("status", *FILE_COLUMNS.values(), "logs", "columns")),
    ]
)


def _row(record: Record, columns: dict[str, list[str]]) -> dict[str, Any]:
    """Return the row of a run; `columns` are those of each of its tables."""
    report = record.fault_report()
    contents = {
        "spec": {"format": RECORD_FORMAT, **record.run.model_dump(mode="json")},
        "environment": record.environment,
        "result": record.result.model_dump(mode="json"),
        "fault_report": None if report is None else report.model_dump(mode="json"),
        "sampler_report": (
            record.read_json("samples.json") if record.has_file("samples.json") else None
        ),
        "logs": None if record.ok else record.log_ends(),
        "columns": columns,
    }
    return {
        "run": run_name(record),
        "workload": record.run.workload_name,
        "system": record.run.system.name,
        "block": record.run.block,
        "status": record.result.status,
        "events": "".join(json.dumps(event) + "\n" for event in record.events()) or None,
        **{
            name: None if value is None else json.dumps(value, sort_keys=True)
            for name, value in contents.items()
        },
    }


def file_facts(content: bytes) -> FileFacts:
    """Return size and SHA-256 of the content of a file."""
    return FileFacts(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())

"""`horizont tensorboard`: event files of all finished runs, each written once."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from horizont.analysis.scalars import scalars
from horizont.errors import UserError
from horizont.records.files import read_json, write_json
from horizont.records.record import Record, read_record
from horizont.reporting.eventfile import write_eventfile
from horizont.workflow.paths import Paths

#: Beside each event file: which record it was made of, and how its files were then.
MARK = "horizont.json"
#: A change of what is written makes all files anew.
FORMAT = 1


@dataclass(frozen=True)
class Written:
    """What became of the runs.

    Attributes
    ----------
    written, kept
        Runs whose event file was made now, or was there already.
    without
        Runs that failed, were skipped or cannot be read: they have none.
    """

    written: int
    kept: int
    without: int


def write_eventfiles(paths: Paths, logdir: Path | None = None) -> Written:
    """Write an event file for each finished run that has none, and remove those of lost records.

    Parameters
    ----------
    logdir
        Where they go; nothing is the folder ``tensorboard`` of the study.

    Raises
    ------
    UserError
        If the folder cannot be written.
    """
    store, logdir = paths.root / "records", logdir or paths.root / "tensorboard"
    folders = sorted(path.parent for path in store.glob("*/*/[!.]*/result.json"))
    _forget(logdir, {folder.relative_to(store) for folder in folders})
    outcomes = [_write(folder, logdir / folder.relative_to(store)) for folder in folders]
    return Written(*(outcomes.count(name) for name in ("written", "kept", "without")))


def _write(folder: Path, out: Path) -> str:
    """Write the event file of a run; tell what was done."""
    mark = {"format": FORMAT, "files": _state(folder)}
    if (out / MARK).exists() and read_json(out / MARK) == mark:
        return "kept"
    record = _open(folder)
    if record is None or not record.ok:
        return "without"
    shutil.rmtree(out, ignore_errors=True)
    table = scalars(record)
    begin_s = int(table["time_unix_s"].min()) if len(table) else 0
    write_eventfile(out / f"events.out.tfevents.{begin_s}.horizont", table)
    write_json(out / MARK, mark)
    return "written"


def _open(folder: Path) -> Record | None:
    try:
        return read_record(folder)
    except UserError:  # of another format, or damaged: the book tells of it
        return None


def _state(folder: Path) -> dict[str, list[int]]:
    """Tell size and time of the files that scalars come from."""
    names = ("steps.parquet", "evaluation.parquet", "result.json")
    stats = {name: (folder / name).stat() for name in names if (folder / name).exists()}
    return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()}


def _forget(logdir: Path, known: set[Path]) -> None:
    """Remove the event files of records that are gone, and nothing that others have written."""
    for mark in logdir.glob(f"*/*/*/{MARK}"):
        if mark.parent.relative_to(logdir) not in known:
            shutil.rmtree(mark.parent, ignore_errors=True)

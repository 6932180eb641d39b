"""From what the processes of a run left in their folders to one record."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from horizont.cluster.waiting import part_waiting
from horizont.records import RecordWriter, Result, read_events, read_json, read_table, write_table
from horizont.spec import System

#: What the leading process may leave: weights, looks, drained batches, a profile.
KEPT = ("weights.npz", "quality.parquet", "input.parquet", "operators.parquet", "traces")

#: Start-up in its parts: each ends with the event of its name, in this order.
STARTUP = ("interpreter", "framework", "data", "network", "drained", "first_step")


def collect_steps(record: RecordWriter, system: System, folders: list[Path]) -> None:
    """Put the steps of all processes into one table, ordered by time."""
    tables = [
        read_table(folder / "steps.parquet")
        for folder in folders
        if (folder / "steps.parquet").exists()
    ]
    if tables:
        steps = pa.concat_tables(tables).sort_by([("start_s", "ascending")])
        if "waiting" in system.traits.measures:
            steps = part_waiting(steps)
        write_table(record.folder / "steps.parquet", steps)


def collect_events(record: RecordWriter, folders: list[Path]) -> None:
    """Copy the events of all processes into the diary of the run, ordered by time."""
    diary = record.folder / "events.jsonl"
    lines = read_events(diary)
    for folder in folders:
        lines += [{**line, "process": folder.name} for line in read_events(folder / "events.jsonl")]
    record.rewrite_events(sorted(lines, key=lambda line: line["time_s"]))


def train_time(record: RecordWriter) -> float | None:
    """Tell the seconds from the first bare step of any worker to the end of the last one."""
    if not (record.folder / "steps.parquet").exists():
        return None
    steps = read_table(record.folder / "steps.parquet")
    bare = steps.filter(pc.field("kind") == "bare")
    if not bare.num_rows:
        return None
    ends = pc.add(bare["start_s"], bare["step_s"])
    return float(pc.max(ends).as_py() - pc.min(bare["start_s"]).as_py())


def made_steps(folders: list[Path], worker: int, since_s: float) -> bool | None:
    """Tell whether a worker began a step after a time; None if nobody left any steps."""
    tables = [read_table(f / "steps.parquet") for f in folders if (f / "steps.parquet").exists()]
    if not tables:
        return None
    steps = pa.concat_tables(tables)
    own = steps.filter((pc.field("worker") == worker) & (pc.field("start_s") > since_s))
    return bool(own.num_rows)


def collect_summary(folders: list[Path]) -> dict[str, Any]:
    """Read what the leading process found out at the end: loss, accuracy, training time."""
    for folder in folders:
        if (folder / "summary.json").exists():
            return dict(read_json(folder / "summary.json"))
    return {}


def startup_parts(events: list[dict[str, Any]]) -> dict[str, float]:
    """Take the start-up apart: seconds from part to part, as the mean over the processes."""
    parts: dict[str, list[float]] = {}
    for process in {line.get("process") for line in events} - {None}:
        own = {line["event"]: line["time_s"] for line in events if line.get("process") == process}
        before = own.get("spawned")
        for part in STARTUP:
            if before is not None and part in own:
                parts.setdefault(part, []).append(own[part] - before)
            before = own.get(part, before)
    return {part: sum(times) / len(times) for part, times in parts.items()}


def keep_findings(record: RecordWriter, folders: list[Path]) -> None:
    """Keep what the leading process left beside its steps."""
    for name in KEPT:
        for folder in folders:
            if (folder / name).exists():
                shutil.move(folder / name, record.folder / name)
                break


def summarise(record: RecordWriter, system: System, folders: list[Path], wall_s: float) -> Result:
    """Gather everything into the record and sum it up."""
    collect_steps(record, system, folders)
    collect_events(record, folders)
    keep_findings(record, folders)
    events = read_events(record.folder / "events.jsonl")
    return Result(
        status="ok",
        wall_s=wall_s,
        train_s=train_time(record),
        startup_s=startup_parts(events),
        **collect_summary(folders),
    )

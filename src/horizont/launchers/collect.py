"""How long synchronous workers waited for the slowest, by the clock that they all share."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from horizont.config.system import System
from horizont.records.files import read_events, read_json, read_table, write_table
from horizont.records.record import RecordWriter
from horizont.records.results import RunResult


def split_waiting_from_transfer(steps: pa.Table) -> pa.Table:
    """Move from the communication of each step to its waiting what passed for want of others.

    No exchange ends before the last worker has its gradients. Until then a worker *waits*,
    whatever of its own may be on the way already; what remains is the transfer. A barrier would
    tell the two apart as well, but it would keep each transfer from beginning before the slowest
    worker is ready, which a bare step does not.

    Parameters
    ----------
    steps
        Of all workers, as of `horizont.monitoring.StepLog`; those of one number belong together.

    Returns
    -------
    pyarrow.Table
        The same, with ``waiting_s`` where there is a ``communication_s``, which is the less by
        so much.
    """
    number, ready_s = steps["step"].to_numpy(), steps["gradients_ready_s"].to_numpy()
    exchange_s = steps["communication_s"].to_numpy()
    last_s = np.full(number.max(initial=-1) + 1, -np.inf)
    np.fmax.at(last_s, number, ready_s)
    # A step of local SGD that exchanges nothing waits for nobody.
    waiting_s = np.clip(last_s[number] - ready_s, 0.0, exchange_s)
    return _with_columns(steps, waiting_s=waiting_s, communication_s=exchange_s - waiting_s)


def _with_columns(steps: pa.Table, **columns: NDArray[np.float64]) -> pa.Table:
    for name, values in columns.items():
        steps = steps.set_column(steps.column_names.index(name), name, pa.array(values))
    return steps


#: What the leading process may leave: weights, looks, drained batches, a profile.
ARTIFACTS = (
    "weights.npz",
    "evaluation.parquet",
    "input_batches.parquet",
    "operators.parquet",
    "traces",
)

#: Start-up in its parts: each ends with the event of its name, in this order.
STARTUP_PHASES = ("interpreter", "framework", "data", "network", "input_batches", "first_step")


def collect_steps(record: RecordWriter, system: System, folders: list[Path]) -> None:
    """Put the steps of all processes into one table, ordered by time."""
    tables = [
        read_table(folder / "steps.parquet")
        for folder in folders
        if (folder / "steps.parquet").exists()
    ]
    if tables:
        steps = pa.concat_tables(tables).sort_by([("start_s", "ascending")])
        if "waiting" in system.info.phases:
            steps = split_waiting_from_transfer(steps)
        write_table(record.folder / "steps.parquet", steps)


def collect_events(record: RecordWriter, folders: list[Path]) -> None:
    """Copy the events of all processes into the diary of the run, ordered by time."""
    diary = record.folder / "events.jsonl"
    lines = read_events(diary)
    for folder in folders:
        lines += [{**line, "process": folder.name} for line in read_events(folder / "events.jsonl")]
    record.replace_event_log(sorted(lines, key=lambda line: line["time_s"]))


def training_time(record: RecordWriter) -> float | None:
    """Tell the seconds from the first bare step of any worker to the end of the last one."""
    if not (record.folder / "steps.parquet").exists():
        return None
    steps = read_table(record.folder / "steps.parquet")
    bare = steps.filter(pc.field("kind") == "timed")
    if not bare.num_rows:
        return None
    ends = pc.add(bare["start_s"], bare["step_s"])
    return float(pc.max(ends).as_py() - pc.min(bare["start_s"]).as_py())


def resumed_training(folders: list[Path], worker: int, since_s: float) -> bool | None:
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


def startup_phases(events: list[dict[str, Any]]) -> dict[str, float]:
    """Take the start-up apart: seconds from part to part, as the mean over the processes."""
    parts: dict[str, list[float]] = {}
    for process in {line.get("process") for line in events} - {None}:
        own = {line["event"]: line["time_s"] for line in events if line.get("process") == process}
        before = own.get("spawned")
        for part in STARTUP_PHASES:
            if before is not None and part in own:
                parts.setdefault(part, []).append(own[part] - before)
            before = own.get(part, before)
    return {part: sum(times) / len(times) for part, times in parts.items()}


def move_artifacts(record: RecordWriter, folders: list[Path]) -> None:
    """Keep what the leading process left beside its steps."""
    for name in ARTIFACTS:
        for folder in folders:
            if (folder / name).exists():
                shutil.move(folder / name, record.folder / name)
                break


def summarise(
    record: RecordWriter, system: System, folders: list[Path], wall_s: float
) -> RunResult:
    """Gather everything into the record and sum it up."""
    collect_steps(record, system, folders)
    collect_events(record, folders)
    move_artifacts(record, folders)
    events = read_events(record.folder / "events.jsonl")
    return RunResult(
        status="ok",
        wall_s=wall_s,
        train_s=training_time(record),
        startup_s=startup_phases(events),
        **collect_summary(folders),
    )

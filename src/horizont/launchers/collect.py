"""Merging of the processes' files into the record, and the summary of a run."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from horizont.config.system import System
from horizont.launchers.plan import EVENTS_FILE
from horizont.records.files import read_events, read_json, read_table, write_table
from horizont.records.record import RecordWriter
from horizont.records.results import RunResult
from horizont.records.schema import STARTUP_PHASES

#: Files and folders that the first worker or the coordinator may write besides its steps.
ARTIFACTS = (
    "weights.npz",
    "evaluation.parquet",
    "input_batches.parquet",
    "operators.parquet",
    "traces",
)

#: Daemons set the clock at larger deviations and change its frequency at smaller ones (ntpd:
#: 0.128 s). A process that loses its CPU between reading one clock and the other seems to have a
#: step, too, but a shorter one.
MIN_CLOCK_STEP_S = 0.1


def summarise(
    record: RecordWriter,
    system: System,
    folders: Sequence[Path],
    wall_s: float,
    *,
    shared_clock: bool,
) -> RunResult:
    """Merge the files of all processes into the record and summarise them.

    With a `shared_clock`, times of different processes can be compared.
    """
    steps = _read_steps(folders)
    if steps is not None:
        steps = steps.sort_by([("start_s", "ascending")])
        if shared_clock and "waiting" in system.info.phases:
            steps = split_waiting_from_transfer(steps)
        write_table(record.folder / "steps.parquet", steps)
    events = _collect_events(record, folders)
    for name in ARTIFACTS:
        source = next((folder / name for folder in folders if (folder / name).exists()), None)
        if source is not None:
            shutil.move(source, record.folder / name)
    summaries = [folder / "summary.json" for folder in folders]
    summary: dict[str, Any] = next((read_json(path) for path in summaries if path.exists()), {})
    return RunResult(
        status="ok",
        wall_s=wall_s,
        train_s=None if steps is None else _training_time_s(steps, shared_clock),
        startup_s=startup_phases(events),
        clock_step_s=wall_clock_step_s(events),
        **summary,
    )


def _read_steps(folders: Sequence[Path]) -> pa.Table | None:
    paths = [folder / "steps.parquet" for folder in folders]
    tables = [read_table(path) for path in paths if path.exists()]
    return pa.concat_tables(tables) if tables else None


def _collect_events(record: RecordWriter, folders: Sequence[Path]) -> list[dict[str, Any]]:
    """Merge the event logs of all processes into that of the run, sorted by time."""
    events = read_events(record.folder / EVENTS_FILE)
    for folder in folders:
        own_events = read_events(folder / EVENTS_FILE)
        events += [{**event, "process": folder.name} for event in own_events]
    events.sort(key=lambda event: float(event["time_s"]))
    record.replace_event_log(events)
    return events


def wall_clock_step_s(events: Sequence[dict[str, Any]]) -> float:
    """Return by how many seconds a wall clock was set during the run, or 0.

    All events are on the clocks of the launcher, so that the difference between wall clock and
    monotonic clock is the same in all of them. Both follow corrections of the frequency.
    """
    differences_s = [event["time_unix_s"] - event["time_s"] for event in events]
    step_s = max(differences_s) - min(differences_s)
    return step_s if step_s > MIN_CLOCK_STEP_S else 0.0


def split_waiting_from_transfer(steps: pa.Table) -> pa.Table:
    """Split each step's communication into waiting for the slowest worker and transfer.

    No exchange ends before the last worker has its gradients. Until then a worker waits, even if
    some of its own gradients are on their way already; the rest is the transfer. A barrier would
    measure the same, but it would delay every transfer until the slowest worker is ready, which a
    timed step does not.

    The steps are those of all workers, as of `StepLog`, on a clock that they share; those of the
    same number belong together. Where they have ``communication_s``, they are returned with
    ``waiting_s``, by which it is reduced.
    """
    number, ready_s = steps["step"].to_numpy(), steps["gradients_ready_s"].to_numpy()
    exchange_s = steps["communication_s"].to_numpy()
    last_s = np.full(number.max(initial=-1) + 1, -np.inf)
    np.fmax.at(last_s, number, ready_s)
    # A step of local SGD that exchanges nothing waits for no worker.
    waiting_s = np.clip(last_s[number] - ready_s, 0.0, exchange_s)
    for name, values in (("waiting_s", waiting_s), ("communication_s", exchange_s - waiting_s)):
        steps = steps.set_column(steps.column_names.index(name), name, pa.array(values))
    return steps


def _training_time_s(steps: pa.Table, shared_clock: bool) -> float | None:
    """Return the seconds from the first timed step to the end of the last one.

    Of all workers together; without a shared clock, of the worker that took longest.
    """
    timed = steps.filter(pc.field("kind") == "timed")
    if not timed.num_rows:
        return None
    timed = timed.append_column("end_s", pc.add(timed["start_s"], timed["step_s"]))
    workers = timed.group_by([] if shared_clock else ["worker"])
    spans = workers.aggregate([("start_s", "min"), ("end_s", "max")])
    return float(pc.max(pc.subtract(spans["end_s_max"], spans["start_s_min"])).as_py())


def resumed_training(folders: Sequence[Path], worker: int, since_s: float) -> bool | None:
    """Whether a worker started a step after a time; None if there are no steps of any worker."""
    steps = _read_steps(folders)
    if steps is None:
        return None
    later = steps.filter((pc.field("worker") == worker) & (pc.field("start_s") > since_s))
    return bool(later.num_rows)


def startup_phases(events: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Compute the duration of each start-up phase in seconds, as the mean over the processes."""
    durations_s: dict[str, list[float]] = {}
    for process in {event.get("process") for event in events} - {None}:
        time_s = {
            event["event"]: event["time_s"] for event in events if event.get("process") == process
        }
        start_s = time_s.get("spawned")
        for phase in STARTUP_PHASES:
            if start_s is not None and phase in time_s:
                durations_s.setdefault(phase, []).append(time_s[phase] - start_s)
            start_s = time_s.get(phase, start_s)
    return {phase: sum(values) / len(values) for phase, values in durations_s.items()}

"""Scalars and resources of finished and running runs as TensorBoard event files."""

from __future__ import annotations

import shutil
import sys
import types
from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path

import pandas as pd

from horizont.analysis.learning import EVALUATION_METRICS
from horizont.analysis.resources import read_resource_series
from horizont.analysis.runs import steps_of
from horizont.errors import UserError
from horizont.records.files import read_events, read_json, write_json
from horizont.records.record import Record, read_record
from horizont.records.run_folders import find_runs, locate_run

#: Written beside each event file: the files that it was made from, and the time of its last sample.
STATE_FILE = "horizont.json"
#: A new number replaces the event files of all runs.
FORMAT = 3

_COLUMNS = ["tag", "step", "time_s", "value"]
_UNITS = {"cpu": "cpu_percent", "memory": "memory_MiB", "network": "network_MiB_per_s"}


def write_event_files(records: Path, logdir: Path) -> Counter[str]:
    """Write the new scalars of every run, and remove the event files of removed records.

    A finished run is written once. A running one has its resources only, since its losses are
    written to disk at its end; each call appends the samples since the last.

    `logdir` has the structure of the folder of all records.

    Returns
    -------
    collections.Counter
        Numbers of runs: ``written`` now; ``unchanged``, written before; ``running``, whose new
        samples were appended; ``without_scalars``, which failed, were skipped or cannot be read.

    Raises
    ------
    UserError
        If the folder cannot be written.
    """
    runs = find_runs(records)
    for state in logdir.glob(f"*/*/*/{STATE_FILE}"):
        if records / state.parent.relative_to(logdir) not in runs:
            shutil.rmtree(state.parent, ignore_errors=True)
    try:
        return Counter(_export(run, logdir / run.relative_to(records)) for run in runs)
    except OSError as error:
        allowed = f"a folder that can be written ({error.strerror})"
        raise UserError("--logdir", str(logdir), allowed) from None


def run_scalars(record: Record) -> pd.DataFrame:
    """Collect the scalars of a finished run.

    ``tag``, ``step``, ``time_s`` (on the clock of the run) and ``value``, ordered by tag and step.
    The tags: ``loss``, the mean over the workers that recorded it; ``throughput/examples_per_s`` of
    the timed steps, summed over workers; ``accuracy`` or ``perplexity`` on test examples, if
    evaluated. The time of a step is that at which its last worker ended it.
    """
    steps = steps_of(record)
    if steps.empty:
        return pd.DataFrame(columns=_COLUMNS)
    ends = steps.assign(time_s=steps["start_s"] + steps["step_s"])
    timed = ends[ends["kind"] == "timed"]
    timed = timed.assign(rate=timed["examples"] / timed["step_s"])
    tables = [
        _by_step(ends[ends["loss"].notna()], "loss", "loss", "mean"),
        _by_step(timed, "throughput/examples_per_s", "rate", "sum"),
        _evaluations(record, ends),
    ]
    table = pd.concat([table for table in tables if len(table)], ignore_index=True)[_COLUMNS]
    table = table.dropna(subset="value")
    return table.sort_values(["tag", "step"], kind="stable", ignore_index=True)


def _by_step(rows: pd.DataFrame, tag: str, column: str, combine: str) -> pd.DataFrame:
    table = rows.groupby("step").agg(value=(column, combine), time_s=("time_s", "max"))
    return table.reset_index().assign(tag=tag)


def _evaluations(record: Record, ends: pd.DataFrame) -> pd.DataFrame:
    """Collect the evaluation metrics during training and at its end."""
    evaluation = record.evaluation()
    table = pd.DataFrame() if evaluation is None else evaluation.to_pandas()
    trained = ends[ends["kind"] != "profiled"]
    rows: list[dict[Hashable, object]] = []
    for tag, column in EVALUATION_METRICS.items():
        if column in table:
            values = table.rename(columns={column: "value"}).assign(tag=tag)
            rows += values[_COLUMNS].to_dict("records")
        if (final := getattr(record.result, column)) is not None:
            step, time_s = int(trained["step"].max()) + 1, float(trained["time_s"].max())
            rows.append({"tag": tag, "step": step, "time_s": time_s, "value": final})
    return pd.DataFrame(rows)


def _resource_scalars(folder: Path, after_s: float) -> pd.DataFrame:
    """Collect CPU, memory, network and process counts sampled after a time.

    The step of a value is the milliseconds since the first sample.
    """
    table = read_resource_series(folder)
    milliseconds = ((table["time_s"] - table["time_s"].min()) * 1e3).astype(float).round()
    units = table["quantity"].replace(_UNITS)
    table = table.assign(tag="resources/" + units + "/" + table["name"], step=milliseconds)
    return table[table["time_s"] > after_s][_COLUMNS].astype({"step": int})


def _export(run: Path, out: Path) -> str:
    """Write the new scalars of a run; return what it counts as."""
    located = locate_run(run)
    is_running = located.state == "running"
    events = read_events(located.folder / "events.jsonl")
    # The first event on the monotonic and on the wall clock.
    started = [float(events[0][clock]) for clock in ("time_s", "time_unix_s")] if events else []
    state = {
        "format": FORMAT,
        "started": started,
        "files": None if is_running else _file_states(run),
    }
    written = read_json(out / STATE_FILE) if (out / STATE_FILE).exists() else {}
    after_s = float(written.pop("sampled_until_s", 0.0))
    if written == state and not is_running:
        return "unchanged"
    if written != {**state, "files": None}:  # never written, of another run, or of another record
        shutil.rmtree(out, ignore_errors=True)
        after_s = 0.0
    tables = []
    if located.state == "finished":
        try:
            record = read_record(run)
        except UserError:  # damaged or of an unknown format, which the book reports
            return "without_scalars"
        if not record.ok:
            return "without_scalars"
        tables = [run_scalars(record)]
    elif not is_running:
        return "without_scalars"
    resources = _resource_scalars(located.folder, after_s)
    offset_s = started[1] - started[0] if started else 0.0
    _write(out, [*tables, resources], offset_s)
    sampled_until_s = float(max(resources["time_s"], default=after_s))
    write_json(out / STATE_FILE, {**state, "sampled_until_s": sampled_until_s})
    return "running" if is_running else "written"


def _write(out: Path, tables: Sequence[pd.DataFrame], offset_s: float) -> None:
    """Append scalars as a new event file.

    TensorBoard's writer would load TensorFlow for its file system where that is installed. The
    module ``notf`` is how TensorBoard itself selects its own file system.
    """
    sys.modules.setdefault("tensorboard.compat.notf", types.ModuleType("notf"))
    from tensorboard.summary import Writer

    out.mkdir(parents=True, exist_ok=True)
    rows = [row for table in tables for row in table[_COLUMNS].to_numpy().tolist()]
    if not rows:
        return
    writer = Writer(str(out))
    try:
        for tag, step, time_s, value in rows:
            writer.add_scalar(tag, value, step, wall_time=time_s + offset_s)
    finally:
        writer.close()


def _file_states(folder: Path) -> dict[str, list[int]]:
    """Return size and modification time of the files that contain the scalars."""
    names = ("steps.parquet", "evaluation.parquet", "samples.parquet", "result.json")
    stats = {name: (folder / name).stat() for name in names if (folder / name).exists()}
    return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()}

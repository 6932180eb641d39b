"""`horizont watch`: a live view of the running study in the terminal.

Only files of the records are read; no process of a run is contacted.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from horizont.analysis.runs import HOST_INTERFACE
from horizont.errors import UserError
from horizont.monitoring.progress import StepCount, read_step_count
from horizont.monitoring.samples import read_samples, with_rates
from horizont.records.files import read_json, read_table
from horizont.records.record import read_run
from horizont.records.run_folders import RunState, find_runs, locate_run

#: Stage of a process by the event that it begins with.
STAGES = {
    "started": "starting",
    "spawned": "starting",
    "interpreter": "loading the framework",
    "framework": "loading data",
    "data": "building the network",
    "network": "first step",
    "first_step": "training",
    "trained": "evaluating",
    "evaluated": "profiling",
    "closed": "done",
    "error": "error",
}

_MIB = 2.0**20
_LISTED_RUNS = 5
_LOG_LINES, _LOG_BYTES = 10, 8192
_ATTEMPTS = 3
_STYLES = {"running": "bold green", "finished": "", "abandoned": "bold red", "missing": "dim"}


@dataclass(frozen=True)
class RunStatus:
    """The contents of a run's folder at one moment; `steps` and `stages` are by process.

    Attributes
    ----------
    samples
        Samples with rates: the latest of a running run, all of a finished one.
    elapsed_s
        Seconds since the first event; of a finished run its duration.
    steps_per_s
        Mean rate of the slowest process since its first step; NaN if unknown.
    result
        Contents of ``result.json``; empty while the run is running.
    """

    state: RunState
    steps: Mapping[str, StepCount] = field(default_factory=dict)
    stages: Mapping[str, str] = field(default_factory=dict)
    samples: pd.DataFrame = field(default_factory=pd.DataFrame)
    elapsed_s: float = 0.0
    steps_per_s: float = float("nan")
    result: Mapping[str, Any] = field(default_factory=dict)
    log: str = ""


def watch_study(
    records: Path,
    pattern: str = "",
    interval_s: float = 2.0,
    *,
    once: bool = False,
    console: Console | None = None,
) -> None:
    """Show the newest run with `pattern` in its path until interrupted.

    It is printed once if the output is not a terminal.
    """
    if not interval_s > 0:
        raise UserError("--interval", interval_s, "seconds above 0")
    console = console or Console(markup=False)
    if once or not console.is_terminal:
        if pattern and not _selected(records, pattern):
            raise UserError("run", pattern, f"a part of the path of a run in {records}")
        console.print(_render(records, pattern))
        return
    os.nice(10)  # the run is being measured
    with (
        Live(console=console, auto_refresh=False, vertical_overflow="crop") as live,
        contextlib.suppress(KeyboardInterrupt),
    ):
        while True:
            live.update(_render(records, pattern), refresh=True)
            time.sleep(interval_s)


def read_status(record: Path) -> RunStatus:
    """Read the state of a run; of one that is renamed meanwhile, from its new folder."""
    for _ in range(_ATTEMPTS):
        located = locate_run(record)
        state, folder = located.state, located.folder
        if not (folder / "spec.json").exists():
            break
        try:
            run, _ = read_run(folder)
            events = located.events()
            samples = with_rates(read_samples(folder))
            steps = _read_steps(folder, run.steps.total)
            result_file = folder / "result.json"
            result = read_json(result_file) if result_file.exists() else {}
        except (UserError, OSError):
            continue
        if state == "running":
            samples = samples[samples["sample"] == samples["sample"].max()]
        times_s = [float(event["time_s"]) for event in events]
        end_s = time.monotonic() if state == "running" else max(times_s, default=0.0)
        return RunStatus(
            state,
            steps=steps,
            stages=_stages(events, run.system.info.service_roles),
            samples=samples,
            elapsed_s=end_s - min(times_s, default=end_s),
            steps_per_s=_step_rate(events, steps, end_s),
            result=result,
            log=_log_tail(folder),
        )
    return RunStatus(state)


def _read_steps(folder: Path, planned: int) -> dict[str, StepCount]:
    """Read the step counters, or count the steps of a finished run."""
    if not (folder / "result.json").exists():
        files = sorted(folder.glob("processes/*/progress"))
        counts = {file.parent.name: read_step_count(file) for file in files}
        return {name: count for name, count in counts.items() if count is not None}
    table = folder / "steps.parquet"
    if not table.exists():  # a lost worker writes no steps: their number is unknown
        return {}
    workers = read_table(table)["worker"].to_pandas().value_counts()
    return {f"worker-{rank}": StepCount(n, planned) for rank, n in workers.items()}


def _stages(events: list[dict[str, Any]], service_roles: tuple[str, ...]) -> dict[str, str]:
    """Return the stage of each process; service roles serve once their framework is loaded."""
    stages: dict[str, str] = {}
    for event in events:
        name, stage = event.get("process"), STAGES.get(event["event"])
        if name and stage:
            serves = name.rpartition("-")[0] in service_roles and event["event"] == "framework"
            stages[name] = "serving" if serves else stage
    return stages


def _step_rate(events: list[dict[str, Any]], steps: Mapping[str, StepCount], end_s: float) -> float:
    first_s = {e.get("process"): e["time_s"] for e in events if e["event"] == "first_step"}
    rates = [
        (count.done - 1) / max(end_s - first_s[name], 1e-3)
        for name, count in steps.items()
        if name in first_s and count.done > 1
    ]
    return min(rates, default=float("nan"))


def _log_tail(folder: Path) -> str:
    """Read the last lines of all logs without reading what precedes them."""
    logs = sorted(folder.glob("logs/*.log"))
    lines: list[str] = []
    for log in logs:
        try:
            with log.open("rb") as file:
                file.seek(max(0, log.stat().st_size - _LOG_BYTES))
                text = file.read(_LOG_BYTES).decode(errors="replace").splitlines()
        except OSError:  # renamed since it was listed
            continue
        last = text[-max(2, _LOG_LINES // len(logs)) :]
        lines += [f"{log.stem}: {line}" if len(logs) > 1 else line for line in last]
    return "\n".join(lines)


def _selected(records: Path, pattern: str) -> list[Path]:
    """List the runs with a pattern in their path, the newest first."""
    return [record for record in find_runs(records) if pattern in str(record.relative_to(records))]


def _render(records: Path, pattern: str) -> RenderableType:
    runs = _selected(records, pattern)
    if not runs:
        return Text(f"no runs in {records}" + (f" with {pattern!r} in their path" * bool(pattern)))
    status = read_status(runs[0])
    parts: list[RenderableType] = [_headline(runs[0].relative_to(records), status)]
    if status.stages:
        parts.append(_process_table(status))
    if len(status.samples):
        parts.append(_host_table(status.samples))
    if status.log:
        log = Text(status.log, no_wrap=True, overflow="ellipsis")
        parts.append(Panel(log, title="output", title_align="left"))
    if len(runs) > 1:
        parts.append(_run_table(records, runs[1 : _LISTED_RUNS + 1]))
    return Group(*parts)


def _headline(name: Path, status: RunStatus) -> Text:
    text = Text(str(name), style="bold").append(f"  {status.state}", _STYLES[status.state])
    text.append(f"  {status.elapsed_s:.0f} s", style="")
    if status.result:
        text.append(f"  {status.result['status']} {status.result['reason']}".rstrip())
    if status.steps and status.state == "running":
        slowest = min(status.steps.values(), key=lambda count: count.done)
        text.append(f"  step {slowest.done} of {slowest.planned}")
        if status.steps_per_s > 0:
            remaining_s = (slowest.planned - slowest.done) / status.steps_per_s
            text.append(f", {status.steps_per_s:.3g} per s, {remaining_s:.0f} s remaining")
    return text


def _process_table(status: RunStatus) -> Table:
    """Format the processes; of a finished run mean CPU, peak memory and process count."""
    table = _table("process", "stage", "steps", "CPU %", "memory MiB", "processes")
    usage: dict[str, list[str]] = {}
    if len(status.samples):
        processes = status.samples[status.samples["scope"] == "process"]
        groups = processes.groupby(["name", "sample"])
        sums = groups[["cpu_cores", "rss_bytes"]].sum(min_count=1).assign(processes=groups.size())
        for name, rows in sums.groupby("name"):
            cpu, memory = 100.0 * rows["cpu_cores"].mean(), rows["rss_bytes"].max() / _MIB
            values = [cpu, memory, float(rows["processes"].max())]
            usage[str(name)] = [_number(value, ".0f") for value in values]
    for name in sorted({*status.stages, *usage}):
        count = status.steps.get(name)
        steps = f"{count.done} / {count.planned}" if count else ""
        table.add_row(name, status.stages.get(name, ""), steps, *usage.get(name, ["", "", ""]))
    return table


def _host_table(samples: pd.DataFrame) -> Table:
    """Format the machine, the interfaces of emulated hosts, and the sampler's own cost."""
    table = _table("host", "CPU %", "memory MiB", "load", "sent MiB/s", "received MiB/s")
    links = (samples["name"] == HOST_INTERFACE) & (samples["host"] != "localhost")
    chosen = samples[samples["scope"].isin(["host", "sampler"]) | links]
    chosen = chosen.assign(memory=chosen["memory_used_bytes"].fillna(chosen["rss_bytes"]) / _MIB)
    chosen["label"] = chosen["name"].where(chosen["scope"] != "interface", chosen["host"])
    for label, rows in chosen.groupby("label", sort=False):
        mean = rows[["cpu_cores", "load_1min", "sent_rate", "received_rate"]].mean()
        table.add_row(
            str(label),
            _number(100.0 * mean["cpu_cores"], ".1f"),
            _number(rows["memory"].max(), ".0f"),
            _number(mean["load_1min"], ".2f"),
            _number(mean["sent_rate"] / _MIB, ".2f"),
            _number(mean["received_rate"] / _MIB, ".2f"),
        )
    return table


def _run_table(records: Path, runs: list[Path]) -> Table:
    table = _table("earlier runs", "state", "s")
    for record in runs:
        state, duration = str(locate_run(record).state), ""
        if state == "finished":
            try:
                result = read_json(record / "result.json")
            except UserError:  # removed since it was listed, or damaged
                continue
            state, duration = result["status"], f"{result['wall_s'] or 0.0:.0f}"
        table.add_row(str(record.relative_to(records)), state, duration)
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        is_text = column in ("process", "stage", "host", "earlier runs", "state")
        table.add_column(column, justify="left" if is_text else "right", no_wrap=True)
    return table


def _number(value: float, form: str) -> str:
    return "" if pd.isna(value) else format(value, form)

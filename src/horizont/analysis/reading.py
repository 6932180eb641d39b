"""Reading what there is of a record that may be in the making."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from horizont.analysis.places import Located
from horizont.config.base import parse_config
from horizont.config.run import Run
from horizont.monitoring.clock import now_s
from horizont.monitoring.progress import StepCount, read_step_count
from horizont.monitoring.samples import read_samples, with_rates
from horizont.records.files import read_events, read_json, read_table
from horizont.records.results import RunResult

#: Columns of steps that a view needs.
_STEPS = ["worker", "kind", "start_s", "step_s"]


@dataclass(frozen=True)
class Reading:
    """The files of a record at one moment; times are on the clock of the run, in seconds.

    Attributes
    ----------
    result
        None as long as there is none.
    events
        Of the launcher and of all processes, by time.
    samples
        With rates; empty before the sampler's first piece is on disk.
    steps
        Empty before a worker has left its own.
    counters
        Steps done and planned, by process.
    begin_s, end_s
        The start of the run; its end, or now.
    """

    folder: Path
    run: Run
    result: RunResult | None
    events: list[dict[str, Any]]
    samples: pd.DataFrame
    steps: pd.DataFrame
    counters: dict[str, StepCount]
    begin_s: float
    end_s: float

    def times_of(self, event: str, process: str | None = None) -> list[float]:
        """List when an event happened, of one process or of whichever."""
        lines = [line for line in self.events if line["event"] == event]
        return [float(s["time_s"]) for s in lines if process in (None, s.get("process"))]


def read_now(located: Located) -> Reading | None:
    """Read what there is now; None before the run is described.

    Raises
    ------
    UserError, OSError
        If the folder is moved or removed meanwhile, or a file is damaged.
    """
    folder = located.folder
    if not (folder / "spec.json").exists():
        return None
    spec = read_json(folder / "spec.json")
    run = parse_config(Run, {name: spec[name] for name in spec if name != "format"}, "spec.json")
    found = folder / "result.json"
    events, steps = _events(folder), _steps(folder)
    samples = with_rates(read_samples(folder)).to_pandas()
    begin_s, last_s = _span(events, samples, steps)
    return Reading(
        folder=folder,
        run=run,
        result=parse_config(RunResult, read_json(found), found.name) if found.exists() else None,
        events=events,
        samples=samples,
        steps=steps,
        counters=_counters(folder, run, steps),
        begin_s=begin_s,
        end_s=now_s() if located.state == "running" else last_s,
    )


def _events(folder: Path) -> list[dict[str, Any]]:
    """Read the diary of the run and those of its processes, as far as they are not merged."""
    events = read_events(folder / "events.jsonl")
    for diary in folder.glob("processes/*/events.jsonl"):
        events += [{**line, "process": diary.parent.name} for line in read_events(diary)]
    return sorted(events, key=lambda line: float(line["time_s"]))


def _steps(folder: Path) -> pd.DataFrame:
    """Read the steps of the run, or of those processes that have left theirs."""
    whole = folder / "steps.parquet"
    files = [whole] if whole.exists() else list(folder.glob("processes/*/steps.parquet"))
    if not files:
        return pd.DataFrame(columns=_STEPS)
    tables: list[pd.DataFrame] = [read_table(file).select(_STEPS).to_pandas() for file in files]
    return pd.concat(tables)


def _span(
    events: list[dict[str, Any]], samples: pd.DataFrame, steps: pd.DataFrame
) -> tuple[float, float]:
    """Tell the first and the last moment that anything is known of."""
    times = [float(line["time_s"]) for line in events]
    times += [*samples["time_s"].agg(["min", "max"])] if len(samples) else []
    times += [*(steps["start_s"] + steps["step_s"]).agg(["min", "max"])] if len(steps) else []
    return (min(times), max(times)) if times else (now_s(), now_s())


def _counters(folder: Path, run: Run, steps: pd.DataFrame) -> dict[str, StepCount]:
    """Read how far each process is; in a finished record, count its steps."""
    if (folder / "result.json").exists():
        return _counted(run, steps)
    files = sorted(folder.glob("processes/*/progress"))
    read = {file.parent.name: read_step_count(file) for file in files}
    return {name: progress for name, progress in read.items() if progress is not None}


def _counted(run: Run, steps: pd.DataFrame) -> dict[str, StepCount]:
    """Count the steps of each worker; a chief that hands them out counts them for all.

    Steps come to the record with the end of a worker: those of one that was lost are not known.
    """
    if steps.empty:
        return {}
    if "worker" in run.system.info.service_roles:
        made = {"chief-0": len(steps) // run.topology.workers}
    else:
        made = {f"worker-{rank}": len(own) for rank, own in steps.groupby("worker")}
    return {name: StepCount(count, run.steps.total) for name, count in made.items()}

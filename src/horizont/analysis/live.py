"""A run as its record on disk tells of it: before, while and after it goes on.

Nothing is written, and no process of the run is asked. A record in the making may vanish or move
between two reads, and a file may be half written: then what is there is read again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from horizont.analysis.gauges import host_gauges, process_gauges, sampler_gauges, stages
from horizont.analysis.pace import live_segments, pace_of_counters, pace_of_steps
from horizont.analysis.places import State, locate
from horizont.analysis.reading import Reading, read_now
from horizont.analysis.resources import evaluation_segment, resource_series, step_segments
from horizont.config.run import Run
from horizont.config.topology import DEFAULT_LAUNCHER
from horizont.errors import UserError
from horizont.monitoring.progress import StepCount
from horizont.records.results import RunResult

_TRIES = 3
#: Readings of a counter that are kept; beyond them every other one of the older half goes.
_KEPT = 1000


@dataclass(frozen=True)
class Snapshot:
    """What the record of a run tells at one moment. Times are in seconds from its start.

    Attributes
    ----------
    state
        As of `horizont.analysis.places.Located`.
    run, result
        None as long as they are not written.
    length_s
        How long the run has gone on, or went on.
    progress
        Steps done and planned, by process.
    stages
        What each process is doing, by name.
    charts
        As of `horizont.analysis.charts`, with the quantity ``pace`` in steps a second.
    segments
        As of `horizont.analysis.resources`.
    processes, hosts, sampler
        As of `horizont.analysis.gauges`; those of a finished run sum it up.
    logs
        What each process prints, by name.
    """

    state: State
    run: Run | None = None
    result: RunResult | None = None
    length_s: float = 0.0
    progress: dict[str, StepCount] = field(default_factory=dict)
    stages: dict[str, str] = field(default_factory=dict)
    charts: pd.DataFrame = field(default_factory=pd.DataFrame)
    segments: pd.DataFrame = field(default_factory=pd.DataFrame)
    processes: pd.DataFrame = field(default_factory=pd.DataFrame)
    hosts: pd.DataFrame = field(default_factory=pd.DataFrame)
    sampler: dict[str, float] = field(default_factory=dict)
    logs: dict[str, Path] = field(default_factory=dict)

    @property
    def slowest(self) -> StepCount | None:
        """How far the slowest of those that count their steps has come."""
        return min(self.progress.values(), key=lambda one: one.done, default=None)


class LiveRun:
    """A run that is looked at again and again.

    Parameters
    ----------
    final
        Where its record is, or will be.
    """

    def __init__(self, final: Path) -> None:
        self.final = final
        self._histories: dict[str, list[tuple[float, int]]] = {}

    def look(self) -> Snapshot:
        """Read what there is now; a record that is moved meanwhile is read in its new place."""
        for _ in range(_TRIES):
            located = locate(self.final)
            try:
                reading = read_now(located)
                return (
                    self._snapshot(located.state, reading) if reading else Snapshot(located.state)
                )
            except (UserError, OSError):
                if located.state == "gone":
                    break
        return Snapshot(located.state)

    def _snapshot(self, state: State, reading: Reading) -> Snapshot:
        self._remember(reading)
        samples, zero_s = reading.samples, reading.begin_s
        tables = [resource_series(samples, zero_s, _emulated(reading.run)), self._pace(reading)]
        filled = [table for table in tables if len(table)]
        return Snapshot(
            state=state,
            run=reading.run,
            result=reading.result,
            length_s=max(0.0, reading.end_s - zero_s),
            progress=reading.counters,
            stages=stages(reading.events, reading.run.system.info.service_roles),
            charts=pd.concat(filled, ignore_index=True) if filled else tables[0],
            segments=self._segments(reading),
            processes=process_gauges(samples, over=state == "over"),
            hosts=host_gauges(samples, _emulated(reading.run), over=state == "over"),
            sampler=sampler_gauges(samples),
            logs={path.stem: path for path in sorted(reading.folder.glob("logs/*.log"))},
        )

    def _remember(self, reading: Reading) -> None:
        """Keep how far each process is; what was before the first look begins at a first step."""
        for name, progress in reading.counters.items():
            history = self._histories.setdefault(name, [])
            first = reading.times_of("first_step", name)
            if not history and first and progress.done > 1:
                history.append((first[0], 1))
            if not history or reading.end_s > history[-1][0]:
                history.append((reading.end_s, progress.done))
            if len(history) > _KEPT:
                del history[1 : _KEPT // 2 : 2]

    def _pace(self, reading: Reading) -> pd.DataFrame:
        if len(reading.steps):
            return pace_of_steps(reading.steps, reading.begin_s)
        return pace_of_counters(self._histories, reading.begin_s)

    def _segments(self, reading: Reading) -> pd.DataFrame:
        """Take the segments from the steps, if they are known, else from the counters."""
        whole = reading.result is not None and len(reading.steps)
        if whole:
            return _segments_of_steps(reading)
        slowest = min(self._histories.values(), key=lambda history: history[-1][1], default=[])
        counting = max(1, len(reading.counters))

        def all_s(event: str) -> float | None:
            times_s = reading.times_of(event)
            return max(times_s) if len(times_s) >= counting else None

        return live_segments(
            reading.run.steps,
            slowest,
            begin_s=reading.begin_s,
            first_step_s=all_s("first_step"),
            trained_s=all_s("trained"),
            evaluated_s=all_s("evaluated"),
            end_s=reading.end_s,
        )


def _emulated(run: Run) -> tuple[str, ...]:
    return run.topology.all_hosts if run.topology.launcher != DEFAULT_LAUNCHER else ()


def _segments_of_steps(reading: Reading) -> pd.DataFrame:
    zero_s = reading.begin_s
    rows = step_segments(reading.steps, zero_s)
    if reading.run.evaluation.examples:
        closed_s = [time_s - zero_s for time_s in reading.times_of("closed")]
        rows += evaluation_segment(rows, closed_s)
    start_s = min(row["start_s"] for row in rows)
    rows.append({"kind": "start-up", "start_s": 0.0, "end_s": start_s})
    return pd.DataFrame(rows).sort_values("start_s", ignore_index=True)

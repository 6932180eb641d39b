"""Three emulated hosts: start-up by role, share of measured steps, cost of the instruments."""

from __future__ import annotations

import pandas as pd

from bench.wire import emulated_place, wired_run
from horizont.analysis.steps import instrumentation_overhead
from horizont.config.run import Run
from horizont.config.system import SYSTEMS, parse_system
from horizont.launchers.collect import startup_phases
from horizont.launchers.execute import execute
from horizont.records.files import read_events
from horizont.records.record import Record

#: Instrumented to bare throughput.
GOAL = 0.99


def run() -> None:
    """Print a paragraph for each distributed system, on links of 1 Gbit/s."""
    with emulated_place() as place:
        if place is None:
            return
        for name in SYSTEMS:
            if not parse_system(name).is_local:
                described = clocked_run(name)
                _report(
                    execute(described, described.system.slug, place, lambda done, planned: None)
                )


def clocked_run(system: str) -> Run:
    """Describe as many instrumented as bare steps, of eight examples a worker.

    Means of twenty asynchronous steps differ by a twentieth from run to run.
    """
    count = 60 if parse_system(system).sync == "async" else 20
    plain = wired_run(system, 3, count, 1000.0)
    steps = plain.steps.model_copy(update={"instrumented": count})
    return plain.model_copy(update={"steps": steps, "global_batch": 24})


def _report(record: Record) -> None:
    print(f"  {record.run.system.name}", flush=True)
    if not record.ok:
        print(f"    failed: {record.result.reason}", flush=True)
        return
    events = read_events(record.folder / "events.jsonl")
    for role in dict.fromkeys(_role(line) for line in events if line.get("process")):
        parts = startup_phases([line for line in events if _role(line) == role])
        told = ", ".join(f"{part} {spent_s:.1f}" for part, spent_s in parts.items())
        print(f"    start-up of a {role}, s: {told or 'tells nothing'}")
    (step,) = instrumentation_overhead([record]).to_dict("records")
    ratio = 1 / step["ratio"]
    print(
        f"    measured steps: {_measured_s(record) / (record.result.wall_s or 1):.0%} of the wall "
        f"time; instrumented / bare throughput {ratio:.3f} ({'ok' if ratio >= GOAL else 'BELOW'})",
        flush=True,
    )


def _role(line: dict[str, object]) -> str:
    return str(line.get("process", "")).rpartition("-")[0]


def _measured_s(record: Record) -> float:
    """Tell the seconds from the first measured step to the last, of all workers."""
    steps: pd.DataFrame = record.steps().to_pandas()
    measured = steps[steps["kind"] != "warmup"]
    return float((measured["start_s"] + measured["step_s"]).max() - measured["start_s"].min())

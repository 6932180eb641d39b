"""Three emulated hosts: start-up by role, fraction of measured steps, instrumentation overhead."""

from __future__ import annotations

import pandas as pd

from bench.wire import emulated_run, emulated_run_paths
from horizont.analysis.steps import instrumentation_overhead
from horizont.config.run import Run
from horizont.config.system import SYSTEMS, parse_system
from horizont.launchers.collect import startup_phases
from horizont.launchers.execute import execute
from horizont.records.files import read_events
from horizont.records.record import Record

#: Throughput of instrumented relative to timed steps.
GOAL = 0.99


def run() -> None:
    """Print a paragraph for each distributed system, on links of 1 Gbit/s."""
    with emulated_run_paths() as paths:
        if paths is None:
            return
        for name in SYSTEMS:
            if not parse_system(name).is_local:
                described = instrumented_run(name)
                key = described.system.slug
                _report(execute(described, key, paths, lambda done, planned: None))


def instrumented_run(system: str) -> Run:
    """Return a run with as many instrumented as timed steps, of eight examples per worker.

    Means of twenty asynchronous steps differ by a twentieth from run to run.
    """
    count = 60 if parse_system(system).sync == "async" else 20
    run = emulated_run(system, 3, count, 1000.0)
    steps = run.steps.model_copy(update={"instrumented": count})
    return run.model_copy(update={"steps": steps, "global_batch": 24})


def _report(record: Record) -> None:
    print(f"  {record.run.system.name}", flush=True)
    if not record.ok:
        print(f"    failed: {record.result.reason}", flush=True)
        return
    events = read_events(record.folder / "events.jsonl")
    for role in dict.fromkeys(_role(line) for line in events if line.get("process")):
        parts = startup_phases([line for line in events if _role(line) == role])
        phases = ", ".join(f"{part} {part_s:.1f}" for part, part_s in parts.items())
        print(f"    start-up of a {role}, s: {phases or 'not measured'}")
    (step,) = instrumentation_overhead([record]).to_dict("records")
    ratio = 1 / step["ratio"]
    print(
        f"    measured steps: {_measured_s(record) / (record.result.wall_s or 1):.0%} of the wall "
        f"time; instrumented / timed throughput {ratio:.3f} ({'ok' if ratio >= GOAL else 'BELOW'})",
        flush=True,
    )


def _role(line: dict[str, object]) -> str:
    return str(line.get("process", "")).rpartition("-")[0]


def _measured_s(record: Record) -> float:
    """Return the seconds from the first measured step to the last, of all workers."""
    steps: pd.DataFrame = record.steps().to_pandas()
    measured = steps[steps["kind"] != "warmup"]
    return float((measured["start_s"] + measured["step_s"]).max() - measured["start_s"].min())

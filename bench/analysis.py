"""Analysis of 1,000 runs with 1,000 steps each: time and memory (goal: 30 s and 2 GB)."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from horizont.analysis import drilldown, steps, throughput, verdicts
from horizont.config.run import Run
from horizont.config.system import parse_system
from horizont.records.files import write_table
from horizont.records.record import Record, RecordWriter, read_record
from horizont.records.results import RunResult
from horizont.reporting.explanations import explain_verdicts
from horizont.reporting.figures.phases import phase_table
from horizont.reporting.verdicts import drilldown_table, verdict_table

GOAL_S = 30.0
GOAL_BYTES = 2e9
BLOCKS = 200
WORKERS = 2
STEPS = {"warmup": 100, "timed": 700, "instrumented": 200}

#: Milliseconds of load, forward, backward, waiting, communication and update.
PHASES_MS = {
    "tensorflow/sync/allreduce": (0.5, 3.2, 5.0, 0.5, 2.2, 0.8),
    "tensorflow/async/parameter_server": (0.5, 3.2, 5.0, 0.0, 4.2, 0.0),
    "pytorch/sync/allreduce": (0.4, 2.6, 4.6, 0.4, 1.4, 0.5),
    "mxnet/sync/parameter_server": (0.3, 4.2, 7.9, 0.8, 4.0, 0.0),
    "mxnet/async/parameter_server": (0.3, 4.2, 7.9, 0.0, 4.0, 0.0),
}
Result = TypeVar("Result")

OPTIMIZER = {"learning_rate": 0.01}
NAMES = ("load", "forward", "backward", "waiting", "communication", "update")


def run(blocks: int = BLOCKS) -> None:
    """Write the records, then read and analyse them in a process of its own.

    ``BLOCKS=20 make bench ONLY=analysis`` writes fewer runs than 5 systems in 200 blocks.
    """
    blocks = int(os.environ.get("BLOCKS", blocks))
    with tempfile.TemporaryDirectory(prefix="horizont-bench-") as folder:
        start_s = time.monotonic()
        for number, planned in enumerate(_planned_runs(blocks)):
            _write(Path(folder), planned, number)
        run_count, step_count = blocks * len(PHASES_MS), sum(STEPS.values())
        print(f"  {run_count} runs of {WORKERS} workers with {step_count} steps written in "
              f"{time.monotonic() - start_s:.0f} s", flush=True)  # fmt: skip
        subprocess.run([sys.executable, "-m", "bench.analysis", folder], check=True)


def _planned_runs(blocks: int) -> list[Run]:
    fields = {
        "experiment": "bench",
        "workload_name": "lenet5-cifar10",
        "workload": {"network": "lenet5", "dataset": "cifar10", "optimizer": OPTIMIZER},
        "steps": STEPS,
        "global_batch": 84,
        "seed": 1,
        "sampler_hz": 0,
        "timeout_s": 600,
    }  # fmt: skip
    return [
        Run.model_validate(
            {
                **fields,
                "block": block,
                "system": parse_system(name),
                "topology": {"workers": WORKERS, "servers": int(name.endswith("server"))},
            }
        )
        for block in range(blocks)
        for name in PHASES_MS
    ]


def _write(store: Path, run: Run, number: int) -> None:
    """Write the record of a synthetic run by the writer of records."""
    writer = RecordWriter(store, f"{run.system.slug}-b{run.block:03d}")
    writer.start(run, {"cpu": {"model": "none: synthetic"}})
    writer.log_event("planned")
    write_table(writer.folder / "steps.parquet", _steps(run, number))
    writer.finish(RunResult(status="ok", wall_s=20.0, train_s=10.0))


def _steps(run: Run, number: int) -> pa.Table:
    random = np.random.default_rng(number)
    count = run.steps.total
    kinds = np.concatenate([[kind] * number for kind, number in run.steps.segments()])
    phases_s = np.array(PHASES_MS[run.system.name]) * 1e-3 * random.lognormal(0, 0.02)
    phases_s = phases_s * random.lognormal(0, 0.08, (count * WORKERS, len(NAMES)))
    kinds = np.tile(kinds, WORKERS)
    instrumented = kinds == "instrumented"
    measured = run.system.info.phases
    columns = {
        f"{name}_s": np.where(instrumented & (name in measured), phases_s[:, index], np.nan)
        for index, name in enumerate(NAMES)
    }
    step_s = phases_s.sum(axis=1) + 2e-4
    start_s = np.concatenate(
        [np.cumsum(worker_s) - worker_s for worker_s in np.split(step_s, WORKERS)]
    )
    return pa.table(
        {
            "step": np.tile(np.arange(count), WORKERS),
            "worker": np.repeat(np.arange(WORKERS), count),
            "kind": kinds,
            "examples": np.full(len(kinds), run.local_batch),
            "start_s": start_s,
            "step_s": step_s,
            **columns,
            "loss": random.normal(1.5, 0.1, len(kinds)),
        }
    )


def analyse(store: Path) -> None:
    """Read all records, build the tables, and print the time of each."""
    start_s = time.monotonic()
    records = _timed("open the records", lambda: _open_records(store))
    _timed("phases", lambda: phase_table(records))
    _timed("throughput and step times", lambda: _throughputs(records))
    _timed("stability", lambda: verdicts.stability(records))
    table = _timed("verdicts", lambda: verdicts.pairwise_verdicts(records, "verified"))
    details = _timed("drill-downs", lambda: drilldown.drilldowns(records))
    _timed("tables and sentences", lambda: (
        verdict_table(table), drilldown_table(details), explain_verdicts(table, details)
    ))  # fmt: skip
    elapsed_s, cpu_s = time.monotonic() - start_s, time.process_time()
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    is_met = elapsed_s < GOAL_S and peak_bytes < GOAL_BYTES
    print(f"  all: {elapsed_s:.1f} s (goal {GOAL_S:.0f}; CPU {cpu_s:.1f} s), "
          f"at most {peak_bytes / 1e9:.2f} GB (goal {GOAL_BYTES / 1e9:.0f}) "
          f"{'ok' if is_met else 'ABOVE'}")  # fmt: skip


def _open_records(store: Path) -> list[Record]:
    return [read_record(folder) for folder in sorted(store.iterdir())]


def _throughputs(records: Sequence[Record]) -> None:
    throughput.throughput_by_system(records)
    steps.instrumentation_overhead(records)


def _timed(name: str, compute: Callable[[], Result]) -> Result:
    start_s = time.monotonic()
    result = compute()
    print(f"  {name:<26}{time.monotonic() - start_s:6.1f} s", flush=True)
    return result


if __name__ == "__main__":
    analyse(Path(sys.argv[1]))

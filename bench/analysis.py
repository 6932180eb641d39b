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

from horizont.analysis import drilldown, steps, throughput
from horizont.config.run import Run
from horizont.config.system import parse_system
from horizont.records.files import write_table
from horizont.records.record import Record, RecordWriter, read_record
from horizont.records.results import RunResult
from horizont.reporting.explanations import explain_verdicts
from horizont.reporting.tables import phase_table
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
Found = TypeVar("Found")

RULE = {"learning_rate": 0.01}
NAMES = ("load", "forward", "backward", "waiting", "communication", "update")


def run(blocks: int = BLOCKS) -> None:
    """Make the records, then read and judge them in a process of its own.

    ``BLOCKS=20 make bench ONLY=analysis`` takes fewer runs than 5 systems in 200 blocks.
    """
    blocks = int(os.environ.get("BLOCKS", blocks))
    with tempfile.TemporaryDirectory(prefix="horizont-bench-") as made:
        began = time.monotonic()
        for number, described in enumerate(_described(blocks)):
            _write(Path(made), described, number)
        runs, steps = blocks * len(PHASES_MS), sum(STEPS.values())
        print(f"  {runs} runs of {WORKERS} workers with {steps} steps made in "
              f"{time.monotonic() - began:.0f} s", flush=True)  # fmt: skip
        subprocess.run([sys.executable, "-m", "bench.analysis", made], check=True)


def _described(blocks: int) -> list[Run]:
    plain = {
        "experiment": "bench",
        "workload_name": "lenet5-cifar10",
        "workload": {"network": "lenet5", "dataset": "cifar10", "optimizer": RULE},
        "steps": STEPS,
        "global_batch": 84,
        "seed": 1,
        "sampler_hz": 0,
        "timeout_s": 600,
    }  # fmt: skip
    return [
        Run.model_validate(
            {
                **plain,
                "block": block,
                "system": parse_system(name),
                "topology": {"workers": WORKERS, "servers": int(name.endswith("server"))},
            }
        )
        for block in range(blocks)
        for name in PHASES_MS
    ]


def _write(store: Path, described: Run, number: int) -> None:
    """Write the record of a run that never was, through the writer of records."""
    writer = RecordWriter(store, f"{described.system.slug}-b{described.block:03d}")
    writer.start(described, {"cpu": {"model": "none: synthetic"}})
    writer.log_event("planned")
    write_table(writer.folder / "steps.parquet", _steps(described, number))
    writer.finish(RunResult(status="ok", wall_s=20.0, train_s=10.0))


def _steps(described: Run, number: int) -> pa.Table:
    random = np.random.default_rng(number)
    count = described.steps.total
    kinds = np.concatenate([[kind] * number for kind, number in described.steps.segments()])
    spent = np.array(PHASES_MS[described.system.name]) * 1e-3 * random.lognormal(0, 0.02)
    spent = spent * random.lognormal(0, 0.08, (count * WORKERS, len(NAMES)))
    kinds = np.tile(kinds, WORKERS)
    seen = kinds == "instrumented"
    measured = described.system.info.phases
    columns = {
        f"{name}_s": np.where(seen & (name in measured), spent[:, place], np.nan)
        for place, name in enumerate(NAMES)
    }
    step_s = spent.sum(axis=1) + 2e-4
    start_s = np.concatenate([np.cumsum(own) - own for own in np.split(step_s, WORKERS)])
    return pa.table(
        {
            "step": np.tile(np.arange(count), WORKERS),
            "worker": np.repeat(np.arange(WORKERS), count),
            "kind": kinds,
            "examples": np.full(len(kinds), described.local_batch),
            "start_s": start_s,
            "step_s": step_s,
            **columns,
            "loss": random.normal(1.5, 0.1, len(kinds)),
        }
    )


def judge(store: Path) -> None:
    """Read all records, make the tables, and print how long each took."""
    began = time.monotonic()
    records = _timed("open the records", lambda: _opened(store))
    _timed("phases", lambda: phase_table(steps.phases(records)))
    _timed("throughput and step times", lambda: _speeds(records))
    _timed("stability", lambda: verdicts.stability(records))
    verdicts = _timed("verdicts", lambda: verdicts.pairwise_verdicts(records, "verified"))
    drilldowns = _timed("drill-downs", lambda: drilldown.drilldowns(records))
    _timed("tables and sentences", lambda: (
        verdict_table(verdicts), drilldown_table(drilldowns), explain_verdicts(verdicts, drilldowns)
    ))  # fmt: skip
    spent_s, busy_s = time.monotonic() - began, time.process_time()
    most_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    good = spent_s < GOAL_S and most_bytes < GOAL_BYTES
    print(f"  all: {spent_s:.1f} s (goal {GOAL_S:.0f}; processor {busy_s:.1f} s), "
          f"at most {most_bytes / 1e9:.2f} GB (goal {GOAL_BYTES / 1e9:.0f}) "
          f"{'ok' if good else 'ABOVE'}")  # fmt: skip


def _opened(store: Path) -> list[Record]:
    return [read_record(folder) for folder in sorted(store.iterdir())]


def _speeds(records: Sequence[Record]) -> None:
    throughput.throughput_by_system(records)
    steps.instrumentation_overhead(records)


def _timed(name: str, make: Callable[[], Found]) -> Found:
    began = time.monotonic()
    found = make()
    print(f"  {name:<26}{time.monotonic() - began:6.1f} s", flush=True)
    return found


if __name__ == "__main__":
    judge(Path(sys.argv[1]))

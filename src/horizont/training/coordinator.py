"""The chief of passive workers: hands out the steps and writes their rows for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from horizont.config.jobs import WorkerJob
from horizont.frameworks.base import RemoteStep
from horizont.monitoring.step_log import PHASES
from horizont.records.files import write_table
from horizont.training.context import WorkerContext
from horizont.training.evaluation import CheckpointedEvaluation, write_summary


def run_coordinator(context: WorkerContext) -> None:
    """Lead the run, segment by segment, and leave its steps and its summary."""
    job = context.job
    coordinator = context.adapter.coordinator(context.setup, job, context.examples)
    context.log_event("network")
    rows: list[tuple[str, RemoteStep]] = []
    looks = CheckpointedEvaluation(context)
    for kind, steps, looked in _segments(job, looks):
        if kind == "timed":
            context.wait_at_start_barrier()
        made = coordinator.run(kind, steps, _progress_callback(context, len(rows)))
        if not rows:
            context.log_event("first_step")
        rows += [(kind, step) for step in made]
        if looked:
            looks.checkpoint(len(rows) // job.run.topology.workers, coordinator)
    context.log_event("trained")
    write_table(job.folder / "steps.parquet", coordinator_step_table(rows, job.run.local_batch))
    # The servers' last weights are evaluated in this process alone.
    last = replace(
        context.setup, weights=coordinator.weights(), running_statistics=coordinator.running_statistics()
    )
    write_summary(context, context.adapter.trainer(last), rows[-1][1].loss)
    looks.evaluate_and_write()
    coordinator.close()
    context.log_event("closed")


def _progress_callback(context: WorkerContext, steps_done: int) -> Callable[[int], None]:
    """Count on from the rows already made; progress is in steps of each worker."""
    before = steps_done // context.job.run.topology.workers

    def done(steps: int) -> None:
        context.progress.set(before + steps)

    return done


def _segments(job: WorkerJob, evaluation: CheckpointedEvaluation) -> list[tuple[str, int, bool]]:
    """Part the first warm-up step from the others, and the bare ones at the looks.

    The first step carries tracing and connecting.
    """
    steps = job.run.steps
    segments = [("warmup", 1, False), ("warmup", steps.warmup - 1, False)]
    segments += [("timed", count, looked) for count, looked in evaluation.segments(steps.timed)]
    segments += [("instrumented", steps.instrumented, False)]
    return [segment for segment in segments if segment[1]]


def coordinator_step_table(rows: list[tuple[str, RemoteStep]], examples: int) -> pa.Table:
    """Lay the steps out as a worker's own log would.

    The workers' wall clocks are moved to the monotonic clock of this machine.
    """
    offset_s = time.monotonic() - time.time()
    numbers: dict[int, int] = {}
    step = []
    for _, row in rows:
        step.append(numbers.get(row.worker, 0))
        numbers[row.worker] = step[-1] + 1
    columns: dict[str, NDArray[Any]] = {
        "step": np.array(step, dtype=np.int64),
        "worker": np.array([row.worker for _, row in rows], dtype=np.int64),
        "kind": np.array([kind for kind, _ in rows], dtype=object),
        "examples": np.full(len(rows), examples, dtype=np.int64),
        "start_s": np.array([row.start_unix_s + offset_s for _, row in rows]),
        "step_s": np.array([row.end_unix_s - row.start_unix_s for _, row in rows]),
    }
    for phase in PHASES:
        columns[f"{phase}_s"] = np.array([row.phases_s.get(phase, np.nan) for _, row in rows])
    columns["loss"] = np.array([row.loss for _, row in rows])
    columns["gradients_ready_s"] = np.full(len(rows), np.nan)  # nobody waits for the slowest
    return pa.table(columns)

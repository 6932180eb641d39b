"""The coordinator of workers without a loop of their own: schedules their steps, writes them."""

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
from horizont.records.files import write_table
from horizont.records.schema import PHASES
from horizont.training.context import WorkerContext
from horizont.training.evaluation import CheckpointedEvaluation, write_summary


def run_coordinator(context: WorkerContext) -> None:
    """Run all segments of a run, and write its steps and its summary."""
    job, workers = context.job, context.job.run.topology.workers
    coordinator = context.adapter.coordinator(context.setup, job, context.examples)
    context.log_event("network")
    rows: list[tuple[str, RemoteStep]] = []
    evaluation = CheckpointedEvaluation(context)
    for kind, steps, is_evaluated in _segments(job, evaluation):
        if kind == "timed":
            context.wait_at_start_barrier()
        on_progress = _progress_callback(context, len(rows) // workers)
        remote_steps = coordinator.run(kind, steps, on_progress)
        if not rows:
            context.log_event("first_step")
        rows += [(kind, step) for step in remote_steps]
        if is_evaluated:
            evaluation.checkpoint(len(rows) // workers, coordinator)
    context.log_event("trained")
    write_table(job.folder / "steps.parquet", coordinator_step_table(rows, job.run.local_batch))
    # The final weights of the servers are evaluated in this process alone.
    final_setup = replace(
        context.setup,
        weights=coordinator.weights(),
        running_statistics=coordinator.running_statistics(),
    )
    write_summary(context, context.adapter.trainer(final_setup), rows[-1][1].loss)
    evaluation.evaluate_and_write()
    coordinator.close()
    context.log_event("closed")


def _progress_callback(context: WorkerContext, steps_before: int) -> Callable[[int], None]:
    """Return a function that adds to the steps before; both are steps per worker."""

    def on_progress(steps: int) -> None:
        context.progress.set(steps_before + steps)

    return on_progress


def _segments(job: WorkerJob, evaluation: CheckpointedEvaluation) -> list[tuple[str, int, bool]]:
    """Split the steps into segments: (kind, steps, whether a checkpoint follows).

    The first warm-up step, with tracing and connecting, is a segment of its own.
    """
    steps = job.run.steps
    segments = [("warmup", 1, False), ("warmup", steps.warmup - 1, False)]
    timed = evaluation.segments(steps.timed)
    segments += [("timed", count, is_evaluated) for count, is_evaluated in timed]
    segments += [("instrumented", steps.instrumented, False)]
    return [segment for segment in segments if segment[1]]


def coordinator_step_table(rows: list[tuple[str, RemoteStep]], examples: int) -> pa.Table:
    """Return the steps in the columns of a worker's `StepLog`.

    Times on the wall clock of the workers are converted to the monotonic clock of this machine.
    """
    offset_s = time.monotonic() - time.time()
    steps_by_worker: dict[int, int] = {}
    step = []
    for _, row in rows:
        step.append(steps_by_worker.get(row.worker, 0))
        steps_by_worker[row.worker] = step[-1] + 1
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
    columns["gradients_ready_s"] = np.full(len(rows), np.nan)  # no worker waits for the slowest
    return pa.table(columns)

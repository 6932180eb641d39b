"""The coordinator of workers without a loop of their own: schedules their steps, writes them."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import replace

import pyarrow as pa

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
    steps_before = 0

    def on_progress(steps: int) -> None:
        context.progress.set(steps_before + steps)  # both are steps per worker

    for kind, steps, is_evaluated in _segments(job, evaluation):
        if kind == "timed":
            context.wait_at_start_barrier()
        steps_before = len(rows) // workers
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
    steps_by_worker: Counter[int] = Counter()
    table = []
    for kind, row in rows:
        table.append(
            {
                "step": steps_by_worker[row.worker],
                "worker": row.worker,
                "kind": kind,
                "examples": examples,
                "start_s": row.start_unix_s + offset_s,
                "step_s": row.end_unix_s - row.start_unix_s,
                **{f"{phase}_s": row.phases_s.get(phase, math.nan) for phase in PHASES},
                "loss": row.loss,
                "gradients_ready_s": math.nan,  # no worker waits for the slowest
            }
        )
        steps_by_worker[row.worker] += 1
    return pa.Table.from_pylist(table)

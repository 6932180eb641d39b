"""One process of a run: join the others, train, write this process's part of the record."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from horizont.config.base import parse_config
from horizont.config.jobs import TraceJob, WorkerJob
from horizont.data.prepared import load
from horizont.errors import UserError
from horizont.frameworks import load_adapter
from horizont.monitoring.process_control import exit_with_parent, hide_reporting_modules
from horizont.monitoring.progress import StepCounter
from horizont.records.files import write_table
from horizont.training.context import WorkerContext, dataset_for, log_event, training_setup
from horizont.training.coordinator import run_coordinator
from horizont.training.evaluation import CheckpointedEvaluation, write_summary
from horizont.training.input import (
    close_input_pipeline,
    open_input_pipeline,
    process_tree_pss_bytes,
)
from horizont.training.loop import TrainingLoop, profile_operators

#: Length to which the message of an error is shortened in the event log.
MAX_ERROR_LENGTH = 500


def main(argv: list[str]) -> int:
    """Run the job in a file; return 0, or 2 after a user error.

    Other errors end with a traceback in the log.
    """
    exit_with_parent()
    hide_reporting_modules()
    try:
        dispatch(json.loads(Path(argv[1]).read_text(encoding="utf-8")))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def dispatch(job: dict[str, Any]) -> None:
    """Run a job of either kind."""
    if job["kind"] == "trace":
        # A worker must not spend its start-up on importing the comparator.
        from horizont.training.trace import record_trace

        record_trace(parse_config(TraceJob, job, "job"))
        return
    worker_job = parse_config(WorkerJob, job, "job")
    try:
        train(worker_job)
    except BaseException as error:
        # Logged at once: a framework may take long to shut down.
        message = " ".join(f"{type(error).__name__}: {error}".split())
        log_event(worker_job, "error", error=message[:MAX_ERROR_LENGTH])
        raise


def train(job: WorkerJob) -> None:
    """Run one process of a run, in its role."""
    log_event(job, "interpreter")
    adapter = load_adapter(job.run.system.framework)
    adapter.configure(job.run.topology.threads, job.device)
    log_event(job, "framework")
    if job.role in job.run.system.info.service_roles:
        adapter.serve(job)
        return
    data = load(job.data_folder)
    run = job.run
    setup = training_setup(run.workload, data, run.seed, run.system.variant, job.device)
    bytes_before = process_tree_pss_bytes() if job.run.steps.input_batches else None
    examples = dataset_for(job, data)
    examples_bytes = None if bytes_before is None else process_tree_pss_bytes() - bytes_before
    log_event(job, "data")
    with StepCounter(job.progress, job.run.steps.total) as progress:
        context = WorkerContext(job, adapter, setup, data, examples, progress, examples_bytes)
        if job.role == "chief":
            run_coordinator(context)
        else:
            run_worker(context)


def run_worker(context: WorkerContext) -> None:
    """Train with a loop of this process, alone or as one of several workers."""
    job, adapter, setup = context.job, context.adapter, context.setup
    trainer = adapter.trainer(setup) if job.run.system.is_local else adapter.worker(setup, job)
    if job.run.steps.instrumented:
        trainer.compile_instrumented_step(job.run.local_batch)
    context.log_event("network")
    loop = TrainingLoop(trainer, job.run.steps, job.rank, context.progress)
    evaluation = CheckpointedEvaluation(context)
    batches, input_measurement = open_input_pipeline(context, trainer)
    loop.run(
        batches,
        on_first_step=lambda: context.log_event("first_step"),
        on_warmed_up=context.wait_at_start_barrier,
        evaluation=evaluation,
    )
    context.log_event("trained")
    close_input_pipeline(batches)
    if job.rank == 0:
        loss, stats = loop.final_loss(), loop.communication_stats
        write_summary(context, trainer, loss, input_measurement, stats)
        evaluation.evaluate_and_write()
    if job.run.steps.profiled:
        context.log_event("evaluated")
        profile_operators(context, loop.log)
    write_table(job.folder / "steps.parquet", loop.log.table())
    trainer.close()
    context.log_event("closed")

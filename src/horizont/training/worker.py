"""One process of a run: build or join, make the steps, leave its part of the record."""

from __future__ import annotations

import json
import sys
from pathlib import Path

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


def train(job: WorkerJob) -> None:
    """Do the work of one process of a run."""
    log_event(job, "interpreter")
    adapter = load_adapter(job.run.system.framework)
    adapter.configure(job.run.topology.threads)
    log_event(job, "framework")
    if job.role in job.run.system.info.service_roles:
        adapter.serve(job)
        return
    data = load(job.data_folder)
    recipe = training_setup(job.run.workload, data, job.run.seed, job.run.system.variant)
    before = process_tree_pss_bytes() if job.run.steps.input_batches else None
    examples = dataset_for(job, data)
    grown = process_tree_pss_bytes() - before if before is not None else None
    log_event(job, "data")
    with StepCounter(job.progress, job.run.steps.total) as progress:
        session = WorkerContext(job, adapter, recipe, data, examples, progress, grown)
        lead = run_coordinator if job.role == "chief" else run_worker
        lead(session)


def run_worker(context: WorkerContext) -> None:
    """Train as a worker that has its own loop."""
    job, adapter, recipe = context.job, context.adapter, context.setup
    alone = job.run.system.is_local
    trainer = adapter.trainer(recipe) if alone else adapter.worker(recipe, job)
    if job.run.steps.instrumented:
        trainer.compile_instrumented_step(job.run.local_batch)
    context.log_event("network")
    loop = TrainingLoop(trainer, job.run.steps, job.rank, context.progress)
    looks = CheckpointedEvaluation(context)
    batches, needs = open_input_pipeline(context, trainer)
    loop.run(batches, lambda: context.log_event("first_step"), context.wait_at_start_barrier, looks)
    context.log_event("trained")
    close_input_pipeline(batches)
    if job.rank == 0:
        write_summary(context, trainer, loop.final_loss(), needs, loop.communication_stats)
        looks.evaluate_and_write()
    if job.run.steps.profiled:
        context.log_event("evaluated")
        profile_operators(context, loop.log)
    write_table(job.folder / "steps.parquet", loop.log.table())
    trainer.close()
    context.log_event("closed")


def main(argv: list[str]) -> int:
    """Do the job that the named file describes.

    Returns
    -------
    int
        0 if it was done, 2 for a user's mistake; other errors end with a traceback in the log.
    """
    exit_with_parent()
    hide_reporting_modules()
    try:
        dispatch(json.loads(Path(argv[1]).read_text(encoding="utf-8")))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def dispatch(job: dict[str, object]) -> None:
    """Do a job of either kind; imports follow the kind, so that start-up pays for what it uses."""
    if job["kind"] == "trace":
        from horizont.training.trace import record_trace

        record_trace(parse_config(TraceJob, job, "job"))
    else:
        from horizont.records.files import append_event

        pass  # import of own module dropped

        described = parse_config(WorkerJob, job, "job")
        try:
            train(described)
        except BaseException as error:
            # Here and now: a framework may take long to take itself down.
            words = " ".join(f"{type(error).__name__}: {error}".split())
            append_event(described.folder / "events.jsonl", "error", words=words[:500])
            raise

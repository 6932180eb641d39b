"""What each operator of a step costs, by the framework's own profiler."""

from __future__ import annotations

from horizont.frameworks.operations import check_profile, operator_table, write_trace
from horizont.measure.steps import StepLog
from horizont.records import write_table
from horizont.worker.session import Session

#: Steps before the profiled ones: tracing, compiling and the first touch of all memory.
BEFORE = 3

TRACES = "traces"


def profile_operators(session: Session, log: StepLog) -> None:
    """Make the profiled steps with a network of their own, and leave operators and trace.

    A fresh trainer, because some frameworks must be told before they build that their operators
    are to be seen one by one. The batches are fetched beforehand: loading is no operator of the
    network. The steps wait for their end one by one.
    """
    job, adapter, recipe = session.job, session.adapter, session.recipe
    steps = job.run.steps.profiled
    trainer = adapter.profile_trainer(recipe)
    batches = trainer.batches(session.examples)
    for _ in range(BEFORE):
        trainer.settle(trainer.step(next(batches)))
    ready = [next(batches) for _ in range(steps)]

    def work() -> None:
        for batch in ready:
            log.begin()
            trainer.settle(trainer.step(batch))
            log.end(len(batch[1]), kind="profiled")
            session.progress.set(log.steps)

    folder = job.folder / TRACES
    folder.mkdir()
    operations = adapter.profiled(work, trainer, recipe, folder)
    check_profile(operations)
    trainer.close()
    write_table(job.folder / "operators.parquet", operator_table(operations, steps, job.rank))
    about = {"process": f"{job.run.system.name}, {job.run.workload_name}", "steps": str(steps)}
    write_trace(operations, folder / f"worker-{job.rank}.trace.json.gz", about)

"""One process of a run: build or join, make the steps, leave its part of the record."""

from __future__ import annotations

from horizont.data import load
from horizont.frameworks.registry import load_adapter
from horizont.measure import ProgressWriter
from horizont.measure.memory import tree_bytes
from horizont.records import write_table
from horizont.spec import ProcessJob
from horizont.worker.coordinate import coordinate
from horizont.worker.looks import Looks
from horizont.worker.loop import StepLoop
from horizont.worker.outcome import leave_outcome
from horizont.worker.profile import profile_operators
from horizont.worker.session import Session, examples_for, note, recipe_for
from horizont.worker.supply import end_input, start_input


def train(job: ProcessJob) -> None:
    """Do the work of one process of a run."""
    note(job, "interpreter")
    adapter = load_adapter(job.run.system.framework)
    adapter.configure(job.run.topology.threads)
    note(job, "framework")
    if job.role in job.run.system.traits.passive_roles:
        adapter.serve(job)
        return
    data = load(job.data_folder)
    recipe = recipe_for(job.run.workload, data, job.run.seed, job.run.system.build)
    before = tree_bytes() if job.run.steps.drained else None
    examples = examples_for(job, data)
    grown = tree_bytes() - before if before is not None else None
    note(job, "data")
    with ProgressWriter(job.progress, job.run.steps.total) as progress:
        session = Session(job, adapter, recipe, data, examples, progress, grown)
        lead = coordinate if job.role == "chief" else work
        lead(session)


def work(session: Session) -> None:
    """Train as a worker that has its own loop."""
    job, adapter, recipe = session.job, session.adapter, session.recipe
    alone = job.run.system.is_local
    trainer = adapter.trainer(recipe) if alone else adapter.worker(recipe, job)
    if job.run.steps.instrumented:
        trainer.rehearse(job.run.local_batch)
    session.note("network")
    loop = StepLoop(trainer, job.run.steps, job.rank, session.progress)
    looks = Looks(session)
    batches, needs = start_input(session, trainer)
    loop.run(batches, lambda: session.note("first_step"), session.wait_for_others, looks)
    session.note("trained")
    end_input(batches)
    if job.rank == 0:
        leave_outcome(session, trainer, loop.final_loss(), needs, loop.exchanged)
        looks.leave()
    if job.run.steps.profiled:
        session.note("evaluated")
        profile_operators(session, loop.log)
    write_table(job.folder / "steps.parquet", loop.log.table())
    trainer.close()
    session.note("closed")

"""One process of a run: build or join, make the steps, leave its part of the record."""

from __future__ import annotations

from horizont.data import load
from horizont.frameworks.registry import load_adapter
from horizont.measure import ProgressWriter
from horizont.records import write_table
from horizont.spec import ProcessJob
from horizont.worker.coordinate import coordinate
from horizont.worker.looks import Looks
from horizont.worker.loop import StepLoop
from horizont.worker.outcome import leave_outcome
from horizont.worker.profile import profile_operators
from horizont.worker.session import Session, examples_for, note, recipe_for


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
    examples = examples_for(job, data)
    note(job, "data")
    with ProgressWriter(job.progress, job.run.steps.total) as progress:
        session = Session(job, adapter, recipe, data, examples, progress)
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
    loop.run(trainer.batches(session.examples), lambda: session.note("first_step"), looks)
    session.note("trained")
    if job.rank == 0:
        leave_outcome(session, trainer, loop.final_loss())
        looks.leave()
    if job.run.steps.profiled:
        profile_operators(session, loop.log)
    write_table(job.folder / "steps.parquet", loop.log.table())
    trainer.close()
    session.note("closed")

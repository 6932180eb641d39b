"""The training loop that all frameworks share, and the clock around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from horizont.config.run import StepCounts
from horizont.frameworks.base import CommunicationStats, EngineQueuedTrainer, PhaseEnds, Trainer
from horizont.frameworks.operators import check_profile, operator_table, write_trace
from horizont.monitoring.clock import now_s
from horizont.monitoring.progress import StepCounter
from horizont.monitoring.step_log import LOAD, PHASES, StepLog
from horizont.records.files import write_table
from horizont.training.context import WorkerContext
from horizont.training.evaluation import CheckpointedEvaluation

PHASE_INDEX = {name: index for index, name in enumerate(PHASES)}


class TrainingLoop:
    """Warm-up, bare and instrumented steps of one worker.

    Losses stay promises until the segment is over, so that reading them costs no step any time.

    Attributes
    ----------
    exchanged
        Of a bare step, if the framework tells.
    """

    def __init__(
        self, trainer: Trainer, steps: StepCounts, rank: int, progress: StepCounter
    ) -> None:
        self.trainer = trainer
        self.steps = steps
        self.progress = progress
        self.log = StepLog(steps.total, rank)
        self.losses: list[Any] = []
        self.communication_stats: CommunicationStats | None = None

    def run(
        self,
        batches: Iterator[Any],
        on_first_step: Callable[[], None],
        on_warmed_up: Callable[[], None] = lambda: None,
        evaluation: CheckpointedEvaluation | None = None,
    ) -> None:
        """Make all steps in their order; the first worker takes the looks."""
        self._timed(batches, 1, "warmup")
        on_first_step()
        self._timed(batches, self.steps.warmup - 1, "warmup")
        on_warmed_up()
        before = self.trainer.communication_stats()
        for count, looked in (
            evaluation.segments(self.steps.timed) if evaluation else [(self.steps.timed, False)]
        ):
            self._timed(batches, count, "timed")
            if evaluation and looked and self.log.worker == 0:
                evaluation.checkpoint(len(self.losses), self.trainer)
        after = self.trainer.communication_stats()
        self.communication_stats = after.mean_since(before) if before and after else None
        if isinstance(self.trainer, EngineQueuedTrainer):
            self._engine_queued(self.trainer, batches, self.steps.instrumented)
        else:
            self._instrumented(batches, self.steps.instrumented)
        for step, loss in enumerate(self.losses):
            self.log.set_loss(step, self.trainer.loss_value(loss))

    def final_loss(self) -> float:
        """Read the loss of the last step."""
        return self.trainer.loss_value(self.losses[-1])

    def _timed(self, batches: Iterator[Any], count: int, kind: str) -> None:
        """Make steps with no instrument but the clock after their load and at their ends.

        A step ends when the one before it is known to be over: a framework that computes
        behind the loop's back is kept busy, and still every second is booked on some step. The
        last step of the segment waits for itself.
        """
        trainer, log, losses = self.trainer, self.log, self.losses
        pending = None
        for number in range(count):
            log.begin()
            batch = next(batches)
            log.mark(LOAD)
            loss = trainer.step(batch)
            if pending is not None:
                trainer.synchronize(pending)
            pending = loss
            if number == count - 1:
                trainer.synchronize(loss)
            losses.append(loss)
            log.end(len(batch[1]), kind=kind)
            self.progress.set(len(losses))

    def _instrumented(self, batches: Iterator[Any], count: int) -> None:
        """Make steps of which each phase is timed."""
        log = self.log

        def mark(phase: str, end_s: float | None = None) -> None:
            log.mark(PHASE_INDEX[phase], end_s)

        for _ in range(count):
            log.begin()
            batch = next(batches)
            log.mark(LOAD)
            loss = self.trainer.instrumented_step(batch, mark)
            self.losses.append(loss)
            log.end(len(batch[1]), kind="instrumented")
            self.progress.set(len(self.losses))

    def _engine_queued(
        self, trainer: EngineQueuedTrainer, batches: Iterator[Any], count: int
    ) -> None:
        """Make steps of which each phase is timed, each queued before the one before is over.

        A step is what lies between the end of the one before it and its own; it loads while
        there is nothing to work on.
        """
        log = self.log
        free_s = now_s()  # since when the framework has nothing to do
        before: tuple[float, int, PhaseEnds] | None = None
        for number in range(count + 1):
            queued = None
            if number < count:
                batch = next(batches)
                loaded_s = now_s()
                loss, ends = trainer.enqueue_instrumented_step(batch)
                self.losses.append(loss)
                queued = loaded_s, len(batch[1]), ends
            if before is not None:
                free_s = self._write_queued_step(free_s, *before)
                self.progress.set(log.steps)
            before = queued

    def _write_queued_step(
        self, start_s: float, loaded_s: float, examples: int, ends: PhaseEnds
    ) -> float:
        """Wait for the end of a step, write its row, and tell when it ended."""
        log = self.log
        log.begin(start_s)
        end_s = max(start_s, loaded_s)
        log.mark(LOAD, end_s)
        for phase, end_s in ends():
            log.mark(PHASE_INDEX[phase], end_s)
        log.end(examples, kind="instrumented", at_s=end_s)
        return end_s


#: Steps before the profiled ones: tracing, compiling and the first touch of all memory.
PROFILER_WARMUP_STEPS = 3

TRACES_FOLDER = "traces"


def profile_operators(context: WorkerContext, log: StepLog) -> None:
    """Make the profiled steps with a network of their own, and leave operators and trace.

    A fresh trainer, because some frameworks must be told before they build that their operators
    are to be seen one by one. The batches are fetched beforehand: loading is no operator of the
    network. The steps wait for their end one by one.
    """
    job, adapter, recipe = context.job, context.adapter, context.setup
    steps = job.run.steps.profiled
    trainer = adapter.profiling_trainer(recipe)
    batches = trainer.batches(context.examples)
    for _ in range(PROFILER_WARMUP_STEPS):
        trainer.synchronize(trainer.step(next(batches)))
    ready = [next(batches) for _ in range(steps)]

    def work() -> None:
        for batch in ready:
            log.begin()
            trainer.synchronize(trainer.step(batch))
            log.end(len(batch[1]), kind="profiled")
            context.progress.set(log.steps)

    folder = job.folder / TRACES_FOLDER
    folder.mkdir()
    operations = adapter.profile(work, trainer, recipe, folder)
    check_profile(operations)
    trainer.close()
    write_table(job.folder / "operators.parquet", operator_table(operations, steps, job.rank))
    about = {"process": f"{job.run.system.name}, {job.run.workload_name}", "steps": str(steps)}
    write_trace(operations, folder / f"worker-{job.rank}.trace.json.gz", about)

"""The training loop of all frameworks, with its timing, and the profiled steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from horizont.config.run import StepCounts
from horizont.frameworks.base import CommunicationStats, EngineQueuedTrainer, PhaseEnds, Trainer
from horizont.frameworks.operators import check_profile, operator_table, write_trace
from horizont.monitoring.progress import StepCounter
from horizont.records.files import write_table
from horizont.records.schema import PHASES
from horizont.training.context import WorkerContext
from horizont.training.evaluation import CheckpointedEvaluation
from horizont.training.step_log import LOAD, StepLog

PHASE_INDEX = {name: index for index, name in enumerate(PHASES)}

#: Steps before the profiled ones: tracing, compiling and first use of memory.
PROFILER_WARMUP_STEPS = 3

TRACES_FOLDER = "traces"


class TrainingLoop:
    """Warm-up, timed and instrumented steps of one worker.

    Losses are read at the end of training, because reading one waits for its step.

    Attributes
    ----------
    communication_stats
        Of a timed step, if the framework measures it.
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
        """Run all segments; worker 0 takes the checkpoints."""
        steps, trainer = self.steps, self.trainer
        self._run_uninstrumented(batches, 1, "warmup")
        on_first_step()
        self._run_uninstrumented(batches, steps.warmup - 1, "warmup")
        on_warmed_up()
        before = trainer.communication_stats()
        segments = evaluation.segments(steps.timed) if evaluation else [(steps.timed, False)]
        for count, is_evaluated in segments:
            self._run_uninstrumented(batches, count, "timed")
            if evaluation and is_evaluated and self.log.worker == 0:
                evaluation.checkpoint(len(self.losses), trainer)
        after = trainer.communication_stats()
        self.communication_stats = after.mean_since(before) if before and after else None
        if isinstance(trainer, EngineQueuedTrainer):
            self._run_queued(trainer, batches, steps.instrumented)
        else:
            self._run_instrumented(batches, steps.instrumented)
        for step, loss in enumerate(self.losses):
            self.log.set_loss(step, trainer.loss_value(loss))

    def final_loss(self) -> float:
        """Return the loss of the last step."""
        return self.trainer.loss_value(self.losses[-1])

    def _run_uninstrumented(self, batches: Iterator[Any], count: int, kind: str) -> None:
        """Run steps with the clock read after loading and at the end of a step only.

        A step ends when the previous one has finished: a framework that computes asynchronously
        always has work, and still all time belongs to some step. The last step of the segment
        ends when it has finished itself.
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

    def _run_instrumented(self, batches: Iterator[Any], count: int) -> None:
        """Run steps with all phases timed."""
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

    def _run_queued(self, trainer: EngineQueuedTrainer, batches: Iterator[Any], count: int) -> None:
        """Run steps with all phases timed, each queued before the previous one has finished.

        A step lasts from the end of the previous one to its own. Its load phase is the time in
        which the framework has no work.
        """
        log = self.log
        idle_since_s = time.monotonic()
        previous: tuple[float, int, PhaseEnds] | None = None
        for number in range(count + 1):
            queued = None
            if number < count:
                batch = next(batches)
                loaded_s = time.monotonic()
                loss, phase_ends = trainer.enqueue_instrumented_step(batch)
                self.losses.append(loss)
                queued = loaded_s, len(batch[1]), phase_ends
            if previous is not None:
                idle_since_s = self._write_queued_step(idle_since_s, *previous)
                self.progress.set(log.steps)
            previous = queued

    def _write_queued_step(
        self, start_s: float, loaded_s: float, examples: int, phase_ends: PhaseEnds
    ) -> float:
        """Wait for the end of a step, write its row, and return the end."""
        log = self.log
        log.begin(start_s)
        end_s = max(start_s, loaded_s)
        log.mark(LOAD, end_s)
        for phase, end_s in phase_ends():
            log.mark(PHASE_INDEX[phase], end_s)
        log.end(examples, kind="instrumented", at_s=end_s)
        return end_s


def profile_operators(context: WorkerContext, log: StepLog) -> None:
    """Run the profiled steps, and write the operators and a trace.

    They use a trainer of their own, because some frameworks expose single operators only if this
    is requested before the network is built. Batches are loaded beforehand, because loading is
    not an operator of the network. Each step is synchronized.
    """
    job, adapter, setup = context.job, context.adapter, context.setup
    steps = job.run.steps.profiled
    trainer = adapter.profiling_trainer(setup)
    batches = trainer.batches(context.examples)
    for _ in range(PROFILER_WARMUP_STEPS):
        trainer.synchronize(trainer.step(next(batches)))
    loaded = [next(batches) for _ in range(steps)]

    def run_steps() -> None:
        for batch in loaded:
            log.begin()
            trainer.synchronize(trainer.step(batch))
            log.end(len(batch[1]), kind="profiled")
            context.progress.set(log.steps)

    folder = job.folder / TRACES_FOLDER
    folder.mkdir()
    calls = adapter.profile(run_steps, trainer, setup, folder)
    check_profile(calls)
    trainer.close()
    write_table(job.folder / "operators.parquet", operator_table(calls, steps, job.rank))
    metadata = {"process": f"{job.run.system.name}, {job.run.workload_name}", "steps": str(steps)}
    write_trace(calls, folder / f"worker-{job.rank}.trace.json.gz", metadata)

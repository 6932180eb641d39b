"""The training loop that all frameworks share, and the clock around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from horizont.frameworks.base import Ends, Exchanged, QueuesAhead, Trainer
from horizont.measure.clock import now_s
from horizont.measure.progress import ProgressWriter
from horizont.measure.steps import LOAD, PHASES, StepLog
from horizont.spec import Steps
from horizont.worker.looks import Looks

PHASE_INDEX = {name: index for index, name in enumerate(PHASES)}


class StepLoop:
    """Warm-up, bare and instrumented steps of one worker.

    Losses stay promises until the segment is over, so that reading them costs no step any time.

    Attributes
    ----------
    exchanged
        Of a bare step, if the framework tells.
    """

    def __init__(self, trainer: Trainer, steps: Steps, rank: int, progress: ProgressWriter) -> None:
        self.trainer = trainer
        self.steps = steps
        self.progress = progress
        self.log = StepLog(steps.total, rank)
        self.losses: list[Any] = []
        self.exchanged: Exchanged | None = None

    def run(
        self,
        batches: Iterator[Any],
        first_step_done: Callable[[], None],
        warmed_up: Callable[[], None] = lambda: None,
        looks: Looks | None = None,
    ) -> None:
        """Make all steps in their order; the first worker takes the looks."""
        self._bare(batches, 1, "warmup")
        first_step_done()
        self._bare(batches, self.steps.warmup - 1, "warmup")
        warmed_up()
        before = self.trainer.exchanged()
        for count, looked in looks.pieces(self.steps.bare) if looks else [(self.steps.bare, False)]:
            self._bare(batches, count, "bare")
            if looks and looked and self.log.worker == 0:
                looks.take(len(self.losses), self.trainer)
        after = self.trainer.exchanged()
        self.exchanged = after.mean_since(before) if before and after else None
        if isinstance(self.trainer, QueuesAhead):
            self._queued(self.trainer, batches, self.steps.instrumented)
        else:
            self._instrumented(batches, self.steps.instrumented)
        for step, loss in enumerate(self.losses):
            self.log.set_loss(step, self.trainer.loss_value(loss))

    def final_loss(self) -> float:
        """Read the loss of the last step."""
        return self.trainer.loss_value(self.losses[-1])

    def _bare(self, batches: Iterator[Any], count: int, kind: str) -> None:
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
                trainer.settle(pending)
            pending = loss
            if number == count - 1:
                trainer.settle(loss)
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
            loss = self.trainer.timed_step(batch, mark)
            self.losses.append(loss)
            log.end(len(batch[1]), kind="instrumented")
            self.progress.set(len(self.losses))

    def _queued(self, trainer: QueuesAhead, batches: Iterator[Any], count: int) -> None:
        """Make steps of which each phase is timed, each queued before the one before is over.

        A step is what lies between the end of the one before it and its own; it loads while
        there is nothing to work on.
        """
        log = self.log
        free_s = now_s()  # since when the framework has nothing to do
        before: tuple[float, int, Ends] | None = None
        for number in range(count + 1):
            queued = None
            if number < count:
                batch = next(batches)
                loaded_s = now_s()
                loss, ends = trainer.queue_timed_step(batch)
                self.losses.append(loss)
                queued = loaded_s, len(batch[1]), ends
            if before is not None:
                free_s = self._write(free_s, *before)
                self.progress.set(log.steps)
            before = queued

    def _write(self, begun_s: float, loaded_s: float, examples: int, ends: Ends) -> float:
        """Wait for the end of a step, write its row, and tell when it ended."""
        log = self.log
        log.begin(begun_s)
        end_s = max(begun_s, loaded_s)
        log.mark(LOAD, end_s)
        for phase, end_s in ends():
            log.mark(PHASE_INDEX[phase], end_s)
        log.end(examples, kind="instrumented", at_s=end_s)
        return end_s

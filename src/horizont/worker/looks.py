"""Looks at a network on its way: copied while it trains, evaluated when the training is over."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyarrow as pa

from horizont.frameworks.base import Trainer, Weights
from horizont.records import write_table
from horizont.worker.outcome import quality
from horizont.worker.session import Session


class Source(Protocol):
    """Whoever can tell what the network is like now: a trainer or a coordinator."""

    def weights(self) -> Weights:
        """Read the weights."""
        ...

    def statistics(self) -> Weights:
        """Read the tracked statistics."""
        ...


@dataclass(frozen=True)
class Look:
    """A network as it was after some steps; `time_s` is of the monotonic clock."""

    step: int
    time_s: float
    weights: Weights
    statistics: Weights


@dataclass
class Looks:
    """The looks of one process at its network."""

    session: Session
    taken: list[Look] = field(default_factory=list)

    def pieces(self, steps: int) -> Iterator[tuple[int, bool]]:
        """Part the bare steps at the looks: steps of each piece, and whether a look follows."""
        every = self.session.job.run.evaluate_every or steps
        while steps:
            piece = min(every, steps)
            steps -= piece
            yield piece, bool(self.session.job.run.evaluate_every)

    def take(self, step: int, source: Source) -> None:
        """Copy what there is after so many steps."""
        self.taken.append(Look(step, time.monotonic(), source.weights(), source.statistics()))

    def leave(self) -> None:
        """Evaluate the copies, and leave a table of them if there are any."""
        if not self.taken:
            return
        session = self.session
        rows = [
            {
                "step": look.step,
                "time_s": look.time_s,
                **quality(self._trainer(look), session.data, session.job.run),
            }
            for look in self.taken
        ]
        write_table(session.job.folder / "quality.parquet", pa.Table.from_pylist(rows))

    def _trainer(self, look: Look) -> Trainer:
        recipe = replace(self.session.recipe, weights=look.weights, statistics=look.statistics)
        return self.session.adapter.trainer(recipe)

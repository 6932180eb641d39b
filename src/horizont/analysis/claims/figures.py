"""Figures from runs: a quantity multiplied and divided over systems and settings, by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from horizont.analysis.claims.decide import compare
from horizont.analysis.claims.evidence import Evidence, Values
from horizont.analysis.claims.rules import Growth, Trend
from horizont.analysis.claims.seen import Setting
from horizont.stats import Estimate


@dataclass(frozen=True)
class Side:
    """A factor of a figure: a system's quantity in a setting, above or below the line."""

    system: str
    setting: Setting
    above: bool


def figure(
    evidence: Evidence, quantity: str, sides: Sequence[Side], scale: float = 1.0
) -> tuple[Estimate, tuple[str, ...]] | None:
    """Multiply and divide a quantity over its sides, block by block."""
    read = [evidence.values(side.system, side.setting, quantity) for side in sides]
    blocks = set(read[0].by_block).intersection(*(values.by_block for values in read[1:]))
    if not blocks:
        return None
    above, under = [], []
    for block in sorted(blocks):
        above.append(scale * _product(read, sides, block, above=True))
        under.append(_product(read, sides, block, above=False))
    records = tuple(values.records[block] for values in read for block in sorted(blocks))
    return compare(above, under), records


def _product(read: Sequence[Values], sides: Sequence[Side], block: int, *, above: bool) -> float:
    product = 1.0
    for values, side in zip(read, sides, strict=True):
        if side.above is above:
            product *= values.by_block[block]
    return product


def curve(
    evidence: Evidence, check: Trend | Growth, system: str, workload: str
) -> list[tuple[Setting, Setting]]:
    """Pair the settings of two points of a curve: all but what the points differ in is the same."""
    start, end = (
        at if at.workload else at.model_copy(update={"workload": workload})
        for at in (check.start, check.end)
    )
    pairs = []
    for late in evidence.settings(check, system, end):
        for early in evidence.settings(check, system, start):
            moved = early._replace(workers=late.workers, batch=late.batch, workload=late.workload)
            same_batch = early.batch == late.batch or start.batch != end.batch
            same_workers = early.workers == late.workers or start.workers != end.workers
            if moved == late and early != late and same_batch and same_workers:
                pairs.append((early, late))
    return pairs

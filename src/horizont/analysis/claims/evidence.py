"""Finding the runs that a rule is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan

from horizont.analysis.claims.findings import name_of
from horizont.analysis.claims.rules import At, Check, Count
from horizont.analysis.claims.seen import Seen, Setting


@dataclass(frozen=True)
class Values:
    """A quantity of a system in one setting: by block, with the runs that it was read from."""

    by_block: dict[int, float]
    records: dict[int, str]


class Evidence:
    """The runs at hand.

    Parameters
    ----------
    runs
        All of them, failed ones too: they tell why something could not be tested.
    """

    def __init__(self, runs: Iterable[Seen]) -> None:
        self.runs = tuple(runs)
        self._measured: dict[tuple[str, str], float] = {}

    @cached_property
    def _usable(self) -> tuple[Seen, ...]:
        return tuple(seen for seen in self.runs if seen.usable)

    @cached_property
    def _profiled(self) -> bool:
        return any(seen.record.is_profiled for seen in self.runs)

    def settings(self, check: Check, system: str, at: At) -> list[Setting]:
        """List the settings in which a system was run, in the order of preference.

        Experiments come in the order of the rule; within one more workers come first, then
        larger batches, then faster links.
        """
        found = {
            seen.setting
            for seen in self._usable
            if seen.system == system and _suits(seen, check, at)
        }
        found = _counted(_counted(found, "workers", at.workers), "batch", at.batch)
        found = {setting for setting in found if setting.workers >= at.least_workers}
        place = {name: number for number, name in enumerate(check.experiments)}
        return sorted(
            found,
            key=lambda s: (place[s.experiment], -s.workers, -s.batch, -s.rate_mbit, s),
        )

    def values(self, system: str, setting: Setting, quantity: str) -> Values:
        """Measure a quantity of a system in a setting, block by block, where it was measured."""
        by_block: dict[int, float] = {}
        records: dict[int, str] = {}
        for seen in self._usable:
            if seen.system == system and seen.setting == setting:
                value = self._value(seen, quantity)
                if not isnan(value):
                    by_block[seen.block] = value
                    records[seen.block] = seen.record.folder.name
        return Values(by_block, records)

    def _value(self, seen: Seen, quantity: str) -> float:
        key = (str(seen.record.folder), quantity)
        if key not in self._measured:
            self._measured[key] = seen.quantity(quantity)
        return self._measured[key]

    def why_not(self, check: Check, workload: str, systems: Sequence[str]) -> str:
        """Say why something cannot be tested with these runs."""
        if check.quantity.startswith("operator:") and not self._profiled:
            return "the records hold no operator profile"
        places = " or ".join(name.replace("_", " ") for name in check.experiments)
        for system in systems:
            own = [s for s in self.runs if s.system == system and s.setting.workload == workload]
            own = [s for s in own if s.setting.experiment in check.experiments]
            reason = _why_not(own)
            if reason:
                return f"{reason} {system} on {workload} in the experiment {places}"
        wanted = name_of(check.quantity) + (f", batch {check.batch}" if check.batch else "")
        return (
            f"{' and '.join(systems)} on {workload}: no runs have what the rule asks for: {wanted}"
        )


def _why_not(own: Sequence[Seen]) -> str:
    if not own:
        return "no runs of"
    if not any(seen.record.ok for seen in own):
        return "no run went well of"
    if not any(seen.usable for seen in own):
        statuses = sorted({seen.status for seen in own})
        return f"{statuses[0]}:" if statuses[0] != "proven" else "no undisturbed runs of"
    return ""


def _suits(seen: Seen, check: Check, at: At) -> bool:
    setting, rate = seen.setting, check.learning_rate
    return (
        setting.experiment in check.experiments
        and setting.workload == at.workload
        and check.batch in (None, setting.batch)
        and check.workers in (None, setting.workers)
        and rate in (None, seen.record.run.workload.optimizer.learning_rate)
        and not seen.crowded
    )


def _counted(found: set[Setting], field: str, wanted: Count | None) -> set[Setting]:
    """Keep the settings with a number; the least or the most that an experiment has."""
    if wanted is None or not found:
        return found
    if isinstance(wanted, int):
        return {setting for setting in found if getattr(setting, field) == wanted}
    pick = min if wanted == "least" else max
    best: dict[str, int] = {}
    for setting in found:
        value = getattr(setting, field)
        best[setting.experiment] = pick(best.get(setting.experiment, value), value)
    return {s for s in found if getattr(s, field) == best[s.experiment]}

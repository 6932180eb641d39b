"""What changed between two sets of records: two machines, two versions, two links."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, nan
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from horizont.analysis.runs import resources_label, system_order
from horizont.analysis.steps import step_summary
from horizont.monitoring.step_log import PHASES
from horizont.records.record import Record
from horizont.statistics.intervals import LEVEL, RESAMPLES, Estimate

#: Two sides whose ratio lies within this factor of one are the same.
SAME_WITHIN = 1.1
_SEED = 20211


class WorkKey(NamedTuple):
    """What two runs must share to be the same work; the rest may be what changed.

    Attributes
    ----------
    ground
        Link, share of the processors and threads, where one side alone has several of them:
        then they tell its runs apart. Empty where they may be what changed.
    """

    experiment: str
    workload: str
    system: str
    workers: int
    servers: int
    batch: int
    resources: str = ""

    def label(self) -> str:
        """Name the point."""
        return f"{self.workers} x {self.batch}" + (f", {self.resources}" if self.resources else "")


@dataclass(frozen=True)
class Quantity:
    """A quantity that is compared: how it is measured, and whether more of it is worse."""

    measure: Callable[[Record], float]
    more_is_worse: bool = True


def compare_quantities(before: Sequence[Record], after: Sequence[Record]) -> pd.DataFrame:
    """Compare all that was run on both sides.

    Runs of two sets share no blocks, so medians are compared, and the interval is the percentile
    bootstrap of the log ratio of medians with both sides drawn anew.

    Returns
    -------
    pandas.DataFrame
        A row a point and quantity: ``experiment, workload, system, point, quantity``, medians
        ``before`` and ``after``, ``ratio`` of after to before with ``low``, ``high`` and
        ``level``, ``n_before``, ``n_after``, and ``change``: ``worse`` or ``better`` if the
        interval lies wholly beyond 1, ``same`` if it lies within `SAME_WITHIN`, ``inconclusive``
        otherwise. Quantities that a side did not measure have no row.
    """
    sides = group_by_work(before, after)
    shared = [point for point in sides[0] if point in sides[1]]
    order = {name: place for place, name in enumerate(system_order(p.system for p in shared))}
    shared.sort(key=lambda p: (p.experiment, p.workload, order.get(p.system, 0), p))
    rows = [
        row
        for point in shared
        for name, quantity in QUANTITIES.items()
        for row in _comparison_rows(point, name, quantity, [side[point] for side in sides])
    ]
    columns = ["experiment", "workload", "system", "point", "quantity", "before", "after"]
    columns += ["ratio", "low", "high", "level", "n_before", "n_after", "change"]
    return pd.DataFrame(rows, columns=columns)


def group_by_work(*sides: Sequence[Record]) -> list[dict[WorkKey, list[Record]]]:
    """Sort the records of each side, of runs that went well, by what they did."""
    good = [[r for r in side if r.ok and r.run.fault is None] for side in sides]
    varied = set().union(*(_keys_with_several_resources(side) for side in good))
    found: list[dict[WorkKey, list[Record]]] = []
    for side in good:
        points: dict[WorkKey, list[Record]] = {}
        for record in side:
            point = _work_key(record)
            if point in varied:
                point = point._replace(resources=resources_label(record.run))
            points.setdefault(point, []).append(record)
        found.append(points)
    return found


def _keys_with_several_resources(records: Sequence[Record]) -> set[WorkKey]:
    """Find the points that a side holds on more than one ground."""
    grounds: dict[WorkKey, set[str]] = {}
    for record in records:
        grounds.setdefault(_work_key(record), set()).add(resources_label(record.run))
    return {point for point, found in grounds.items() if len(found) > 1}


def _work_key(record: Record) -> WorkKey:
    run = record.run
    return WorkKey(
        run.experiment,
        run.workload_name,
        run.system.name,
        run.topology.workers,
        run.topology.servers,
        run.local_batch,
    )


def unmatched_work(
    before: Sequence[Record], after: Sequence[Record]
) -> tuple[list[WorkKey], list[WorkKey]]:
    """List what was run on one side only."""
    first, second = group_by_work(before, after)
    return [p for p in first if p not in second], [p for p in second if p not in first]


def _comparison_rows(
    key: WorkKey, name: str, quantity: Quantity, sides: Sequence[Sequence[Record]]
) -> list[dict[str, Any]]:
    values = [np.array([quantity.measure(record) for record in side]) for side in sides]
    known = [side[side > 0] for side in values]
    if not all(len(side) for side in known):
        return []
    found = ratio_of_medians(known[1], known[0])
    medians = [float(np.median(side)) for side in known]
    return [
        {
            "experiment": key.experiment,
            "workload": key.workload,
            "system": key.system,
            "point": key.label(),
            "quantity": name,
            "before": medians[0],
            "after": medians[1],
            "ratio": found.value,
            "low": found.low,
            "high": found.high,
            "level": found.level,
            "n_before": len(known[0]),
            "n_after": len(known[1]),
            "change": _classify_change(found, quantity.more_is_worse),
        }
    ]


def ratio_of_medians(
    over: NDArray[np.float64], under: NDArray[np.float64], level: float = LEVEL
) -> Estimate:
    """Estimate the ratio of the medians of two independent groups of positive numbers.

    The percentile bootstrap of the difference of median logarithms. With n runs on the smaller
    side it cannot promise more than an interval of n values can.
    """
    logs = [np.log(over), np.log(under)]
    value = exp(float(np.median(logs[0]) - np.median(logs[1])))
    n = min(len(over), len(under))
    if n < 2:
        return Estimate(value, nan, nan, 0.0, n)
    found = scipy.stats.bootstrap(
        logs,
        lambda a, b, axis: np.median(a, axis=axis) - np.median(b, axis=axis),
        confidence_level=level,
        n_resamples=RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    ).confidence_interval
    bound = min(level, 1.0 - 2.0 ** (1 - n))
    return Estimate(value, exp(float(found.low)), exp(float(found.high)), bound, n)


def _classify_change(found: Estimate, more_is_worse: bool) -> str:
    if not found.low > 0:
        return "inconclusive"
    if found.low > 1 / SAME_WITHIN and found.high < SAME_WITHIN:
        return "same"
    if found.low > 1:
        return "worse" if more_is_worse else "better"
    if found.high < 1:
        return "better" if more_is_worse else "worse"
    return "inconclusive"


def _mean_phase(name: str) -> Callable[[Record], float]:
    return lambda record: float(step_summary(record).phases[name].mean())


#: What is compared, by name. Seconds are those of one worker's instrumented step.
QUANTITIES: dict[str, Quantity] = {
    "examples_per_s": Quantity(lambda record: step_summary(record).examples_per_s, False),
    **{f"{phase}_s": Quantity(_mean_phase(phase)) for phase in PHASES},
}


def compare_machines(before: Sequence[Record], after: Sequence[Record]) -> pd.DataFrame:
    """Put the facts of the machines side by side.

    Returns
    -------
    pandas.DataFrame
        ``fact``, ``before``, ``after`` and ``changed``. Several values on a side, as of two
        versions in one folder, stand beside each other.
    """
    sides = [_facts(records) for records in (before, after)]
    rows = []
    for fact in dict.fromkeys([*sides[0], *sides[1]]):
        said = [side.get(fact, "–") for side in sides]
        rows.append(
            {"fact": fact, "before": said[0], "after": said[1], "changed": said[0] != said[1]}
        )
    return pd.DataFrame(rows, columns=["fact", "before", "after", "changed"])


def _facts(records: Sequence[Record]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for record in records:
        for fact, value in _facts_of(record).items():
            if value not in found.setdefault(fact, []):
                found[fact].append(value)
    return {fact: ", ".join(sorted(values)) for fact, values in found.items()}


def _facts_of(record: Record) -> dict[str, str]:
    environment: Mapping[str, Any] = record.environment
    cpu = environment.get("cpu", {})
    memory = environment.get("memory_bytes")
    topology = record.run.topology
    link = topology.link.rate_mbit
    facts = {
        "processor": cpu.get("model"),
        "cores": cpu.get("logical_cores"),
        "cores allowed": len(cpu["affinity"]) if cpu.get("affinity") else None,
        "memory": f"{memory / 2**30:.1f} GiB" if memory else None,
        "kernel": environment.get("kernel"),
        "Python": environment.get("python"),
        "threads": topology.threads,
        "link": f"{link:g} Mbit/s" if link else "no limit",
        **environment.get("packages", {}),
    }
    return {fact: str(value) for fact, value in facts.items() if value is not None}

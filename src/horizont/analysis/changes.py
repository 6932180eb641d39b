"""Two sets of records compared: machines, versions, regressions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import exp, nan
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from horizont.analysis.runs import resources_label, table_order, trained
from horizont.analysis.steps import means_by_run
from horizont.records.record import Record
from horizont.records.schema import PHASES
from horizont.statistics.intervals import (
    LEVEL,
    RESAMPLES,
    Estimate,
    attainable_level,
    median_interval,
)

#: Ratios within this factor of one count as no change.
SAME_WITHIN = 1.1
_SEED = 20211

#: Column of `means_by_run` -> the compared quantity; of all but the throughput an increase is a
#: regression.
_QUANTITIES = {"examples_per_s": "examples_per_s", **{phase: f"{phase}_s" for phase in PHASES}}


class WorkKey(NamedTuple):
    """The work of a run: what two runs must share to be compared.

    Attributes
    ----------
    resources
        Link, CPU quota and threads, where one side has runs with several of them, which only
        they distinguish. Empty where they may be what changed between the sides.
    """

    experiment: str
    workload: str
    system: str
    workers: int
    servers: int
    batch: int
    resources: str = ""

    def label(self) -> str:
        """Return workers, batch and resources as a phrase."""
        return f"{self.workers} x {self.batch}" + (f", {self.resources}" if self.resources else "")


def compare_quantities(before: Sequence[Record], after: Sequence[Record]) -> pd.DataFrame:
    """Compare the quantities of all work that was run on both sides.

    Runs of two sets share no blocks, so medians are compared, and the interval is the percentile
    bootstrap of the log ratio of medians with both sides resampled. Quantities: the throughput, and
    the phases of one worker's instrumented step.

    One row per work and quantity: ``experiment, workload, system, point, quantity``, medians
    ``before`` and ``after`` with ``before_low``, ``before_high``, ``after_low``, ``after_high``,
    ``ratio`` of after to before with ``low``, ``high`` and ``level``, ``n_before``, ``n_after``,
    and ``change``: ``worse`` or ``better`` if the interval lies wholly on one side of 1, ``same``
    if it lies within `SAME_WITHIN`, ``inconclusive`` otherwise.
    Quantities that a side did not measure have no row.
    """
    first, second = group_by_work(before, after)
    rows = []
    for key in sorted(first.keys() & second.keys()):
        sides = [means_by_run(side[key]).rename(columns=_QUANTITIES) for side in (first, second)]
        for name in _QUANTITIES.values():
            values = [side[name] for side in sides]
            known_before, known_after = (side[side > 0] for side in values)  # false for NaN
            if known_before.empty or known_after.empty:
                continue
            ratio = ratio_of_medians(known_after.to_numpy(), known_before.to_numpy())
            rows.append(
                {
                    "experiment": key.experiment,
                    "workload": key.workload,
                    "system": key.system,
                    "point": key.label(),
                    "quantity": name,
                    **median_interval(known_before).columns("before", "before_low", "before_high"),
                    **median_interval(known_after).columns("after", "after_low", "after_high"),
                    **ratio.columns("ratio", "low", "high", "level"),
                    "n_before": len(known_before),
                    "n_after": len(known_after),
                    "change": _classify_change(ratio, more_is_worse=name != "examples_per_s"),
                }
            )
    columns = ["experiment", "workload", "system", "point", "quantity"]
    columns += ["before", "before_low", "before_high", "after", "after_low", "after_high"]
    columns += ["ratio", "low", "high", "level", "n_before", "n_after", "change"]
    table = pd.DataFrame(rows, columns=columns)
    order = ["experiment", "workload", "system"]
    return table.sort_values(order, key=table_order, kind="stable", ignore_index=True)


def group_by_work(*sides: Sequence[Record]) -> list[dict[WorkKey, list[Record]]]:
    """Group the successful runs of each side by their work."""
    rows = [
        (index, _work_key(record), resources_label(record.run), record)
        for index, side in enumerate(sides)
        for record in trained(side)
    ]
    different = {(index, key, resources) for index, key, resources, _ in rows}
    counts = Counter((index, key) for index, key, _ in different)
    ambiguous = {key for (_, key), count in counts.items() if count > 1}
    groups: list[dict[WorkKey, list[Record]]] = [{} for _ in sides]
    for index, key, resources, record in rows:
        work = key._replace(resources=resources) if key in ambiguous else key
        groups[index].setdefault(work, []).append(record)
    return groups


def _work_key(record: Record) -> WorkKey:
    run, topology = record.run, record.run.topology
    system, batch = run.system.name, run.local_batch
    return WorkKey(
        run.experiment, run.workload_name, system, topology.workers, topology.servers, batch
    )


def unmatched_work(
    before: Sequence[Record], after: Sequence[Record]
) -> tuple[list[WorkKey], list[WorkKey]]:
    """List the work that was run on one side only, of each side."""
    first, second = group_by_work(before, after)
    return [key for key in first if key not in second], [key for key in second if key not in first]


def ratio_of_medians(over: NDArray[np.float64], under: NDArray[np.float64]) -> Estimate:
    """Estimate the ratio of the medians of two independent groups of positive numbers.

    The percentile bootstrap of the difference of median logarithms. Its level is bounded by what
    an interval of the smaller group can attain.
    """
    logs = [np.log(over), np.log(under)]
    value = exp(float(np.median(logs[0]) - np.median(logs[1])))
    n = min(len(over), len(under))
    if n < 2:
        return Estimate(value, nan, nan, 0.0, n)
    interval = scipy.stats.bootstrap(
        logs,
        lambda a, b, axis: np.median(a, axis=axis) - np.median(b, axis=axis),
        confidence_level=LEVEL,
        n_resamples=RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    ).confidence_interval
    low, high = exp(float(interval.low)), exp(float(interval.high))
    return Estimate(value, low, high, attainable_level(n), n)


def _classify_change(ratio: Estimate, more_is_worse: bool) -> str:
    if not ratio.low > 0:
        return "inconclusive"
    if ratio.low > 1 / SAME_WITHIN and ratio.high < SAME_WITHIN:
        return "same"
    if ratio.low > 1:
        return "worse" if more_is_worse else "better"
    if ratio.high < 1:
        return "better" if more_is_worse else "worse"
    return "inconclusive"


def compare_machines(before: Sequence[Record], after: Sequence[Record]) -> pd.DataFrame:
    """Compare machine, versions and resources of two sets of records.

    ``fact``, ``before``, ``after`` and ``changed``. Several values of a side are separated by
    commas.
    """
    first, second = (_facts(records) for records in (before, after))
    rows = [
        (fact, first.get(fact, "–"), second.get(fact, "–"), first.get(fact) != second.get(fact))
        for fact in dict.fromkeys([*first, *second])
    ]
    return pd.DataFrame(rows, columns=["fact", "before", "after", "changed"])


def _facts(records: Sequence[Record]) -> dict[str, str]:
    values: dict[str, set[str]] = {}
    for record in records:
        cpu = record.environment.get("cpu", {})
        memory_bytes = record.environment.get("memory_bytes")
        rate_mbit = record.run.topology.link.rate_mbit
        facts = {
            "processor": cpu.get("model"),
            "processor revision": cpu.get("revision"),
            "cores": cpu.get("logical_cores"),
            "cores allowed": len(cpu["affinity"]) if cpu.get("affinity") else None,
            "memory": f"{memory_bytes / 2**30:.1f} GiB" if memory_bytes else None,
            "kernel": record.environment.get("kernel"),
            "Python": record.environment.get("python"),
            "threads": record.run.topology.threads,
            "link": f"{rate_mbit:g} Mbit/s" if rate_mbit else "no limit",
            **record.environment.get("packages", {}),
        }
        for fact, value in facts.items():
            if value is not None:
                values.setdefault(fact, set()).add(str(value))
    return {fact: ", ".join(sorted(texts)) for fact, texts in values.items()}

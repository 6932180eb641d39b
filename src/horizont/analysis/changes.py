"""Two sets of records compared: machines, versions, regressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import exp, nan
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from horizont.analysis.runs import resources_label, system_order
from horizont.analysis.steps import step_summary
from horizont.records.record import Record
from horizont.records.schema import PHASES
from horizont.statistics.intervals import LEVEL, RESAMPLES, Estimate, attainable_level

#: Ratios within this factor of one count as no change.
SAME_WITHIN = 1.1
_SEED = 20211


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


def _mean_phase(name: str) -> Callable[[Record], float]:
    return lambda record: float(step_summary(record).phases[name].mean())


#: The compared quantities. Seconds are those of one worker's instrumented step; of all but the
#: throughput an increase is a regression.
QUANTITIES: dict[str, Callable[[Record], float]] = {
    "examples_per_s": lambda record: step_summary(record).examples_per_s,
    **{f"{phase}_s": _mean_phase(phase) for phase in PHASES},
}


def compare_quantities(before: Sequence[Record], after: Sequence[Record]) -> pd.DataFrame:
    """Compare the quantities of all work that was run on both sides.

    Runs of two sets share no blocks, so medians are compared, and the interval is the percentile
    bootstrap of the log ratio of medians with both sides resampled.

    One row per work and quantity: ``experiment, workload, system, point, quantity``, medians
    ``before`` and ``after``, ``ratio`` of after to before with ``low``, ``high`` and ``level``,
    ``n_before``, ``n_after``, and ``change``: ``worse`` or ``better`` if the interval lies wholly
    on one side of 1, ``same`` if it lies within `SAME_WITHIN`, ``inconclusive`` otherwise.
    Quantities that a side did not measure have no row.
    """
    first, second = group_by_work(before, after)
    shared = [key for key in first if key in second]
    position = {name: i for i, name in enumerate(system_order(key.system for key in shared))}
    shared.sort(key=lambda key: (key.experiment, key.workload, position.get(key.system, 0), key))
    rows = []
    for key in shared:
        for name, measure in QUANTITIES.items():
            values = [
                np.array([measure(record) for record in side[key]]) for side in (first, second)
            ]
            known_before, known_after = (side[side > 0] for side in values)  # false for NaN
            if not len(known_before) or not len(known_after):
                continue
            ratio = ratio_of_medians(known_after, known_before)
            rows.append(
                {
                    "experiment": key.experiment,
                    "workload": key.workload,
                    "system": key.system,
                    "point": key.label(),
                    "quantity": name,
                    "before": float(np.median(known_before)),
                    "after": float(np.median(known_after)),
                    "ratio": ratio.value,
                    "low": ratio.low,
                    "high": ratio.high,
                    "level": ratio.level,
                    "n_before": len(known_before),
                    "n_after": len(known_after),
                    "change": _classify_change(ratio, name != "examples_per_s"),
                }
            )
    columns = ["experiment", "workload", "system", "point", "quantity", "before", "after"]
    columns += ["ratio", "low", "high", "level", "n_before", "n_after", "change"]
    return pd.DataFrame(rows, columns=columns)


def group_by_work(*sides: Sequence[Record]) -> list[dict[WorkKey, list[Record]]]:
    """Group the successful runs of each side by their work."""
    successful = [[r for r in side if r.ok and r.run.fault is None] for side in sides]
    ambiguous: set[WorkKey] = set()
    for side in successful:
        labels: dict[WorkKey, set[str]] = {}
        for record in side:
            labels.setdefault(_work_key(record), set()).add(resources_label(record.run))
        ambiguous |= {key for key, resources in labels.items() if len(resources) > 1}
    groups: list[dict[WorkKey, list[Record]]] = []
    for side in successful:
        by_key: dict[WorkKey, list[Record]] = {}
        for record in side:
            key = _work_key(record)
            if key in ambiguous:
                key = key._replace(resources=resources_label(record.run))
            by_key.setdefault(key, []).append(record)
        groups.append(by_key)
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


def ratio_of_medians(
    over: NDArray[np.float64], under: NDArray[np.float64], level: float = LEVEL
) -> Estimate:
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
        confidence_level=level,
        n_resamples=RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    ).confidence_interval
    bound = attainable_level(n, level)
    return Estimate(value, exp(float(interval.low)), exp(float(interval.high)), bound, n)


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
        for fact, value in _facts_of(record).items():
            values.setdefault(fact, set()).add(value)
    return {fact: ", ".join(sorted(texts)) for fact, texts in values.items()}


def _facts_of(record: Record) -> dict[str, str]:
    environment: Mapping[str, Any] = record.environment
    cpu = environment.get("cpu", {})
    memory = environment.get("memory_bytes")
    rate = record.run.topology.link.rate_mbit
    facts = {
        "processor": cpu.get("model"),
        "cores": cpu.get("logical_cores"),
        "cores allowed": len(cpu["affinity"]) if cpu.get("affinity") else None,
        "memory": f"{memory / 2**30:.1f} GiB" if memory else None,
        "kernel": environment.get("kernel"),
        "Python": environment.get("python"),
        "threads": record.run.topology.threads,
        "link": f"{rate:g} Mbit/s" if rate else "no limit",
        **environment.get("packages", {}),
    }
    return {fact: str(value) for fact, value in facts.items() if value is not None}

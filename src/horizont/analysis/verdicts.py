"""Pairwise verdicts on systems, and warnings of unstable conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import nan
from typing import Final

import pandas as pd

from horizont.analysis.runs import (
    NO_CERTIFICATE_GIVEN,
    CertificateStatus,
    by_system,
    comparability,
    group_by,
)
from horizont.analysis.steps import step_means
from horizont.analysis.throughput import throughput_by_run
from horizont.errors import UserError
from horizont.records.record import Record
from horizont.statistics.comparison import ALPHA, MARGIN, SPREAD_WARNING, drift, spread, verdict
from horizont.statistics.intervals import interval_at_level, paired_ratio
from horizont.statistics.self_comparison import SelfComparison, compare_with_itself

#: The outcome for systems that were not verified to train the same network.
NOT_COMPARABLE: Final = "not comparable"


@dataclass(frozen=True)
class Pair:
    """Two systems with the same work and topology.

    Attributes
    ----------
    records_a, records_b
        All planned runs of each, ordered by block, failed ones included.
    """

    a: str
    b: str
    records_a: tuple[Record, ...]
    records_b: tuple[Record, ...]

    def paired_runs(self) -> list[tuple[Record, Record]]:
        """List the runs of the blocks in which both succeeded."""
        runs_b = {record.run.block: record for record in self.records_b if record.ok}
        return [
            (record, runs_b[record.run.block])
            for record in self.records_a
            if record.ok and record.run.block in runs_b
        ]


def pairs(records: Sequence[Record]) -> list[Pair]:
    """List the pairs of systems that can be compared, in the order of systems.

    They have the same number of workers, batch, threads and hosts: a single process is not
    compared with several workers. Raises `UserError` if a system has several runs in a block,
    because its servers were swept.
    """
    found = []
    for runs_of in _comparable_groups(records):
        for runs in runs_of.values():
            if len({record.run.block for record in runs}) < len(runs):
                allowed = "an experiment with one number and placement of servers for each system"
                raise UserError("verdicts", runs[0].run.experiment, allowed)
        for (a, runs_a), (b, runs_b) in combinations(runs_of.items(), 2):
            found.append(Pair(a, b, tuple(runs_a), tuple(runs_b)))
    return found


def _comparable_groups(records: Sequence[Record]) -> list[dict[str, list[Record]]]:
    """Group the records by `comparison_key`, in its order, and by system."""
    return [by_system(group) for _, group in sorted(group_by(records, comparison_key).items())]


def comparison_key(record: Record) -> tuple[str, str, int, str, int]:
    """Return work and topology of a run without its servers, which not all systems have."""
    run = record.run
    topology = run.topology.model_copy(update={"servers": 0, "placement": "colocated"})
    where = topology.model_dump_json()
    return run.experiment, run.workload_name, topology.workers, where, run.global_batch


def throughput(record: Record) -> float:
    """Return the examples per second of a run; NaN without a common window of its workers."""
    return float(step_means(record)["examples_per_s"])


def pairwise_verdicts(
    records: Sequence[Record],
    certificate: CertificateStatus = NO_CERTIFICATE_GIVEN,
    margin: float = MARGIN,
    rate: Callable[[Record], float] = throughput,
) -> pd.DataFrame:
    """Compare each two systems, by the throughput over the timed steps or by another rate.

    One row per pair: systems ``a`` and ``b``; ``outcome``, one of the four of
    :class:`horizont.statistics.comparison.Verdict` or ``not comparable``; ``ratio`` of the
    rate of a to that of b, paired by block, with ``ratio_low``, ``ratio_high`` and the attainable
    ``level``; the same at 95 % by `interval_at_level`, ``ratio_95``, ``low_95``, ``high_95``;
    ``minimum_detectable_ratio``; ``additional_blocks``; ``blocks`` in which
    both succeeded, of ``planned``; ``disturbed`` runs; ``reason`` why there is no verdict; and
    ``records``, the names of the folders it is based on.

    A pair without a certificate is not comparable. `margin` is the relative difference up to which
    rates count as equal; `rate` is that of a run, higher is better.
    """
    return pd.DataFrame([_verdict_row(pair, certificate, margin, rate) for pair in pairs(records)])


def _verdict_row(
    pair: Pair, certificate: CertificateStatus, margin: float, rate: Callable[[Record], float]
) -> dict[str, object]:
    runs = pair.paired_runs()
    rates_a = [rate(record) for record, _ in runs]
    rates_b = [rate(record) for _, record in runs]
    comparison = verdict(rates_a, rates_b, margin)
    planned = max(len(pair.records_a), len(pair.records_b))
    reasons = [
        f"{record.run.trainer_name}: {status}"
        for record in (pair.records_a[0], pair.records_b[0])
        if (status := comparability(record, certificate)) != "verified"
    ]
    reason = "; ".join(dict.fromkeys(reasons))
    if not reasons and comparison.ratio.n < planned:
        failed = [record for record in (*pair.records_a, *pair.records_b) if not record.ok]
        for record in failed[:1]:
            result = record.result
            reason = f"{record.run.system.name} {result.status}: {result.reason}"
    return {
        "a": pair.a,
        "b": pair.b,
        "outcome": NOT_COMPARABLE if reasons else comparison.outcome,
        **comparison.ratio.columns("ratio", "ratio_low", "ratio_high", "level"),
        **paired_ratio(rates_a, rates_b, interval_at_level).columns(
            "ratio_95", "low_95", "high_95"
        ),
        "minimum_detectable_ratio": comparison.minimum_detectable_ratio,
        "additional_blocks": comparison.additional_blocks or nan,
        "blocks": comparison.ratio.n,
        "planned": planned,
        "disturbed": sum(record.result.disturbed for both in runs for record in both),
        "reason": reason,
        "records": tuple(record.folder.name for both in runs for record in both),
    }


def self_comparison(records: Sequence[Record], margin: float = MARGIN) -> SelfComparison:
    """Compare each system with itself by the verdict of `pairwise_verdicts`: groups of its runs.

    The systems are those of an experiment on a workload; runs of one system with other work or
    topology count as another system.
    """
    rates = [
        throughput_by_run(runs)["examples_per_s"].to_numpy()
        for runs_of in _comparable_groups(records)
        for runs in runs_of.values()
    ]
    return compare_with_itself(rates, partial(verdict, margin=margin))


def stability(records: Sequence[Record]) -> pd.DataFrame:
    """Test whether the runs of each system were made under the same conditions.

    Of an experiment on a workload, in which each system runs at one point only.

    One row per system: ``ok`` runs; relative ``spread`` of their throughput; ``drift``, the rank
    correlation of throughput and start time, and ``drift_p``, both NaN with fewer than five runs;
    ``disturbed`` runs; ``warnings``, those of spread, drift and background load that apply,
    separated by commas.
    """
    rows = []
    for system, runs in by_system(records).items():
        rates = throughput_by_run(runs)["examples_per_s"]
        correlation, p = drift([record.start_time_s for record in runs], rates)
        relative_spread, disturbed = spread(rates), sum(r.result.disturbed for r in runs)
        warnings = {
            "spread": relative_spread > SPREAD_WARNING,
            "drift": p < ALPHA,
            "background load": disturbed > 0,
        }
        rows.append(
            {
                "system": system,
                "ok": int(rates.notna().sum()),
                "spread": relative_spread,
                "drift": correlation,
                "drift_p": p,
                "disturbed": disturbed,
                "warnings": ", ".join(name for name, applies in warnings.items() if applies),
            }
        )
    return pd.DataFrame(rows)

"""Which of two systems is faster, for all pairs of an experiment on a workload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from math import nan

import numpy as np
import pandas as pd

from horizont.analysis.runs import (
    NO_CERTIFICATE_GIVEN,
    CertificateStatus,
    comparability,
    records_of_system,
    systems_of,
)
from horizont.analysis.throughput import throughput_by_run
from horizont.config.run import Run
from horizont.config.topology import Topology
from horizont.errors import UserError
from horizont.records.files import read_events
from horizont.records.record import Record
from horizont.statistics.comparison import (
    ALPHA,
    MARGIN,
    SPREAD_WARNING,
    Verdict,
    drift,
    spread,
    verdict,
)

#: In the place of a verdict on systems that were not shown to train the same network.
NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True)
class Pair:
    """Two systems that did the same work in the same place.

    Attributes
    ----------
    records_a, records_b
        All planned runs of each, ordered by block, failed ones included.
    """

    a: str
    b: str
    records_a: tuple[Record, ...]
    records_b: tuple[Record, ...]

    @property
    def records(self) -> tuple[Record, ...]:
        """The runs of both."""
        return (*self.records_a, *self.records_b)

    def paired_runs(self) -> list[tuple[Record, Record]]:
        """List the runs of the blocks in which both went well."""
        others = {record.run.block: record for record in self.records_b if record.ok}
        return [
            (record, others[record.run.block])
            for record in self.records_a
            if record.ok and record.run.block in others
        ]


def pairs(records: Sequence[Record]) -> list[Pair]:
    """List the pairs of systems that can be set against each other.

    They have the same number of workers, batch, threads and hosts; a single process is no rival
    of several workers. The order is that of systems.

    Raises
    ------
    UserError
        If a system has several runs in a block: its servers were varied.
    """
    found = []
    for own in _comparable_groups(records):
        found += [
            Pair(a, b, tuple(records_of_system(own, a)), tuple(records_of_system(own, b)))
            for a, b in combinations(systems_of(own), 2)
        ]
    return found


def _comparable_groups(records: Sequence[Record]) -> Iterator[list[Record]]:
    ordered = sorted(records, key=lambda record: _comparison_key(record.run))
    for _, group in groupby(ordered, key=lambda record: _comparison_key(record.run)):
        own = list(group)
        blocks = [(record.run.system.name, record.run.block) for record in own]
        if len(set(blocks)) < len(blocks):
            allowed = "an experiment with one number and place of servers for each system"
            raise UserError("verdicts", own[0].run.experiment, allowed)
        yield own


def _comparison_key(run: Run) -> tuple[str, ...]:
    """Tell where and on what a run was made, but for its servers, which not all systems have."""
    plain = Topology.model_fields
    alike = {name: plain[name].default for name in ("servers", "placement")}
    topology = run.topology.model_copy(update=alike)
    where = f"{topology.workers:03d} {topology.model_dump_json()}"
    return (run.experiment, run.workload_name, where, f"{run.global_batch:06d}")


def pairwise_verdicts(
    records: Sequence[Record],
    certificate: CertificateStatus = NO_CERTIFICATE_GIVEN,
    margin: float = MARGIN,
) -> pd.DataFrame:
    """Judge which of each two systems trains faster, by their rates in the bare steps.

    Parameters
    ----------
    proof
        Whether the frameworks were shown to train the same network. Without it a pair is not
        comparable and there is no verdict.
    margin
        The share by which equal rates may differ.

    Returns
    -------
    pandas.DataFrame
        A row a pair: systems ``a`` and ``b``; ``outcome``, one of the four of
        `horizont.statistics.Verdict` or ``not comparable``; ``ratio`` of the rate of a over that of
        b, paired by block, with ``ratio_low``, ``ratio_high`` and the ``level`` that so many
        blocks can reach; ``minimum_detectable_ratio`` ratio; ``additional_blocks``; ``blocks`` in which both
        went well, of ``planned``; ``disturbed`` runs; ``reason`` why there is no verdict; and
        ``records``, the names of the folders that it rests on.
    """
    rates = _throughput_by_record(records)
    return pd.DataFrame([_verdict_row(pair, rates, certificate, margin) for pair in pairs(records)])


def _throughput_by_record(records: Sequence[Record]) -> dict[str, float]:
    """Tell the throughput of each run, by the name of its record."""
    if not records:
        return {}
    rates = throughput_by_run(records)["examples_per_s"]
    return {record.folder.name: rate for record, rate in zip(records, rates, strict=True)}


def _verdict_row(
    pair: Pair, rates: dict[str, float], certificate: CertificateStatus, margin: float
) -> dict[str, object]:
    judged = compare_pair(pair, rates, margin)
    together = [record for both in pair.paired_runs() for record in both]
    sides = (pair.records_a, pair.records_b)
    unlike = [told for told in (_not_comparable_reason(own, certificate) for own in sides) if told]
    return {
        "a": pair.a,
        "b": pair.b,
        "outcome": NOT_COMPARABLE if unlike else judged.outcome,
        "ratio": judged.ratio.value,
        "ratio_low": judged.ratio.low,
        "ratio_high": judged.ratio.high,
        "level": judged.ratio.level,
        "minimum_detectable_ratio": judged.minimum_detectable_ratio,
        "additional_blocks": judged.additional_blocks if judged.additional_blocks else np.nan,
        "blocks": judged.ratio.n,
        "planned": max(len(pair.records_a), len(pair.records_b)),
        "disturbed": sum(record.result.disturbed for record in together),
        "reason": "; ".join(dict.fromkeys(unlike)) or _missing_blocks_reason(pair, judged),
        "records": tuple(record.folder.name for record in together),
    }


def compare_pair(pair: Pair, rates: dict[str, float], margin: float = MARGIN) -> Verdict:
    """Judge a pair by the rates of its runs.

    Parameters
    ----------
    rates
        Of each run, by the name of its record.
    """
    both = [(rates[a.folder.name], rates[b.folder.name]) for a, b in pair.paired_runs()]
    return verdict([a for a, _ in both], [b for _, b in both], margin)


def _not_comparable_reason(records: Sequence[Record], certificate: CertificateStatus) -> str:
    """Tell why the times of a system may not be compared; nothing if they may."""
    status = comparability(records[0], certificate)
    return "" if status == "verified" else f"{records[0].run.system.framework_variant}: {status}"


def _missing_blocks_reason(pair: Pair, judged: Verdict) -> str:
    """Tell why blocks are missing, if any are."""
    if judged.ratio.n >= max(len(pair.records_a), len(pair.records_b)):
        return ""
    bad = [record for record in pair.records if not record.ok]
    return f"{bad[0].run.system.name} {bad[0].result.status}: {bad[0].result.reason}" if bad else ""


SPREAD, DRIFT, BACKGROUND = "spread", "drift", "background load"


def stability(records: Sequence[Record]) -> pd.DataFrame:
    """Look for signs that the runs of a system were not made under the same conditions.

    Parameters
    ----------
    records
        Of an experiment on a workload, in which each system is run at one point only.

    Returns
    -------
    pandas.DataFrame
        A row a system: ``ok`` runs; ``spread`` of their rates, as a share; ``drift``, the rank
        correlation of rate and time of execution, and ``drift_p``, both NaN with fewer than
        five runs; ``disturbed`` runs; ``warnings``, the names of those of `SPREAD`, `DRIFT` and
        `BACKGROUND` that hold, joined by commas.
    """
    return pd.DataFrame(
        [_stability_row(records_of_system(records, name)) for name in systems_of(records)]
    )


def _stability_row(own: Sequence[Record]) -> dict[str, object]:
    rates = throughput_by_run(own)["examples_per_s"]
    correlation, p = drift([start_time_s(record) for record in own], rates)
    wide, disturbed = spread(rates), sum(record.result.disturbed for record in own)
    holds = {SPREAD: wide > SPREAD_WARNING, DRIFT: p < ALPHA, BACKGROUND: disturbed > 0}
    return {
        "system": own[0].run.system.name,
        "ok": int(rates.notna().sum()),
        "spread": wide,
        "drift": correlation,
        "drift_p": p,
        "disturbed": disturbed,
        "warnings": ", ".join(name for name, found in holds.items() if found),
    }


def start_time_s(record: Record) -> float:
    """Tell when a run was begun, in seconds of the calendar's clock; NaN if nobody noted it.

    The clock of the steps starts anew with the machine, and a study may be interrupted.
    """
    path = record.folder / "events.jsonl"
    events = read_events(path) if path.exists() else []
    return float(events[0].get("time_unix_s", nan)) if events else nan

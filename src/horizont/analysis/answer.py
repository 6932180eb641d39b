"""The answer of a study: for each workload the best system by setting, its lead, and the cause."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan, nan
from typing import Literal

import pandas as pd

from horizont.analysis.advice import largest_comparable_group
from horizont.analysis.drilldown import Drilldown, drilldowns
from horizont.analysis.faults import continued, fault_outcomes, kills_worker
from horizont.analysis.learning import time_to_loss_by_run
from horizont.analysis.operators import operator_table
from horizont.analysis.resources import peak_memory_mib
from horizont.analysis.runs import (
    NO_CERTIFICATE_GIVEN,
    CertificateStatus,
    by_system,
    comparability,
    group_by,
    trained,
)
from horizont.analysis.verdicts import NOT_COMPARABLE, pairs, pairwise_verdicts, throughput
from horizont.config.system import DEFAULT
from horizont.records.record import Record
from horizont.statistics.intervals import median

#: The columns of the answer. Loss and memory are those of several workers, if these were measured.
ONE, SEVERAL, LOSS, MEMORY, SURVIVES = COLUMNS = (
    "one process",
    "several workers",
    "time to a loss",
    "peak memory",
    "survives a lost worker",
)

NOT_RUN = "not run"

#: Of a cell: the lead is clear, or it is within `MARGIN` and that is shown, or neither is.
Verdict = Literal["clear", "equal", "not settled", "not comparable"]
_VERDICTS: Mapping[str, Verdict] = {
    "equal": "equal",
    "not settled": "not settled",
    NOT_COMPARABLE: "not comparable",
}


@dataclass(frozen=True)
class Cell:
    """The best system of a workload in a setting.

    Attributes
    ----------
    winner, runner_up
        Names of systems; empty if there is none.
    ratio, low, high
        By how much the winner is better, paired by block, with its 95 % interval; NaN if unknown.
    survivors, tested
        Of `SURVIVES`: the systems that complete the training, and the number of those tested.
    excluded
        The systems that do not compete, because they are not verified while others are.
    note
        Why there is no verdict, in two words.
    records
        The runs that were compared.
    """

    winner: str = ""
    runner_up: str = ""
    ratio: float = nan
    low: float = nan
    high: float = nan
    verdict: Verdict | None = None
    survivors: tuple[str, ...] = ()
    tested: int = 0
    excluded: tuple[str, ...] = ()
    note: str = ""
    records: tuple[Record, ...] = field(default=(), repr=False, compare=False)


@dataclass(frozen=True)
class Answer:
    """The row of a workload: its cells by column, and the cause of a clear lead, if any.

    That of several workers comes first, if its cause is known.
    """

    workload: str
    cells: Mapping[str, Cell]
    cause: Drilldown | None = None


def answers(
    records: Sequence[Record],
    certificates: Mapping[str, CertificateStatus],
    swept: Collection[str] = (),
) -> list[Answer]:
    """Find the best systems of each workload that has records, in their order.

    The systems compete in their default variants. One process has whole CPUs, or else the quota of
    an emulated host. Several workers are those on emulated hosts, or else the processes of this
    machine. The systems are those of the experiment with most systems, or of the one that repeats
    the two fastest of these in more blocks. The records are of experiments that train with fixed
    settings or inject faults; the certificates are by workload. Several workers of the workloads in
    `swept` were measured in sweeps, which have no single setting to compare.
    """
    records = [record for record in records if record.run.system.variant == DEFAULT]
    return [
        _answer(
            workload,
            own,
            certificates.get(workload, NO_CERTIFICATE_GIVEN),
            "in sweeps only" if workload in swept else NOT_RUN,
        )
        for workload, own in group_by(records, lambda record: record.run.workload_name).items()
    ]


def _answer(
    workload: str, records: list[Record], certificate: CertificateStatus, without_several: str
) -> Answer:
    """Find the best systems; the note says why there are no records of several workers."""
    one = [record for record in trained(records) if record.run.system.is_local]
    one = [record for record in one if record.run.topology.cpus_per_host is None] or one
    several = [record for record in trained(records) if not record.run.system.is_local]
    several = [record for record in several if record.has("byte_counters")] or several
    all_of_one, all_of_several = one, several
    one, several = (largest_comparable_group(group) if group else [] for group in (one, several))
    cells = {
        ONE: _cell(one, certificate, throughput, all_of_one),
        SEVERAL: (
            _cell(several, certificate, throughput, all_of_several)
            if several
            else Cell(note=without_several)
        ),
        LOSS: _cell(several or one, certificate, _inverse_time_to_loss(several or one)),
        MEMORY: _cell(several or one, certificate, lambda record: 1 / peak_memory_mib(record)),
        SURVIVES: _survival([record for record in records if kills_worker(record.run)]),
    }
    causes = [cause_of(cells[name]) for name in (SEVERAL, ONE) if cells[name].verdict == "clear"]
    explained = (cause for cause in causes if cause.path)
    return Answer(workload, cells, next(explained, causes[0] if causes else None))


def leader(records: Sequence[Record], certificate: CertificateStatus) -> Cell:
    """Compare the throughput of the two fastest systems; all records are of one setting."""
    return _cell(records, certificate, throughput)


def _cell(
    records: Sequence[Record],
    certificate: CertificateStatus,
    rate: Callable[[Record], float],
    all_records: Sequence[Record] = (),
) -> Cell:
    """Compare the two best systems by a rate; unverified ones compete only among themselves.

    If an experiment of `all_records` repeats these two in more blocks, its two best are compared.
    """
    verified = [record for record in records if comparability(record, certificate) == "verified"]
    competing = verified if len(by_system(verified)) > 1 else records
    excluded = tuple(sorted(by_system(records).keys() - by_system(competing).keys()))
    rates = {record.folder: rate(record) for record in competing}
    medians = {
        system: median([rates[record.folder] for record in runs])
        for system, runs in by_system(competing).items()
    }
    known = [system for system in medians if not isnan(medians[system])]
    ranking = sorted(known, key=lambda system: -medians[system])
    if len(ranking) < 2:
        if len(medians) == 1 and ranking:
            return Cell(ranking[0], note="one system")
        return Cell(note="not measured" if records else NOT_RUN)
    best = [record for record in competing if record.run.system.name in ranking[:2]]
    if repeated := _in_more_blocks(best, all_records):
        return replace(_cell(repeated, certificate, rate), excluded=excluded)
    table = pairwise_verdicts(best, certificate, rate=lambda record: rates[record.folder])
    a, b, outcome, ratio, low, high = table[
        ["a", "b", "outcome", "ratio_95", "low_95", "high_95"]
    ].iloc[0]
    if ratio < 1:
        a, b, ratio, low, high = b, a, 1 / ratio, 1 / high, 1 / low
    verdict = _VERDICTS.get(outcome, "clear")
    return Cell(a, b, ratio, low, high, verdict, excluded=excluded, records=tuple(best))


def _in_more_blocks(best: Sequence[Record], all_records: Sequence[Record]) -> list[Record]:
    """Select the runs of the experiment that has most blocks of two systems, and more than `best`.

    Its settings are the same, but for steps and evaluation. Empty if there is none.
    """

    def settings(record: Record) -> tuple[object, ...]:
        run = record.run
        where = run.system.name, run.topology.model_dump_json()
        what = run.workload_name, run.global_batch, run.input
        return *where, *what, run.gradient_exchange, run.record_updates

    def blocks(runs: Sequence[Record]) -> int:
        return max((len(pair.paired_runs()) for pair in pairs(runs)), default=0)

    allowed = {settings(record) for record in best}
    same = [record for record in all_records if settings(record) in allowed]
    experiments = group_by(same, lambda record: record.run.experiment)
    name = max(experiments, key=lambda name: blocks(experiments[name]), default="")
    if not name or blocks(experiments[name]) <= blocks(best):
        return []
    return largest_comparable_group([r for r in all_records if r.run.experiment == name])


def _inverse_time_to_loss(records: Sequence[Record]) -> Callable[[Record], float]:
    """Return the function that gives the inverse of a run's time to the loss that all reach."""
    table = time_to_loss_by_run(records) if records else pd.DataFrame()
    times_s = {(row["system"], row["block"]): row["time_s"] for row in table.to_dict("records")}
    return lambda record: 1 / times_s.get((record.run.system.name, record.run.block), nan)


def _survival(killed: Sequence[Record]) -> Cell:
    continues = continued(fault_outcomes(killed))
    if continues.empty:
        return Cell(note=NOT_RUN)
    survived = continues.groupby(level=0, sort=False).all()
    return Cell(survivors=tuple(survived[survived].index), tested=len(survived))


def cause_of(cell: Cell) -> Drilldown:
    """Explain the difference of the two systems of a cell."""
    operators = operator_table(cell.records)
    return drilldowns(cell.records, operators if len(operators) else None)[0]

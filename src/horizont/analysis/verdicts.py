"""Which of two systems is faster, for all pairs of an experiment on a workload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby

import numpy as np
import pandas as pd

from horizont.analysis.frames import of_system, systems_of
from horizont.analysis.runs import NO_PROOF, ProofStatus, comparable
from horizont.analysis.throughput import run_throughput
from horizont.errors import UserError
from horizont.records import Record
from horizont.spec import Run, Topology
from horizont.stats import MARGIN, Verdict, verdict

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

    def together(self) -> list[tuple[Record, Record]]:
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
    for own in _same_places(records):
        found += [
            Pair(a, b, tuple(of_system(own, a)), tuple(of_system(own, b)))
            for a, b in combinations(systems_of(own), 2)
        ]
    return found


def _same_places(records: Sequence[Record]) -> Iterator[list[Record]]:
    ordered = sorted(records, key=lambda record: _place(record.run))
    for _, group in groupby(ordered, key=lambda record: _place(record.run)):
        own = list(group)
        blocks = [(record.run.system.name, record.run.block) for record in own]
        if len(set(blocks)) < len(blocks):
            allowed = "an experiment with one number and place of servers for each system"
            raise UserError("verdicts", own[0].run.experiment, allowed)
        yield own


def _place(run: Run) -> tuple[str, ...]:
    """Tell where and on what a run was made, but for its servers, which not all systems have."""
    plain = Topology.model_fields
    alike = {name: plain[name].default for name in ("servers", "placement")}
    topology = run.topology.model_copy(update=alike)
    where = f"{topology.workers:03d} {topology.model_dump_json()}"
    return (run.experiment, run.workload_name, where, f"{run.global_batch:06d}")


def verdicts(
    records: Sequence[Record], proof: ProofStatus = NO_PROOF, margin: float = MARGIN
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
        `horizont.stats.Verdict` or ``not comparable``; ``ratio`` of the rate of a over that of
        b, paired by block, with ``ratio_low``, ``ratio_high`` and the ``level`` that so many
        blocks can reach; ``detectable`` ratio; ``further_blocks``; ``blocks`` in which both
        went well, of ``planned``; ``disturbed`` runs; ``reason`` why there is no verdict; and
        ``records``, the names of the folders that it rests on.
    """
    rates = _rates(records)
    return pd.DataFrame([_row(pair, rates, proof, margin) for pair in pairs(records)])


def _rates(records: Sequence[Record]) -> dict[str, float]:
    """Tell the throughput of each run, by the name of its record."""
    if not records:
        return {}
    rates = run_throughput(records)["examples_per_s"]
    return {record.folder.name: rate for record, rate in zip(records, rates, strict=True)}


def _row(
    pair: Pair, rates: dict[str, float], proof: ProofStatus, margin: float
) -> dict[str, object]:
    judged = judge(pair, rates, margin)
    together = [record for both in pair.together() for record in both]
    sides = (pair.records_a, pair.records_b)
    unlike = [told for told in (_status(own, proof) for own in sides) if told]
    return {
        "a": pair.a,
        "b": pair.b,
        "outcome": NOT_COMPARABLE if unlike else judged.outcome,
        "ratio": judged.ratio.value,
        "ratio_low": judged.ratio.low,
        "ratio_high": judged.ratio.high,
        "level": judged.ratio.level,
        "detectable": judged.detectable,
        "further_blocks": judged.further_blocks if judged.further_blocks else np.nan,
        "blocks": judged.ratio.n,
        "planned": max(len(pair.records_a), len(pair.records_b)),
        "disturbed": sum(record.result.disturbed for record in together),
        "reason": "; ".join(dict.fromkeys(unlike)) or _missing(pair, judged),
        "records": tuple(record.folder.name for record in together),
    }


def judge(pair: Pair, rates: dict[str, float], margin: float = MARGIN) -> Verdict:
    """Judge a pair by the rates of its runs.

    Parameters
    ----------
    rates
        Of each run, by the name of its record.
    """
    both = [(rates[a.folder.name], rates[b.folder.name]) for a, b in pair.together()]
    return verdict([a for a, _ in both], [b for _, b in both], margin)


def _status(records: Sequence[Record], proof: ProofStatus) -> str:
    """Tell why the times of a system may not be compared; nothing if they may."""
    status = comparable(records[0], proof)
    return "" if status == "proven" else f"{records[0].run.system.trainer}: {status}"


def _missing(pair: Pair, judged: Verdict) -> str:
    """Tell why blocks are missing, if any are."""
    if judged.ratio.n >= max(len(pair.records_a), len(pair.records_b)):
        return ""
    bad = [record for record in pair.records if not record.ok]
    return f"{bad[0].run.system.name} {bad[0].result.status}: {bad[0].result.reason}" if bad else ""

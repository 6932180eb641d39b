"""Which system to take: a ranking from the records that come closest to a question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Literal, get_args

import pandas as pd

from horizont.analysis.faults import fault_outcomes
from horizont.analysis.learning import time_to_loss
from horizont.analysis.resources import TOTAL, resource_totals
from horizont.analysis.runs import (
    NO_CERTIFICATE_GIVEN,
    CertificateStatus,
    comparability,
    records_of_system,
    resources_label,
    systems_of,
)
from horizont.analysis.steps import phases
from horizont.analysis.throughput import throughput_by_system
from horizont.analysis.verdicts import pairwise_verdicts
from horizont.config.run import Run
from horizont.errors import UserError
from horizont.records.record import Record
from horizont.statistics.intervals import median_interval

Objective = Literal["throughput", "time to loss", "memory", "fault tolerance"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)

#: A network is answered for by another one up to this many times larger or smaller.
MAX_SIZE_RATIO = 3.0

#: Outcomes of a lost worker, the best first.
_OUTCOME_ORDER = ("completes", "aborts", "hangs")


@dataclass(frozen=True)
class Question:
    """What is asked.

    Attributes
    ----------
    network
        By name, or by `weights`, the numbers that it learns.
    rate_mbit
        Of each host's link; None for any.
    wish
        What matters.
    """

    network: str = ""
    weights: float = nan
    workers: int = 1
    threads: int = 1
    rate_mbit: float | None = None
    objective: Objective = "throughput"

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise UserError("what matters", self.objective, OBJECTIVES)
        if bool(self.network) == (self.weights > 0):
            raise UserError("network", self.network or None, "a name, or a number of weights")
        for field in ("workers", "threads"):
            if getattr(self, field) < 1:
                raise UserError(field, getattr(self, field), "a number from 1 up")


@dataclass(frozen=True)
class Recommendation:
    """What the records say.

    Attributes
    ----------
    ranking
        The best first: ``system``, ``value`` with ``low`` and ``high``, ``versus_best`` (how it stands
        to the best), ``explanation``, ``runs``. Empty if the records do not reach that far.
    unit
        Of the values.
    basis
        Which runs it rests on, in a sentence.
    caveats
        What the answer cannot say.
    """

    ranking: pd.DataFrame
    unit: str
    basis: str
    caveats: tuple[str, ...] = ()


def recommend(
    records: Sequence[Record], question: Question, certificates: Mapping[str, CertificateStatus]
) -> Recommendation:
    """Rank the systems by what matters.

    Parameters
    ----------
    proofs
        By workload, whether its systems were shown to train the same network.
    """
    if question.objective == "fault tolerance":
        return _rank_by_fault_tolerance(records)
    timed = [record for record in records if record.ok and record.run.fault is None]
    own, caveats = _of_network(timed, question)
    for field, wanted, told in _CRITERIA:
        there = sorted({told(record) for record in own}, key=lambda value: (value is None, value))
        value = wanted(question)
        own = [record for record in own if value is None or told(record) == value]
        if not own and there:
            have = ", ".join("no limit" if each is None else f"{each:g}" for each in there)
            return _no_recommendation(f"no runs with {field} {value:g}; the records have {have}")
    if not own:
        return _no_recommendation(caveats[0] if caveats else "there are no records")
    return _ranked(_largest_comparable_group(own), question.objective, certificates, tuple(caveats))


_Criterion = tuple[str, Callable[[Question], float | None], Callable[[Record], float | None]]

#: What else is asked, with the question's side and the record's.
_CRITERIA: tuple[_Criterion, ...] = (
    ("workers", lambda asked: asked.workers, lambda record: record.run.topology.workers),
    ("threads", lambda asked: asked.threads, lambda record: record.run.topology.threads),
    (
        "a link of Mbit/s",
        lambda asked: asked.rate_mbit,
        lambda record: record.run.topology.link.rate_mbit,
    ),
)


def _no_recommendation(reason: str) -> Recommendation:
    return Recommendation(
        pd.DataFrame(), "", "", (f"The records do not reach that far: {reason}.",)
    )


def _of_network(records: Sequence[Record], question: Question) -> tuple[list[Record], list[str]]:
    """Pick the records of a network, or of the one nearest in size."""
    names = sorted({record.run.workload.network for record in records})
    if question.network:
        own = [r for r in records if r.run.workload.network == question.network]
        told = f"no runs of the network {question.network}; the records have {', '.join(names)}"
        return own, [] if own else [told if names else "there are no records"]
    sizes = {r.run.workload.network: float(r.result.parameters or nan) for r in records}
    factors = {n: max(s, question.weights) / min(s, question.weights) for n, s in sizes.items()}
    near = min(factors, key=lambda name: factors[name], default=None)
    if near is None:
        return [], ["there are no records"]
    said = f"{near} with {sizes[near]:,.0f} weights"
    if not factors[near] <= MAX_SIZE_RATIO:
        return [], [f"the nearest network is {said}, {factors[near]:,.0f} times off"]
    own = [record for record in records if record.run.workload.network == near]
    return own, [f"It is answered from {said}, the nearest in size."]


def _largest_comparable_group(records: Sequence[Record]) -> list[Record]:
    """Pick what can be compared: of all equal circumstances those with the most systems, then runs.

    A system with servers is there with as many of them as it has the most runs of.
    """
    groups: dict[tuple[object, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(_comparison_key(record.run), []).append(record)
    own = max(groups.values(), key=lambda own: (len(systems_of(own)), len(own)))
    return [
        each for system in systems_of(own) for each in _one_topology(records_of_system(own, system))
    ]


def _comparison_key(run: Run) -> tuple[object, ...]:
    """Tell what systems have in common when they are compared; servers belong to the system."""
    common = run.topology.model_copy(update={"servers": 0, "placement": "colocated"})
    return run.experiment, run.workload_name, common, run.global_batch, run.input


def _one_topology(own: list[Record]) -> list[Record]:
    counts = Counter(record.run.topology for record in own)
    (topology, _), *_ = counts.most_common(1)
    return [record for record in own if record.run.topology == topology]


def _ranked(
    own: list[Record],
    objective: Objective,
    certificates: Mapping[str, CertificateStatus],
    caveats: tuple[str, ...],
) -> Recommendation:
    run = own[0].run
    proof = certificates.get(run.workload_name, NO_CERTIFICATE_GIVEN)
    table, unit = _RANKINGS[objective](own)
    table["runs"] = [len(records_of_system(own, system)) for system in table["system"]]
    table["versus_best"] = ""
    table["explanation"] = ""
    if objective == "throughput":
        table["versus_best"] = _comparison_with_best(own, list(table["system"]), proof)
        table["explanation"] = _explanations(own, list(table["system"]))
    unproven = {comparability(record, proof) for record in own} - {"verified"}
    more = [f"Some of it is {sorted(unproven)[0]}."] if unproven else []
    if table["runs"].max() < 3:
        more.append("With fewer than three runs of a system nothing is certain.")
    if any(record.result.disturbed for record in own):
        more.append("Some runs were disturbed by other programs.")
    basis = (
        f"{len(own)} runs of the experiment {run.experiment} on {run.workload_name}: "
        f"{run.topology.workers} workers, batch {run.global_batch} together"
    )
    if run.topology.is_emulated:
        basis += f", on emulated hosts ({resources_label(run)})"
    return Recommendation(table.reset_index(drop=True), unit, basis, (*caveats, *more))


def _by_throughput(own: list[Record]) -> tuple[pd.DataFrame, str]:
    table = throughput_by_system(own).rename(columns={"examples_per_s": "value"})
    table = table.sort_values("value", ascending=False)
    return table[["system", "value", "low", "high"]], "examples/s"


def _by_time_to_loss(own: list[Record]) -> tuple[pd.DataFrame, str]:
    table = time_to_loss(own).sort_values("time_s", na_position="last")
    names = {"time_s": "value", "time_low_s": "low", "time_high_s": "high"}
    return table.rename(columns=names)[["system", "value", "low", "high"]], "s to the loss"


def _by_memory(own: list[Record]) -> tuple[pd.DataFrame, str]:
    rows = []
    for system in systems_of(own):
        totals = [resource_totals(record) for record in records_of_system(own, system)]
        found = [float(t.loc[t["name"] == TOTAL, "memory_max"].max()) for t in totals if len(t)]
        estimate = median_interval(found)
        rows.append((system, estimate.value, estimate.low, estimate.high))
    table = pd.DataFrame(rows, columns=["system", "value", "low", "high"])
    return table.sort_values("value", na_position="last"), "MiB together"


_RANKINGS: dict[str, Callable[[list[Record]], tuple[pd.DataFrame, str]]] = {
    "throughput": _by_throughput,
    "time to loss": _by_time_to_loss,
    "memory": _by_memory,
}


def _comparison_with_best(
    own: list[Record], systems: list[str], certificate: CertificateStatus
) -> list[str]:
    """Tell how each system stands to the best: the verdict on the pair, with its interval."""
    best = systems[0]
    rows = {
        (row["a"], row["b"]): row for row in pairwise_verdicts(own, certificate).to_dict("records")
    }
    told = ["the best"]
    for system in systems[1:]:
        row = rows.get((best, system)) or rows.get((system, best))
        if row is None:
            told.append("not compared")
            continue
        flip = row["a"] != best
        ends = [row["ratio_low"], row["ratio_high"]]
        low, high = (1 / ends[1], 1 / ends[0]) if flip else ends
        outcome = str(row["outcome"])
        settled = outcome if outcome in ("equal", "not settled", "not comparable") else "slower"
        told.append(f"{settled}: by {low:.2f} to {high:.2f}" if low == low else settled)  # noqa: PLR0124
    return told


def _explanations(own: list[Record], systems: list[str]) -> list[str]:
    """Name the part of a step that makes most of the distance to the best."""
    means = phases(own).pivot(index="system", columns="phase", values="mean_s").fillna(0.0)
    best = means.loc[systems[0]]
    told = [""]
    for system in systems[1:]:
        more = means.loc[system] - best
        part = str(more.idxmax())
        much_s = float(more.to_numpy().max())
        told.append(f"{part} takes {much_s * 1e3:.1f} ms more" if much_s > 0 else "")
    return told


def _rank_by_fault_tolerance(records: Sequence[Record]) -> Recommendation:
    """Rank the systems by what becomes of the training when a worker is killed."""
    lost = [r for r in records if r.run.fault is not None and r.run.fault.kind == "kill"]
    lost = [r for r in lost if r.run.fault is not None and r.run.fault.target == "worker"]
    if not lost:
        return _no_recommendation(
            "no run in which a worker was killed; the profile faults makes some"
        )
    table = fault_outcomes(lost)
    table["place"] = table["outcome"].map({end: place for place, end in enumerate(_OUTCOME_ORDER)})
    table = table.sort_values(["place", "detected_after_s"], kind="stable", ignore_index=True)
    ranking = pd.DataFrame(
        {
            "system": table["system"],
            "value": table["steps"].astype(float),
            "low": nan,
            "high": nan,
            "versus_best": table["outcome"],
            "explanation": table["first_error"],
            "runs": 1,
        }
    )
    basis = f"{len(lost)} runs in which a worker was killed on the way"
    caveats = ("Nothing is arranged to survive: what is seen is what a framework does by itself.",)
    return Recommendation(ranking, "steps made in the end", basis, caveats)

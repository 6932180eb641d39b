"""Which system to take: a ranking from the records that come closest to a question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Literal, get_args

import pandas as pd

from horizont.analysis.frames import means_of, of_system, systems_of
from horizont.analysis.goal import time_to_loss
from horizont.analysis.incidents import incidents
from horizont.analysis.phases import phases
from horizont.analysis.resources import WHOLE, resource_totals
from horizont.analysis.runs import NO_PROOF, ProofStatus, comparable
from horizont.analysis.throughput import throughput
from horizont.analysis.verdicts import verdicts
from horizont.errors import UserError
from horizont.records import Record
from horizont.spec import Run
from horizont.stats import median_interval

Wish = Literal["throughput", "time to loss", "memory", "survival"]
WISHES: tuple[Wish, ...] = get_args(Wish)

#: A network is answered for by another one up to this many times larger or smaller.
NEAR = 3.0

#: Outcomes of a lost worker, the best first.
_ENDS = ("goes on", "ends", "hangs")


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
    wish: Wish = "throughput"

    def __post_init__(self) -> None:
        if self.wish not in WISHES:
            raise UserError("what matters", self.wish, WISHES)
        if bool(self.network) == (self.weights > 0):
            raise UserError("network", self.network or None, "a name, or a number of weights")
        for field in ("workers", "threads"):
            if getattr(self, field) < 1:
                raise UserError(field, getattr(self, field), "a number from 1 up")


@dataclass(frozen=True)
class Advice:
    """What the records say.

    Attributes
    ----------
    ranking
        The best first: ``system``, ``value`` with ``low`` and ``high``, ``beside`` (how it stands
        to the best), ``why``, ``runs``. Empty if the records do not reach that far.
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


def advise(
    records: Sequence[Record], question: Question, proofs: Mapping[str, ProofStatus]
) -> Advice:
    """Rank the systems by what matters.

    Parameters
    ----------
    proofs
        By workload, whether its systems were shown to train the same network.
    """
    if question.wish == "survival":
        return _survival(records)
    timed = [record for record in records if record.ok and record.run.incident is None]
    own, caveats = _of_network(timed, question)
    for field, wanted, told in _ASKED:
        there = sorted({told(record) for record in own}, key=lambda value: (value is None, value))
        value = wanted(question)
        own = [record for record in own if value is None or told(record) == value]
        if not own and there:
            have = ", ".join("no limit" if each is None else f"{each:g}" for each in there)
            return _nothing(f"no runs with {field} {value:g}; the records have {have}")
    if not own:
        return _nothing(caveats[0] if caveats else "there are no records")
    return _ranked(_fullest(own), question.wish, proofs, tuple(caveats))


_Field = tuple[str, Callable[[Question], float | None], Callable[[Record], float | None]]

#: What else is asked, with the question's side and the record's.
_ASKED: tuple[_Field, ...] = (
    ("workers", lambda asked: asked.workers, lambda record: record.run.topology.workers),
    ("threads", lambda asked: asked.threads, lambda record: record.run.topology.threads),
    (
        "a link of Mbit/s",
        lambda asked: asked.rate_mbit,
        lambda record: record.run.topology.link.rate_mbit,
    ),
)


def _nothing(reason: str) -> Advice:
    return Advice(pd.DataFrame(), "", "", (f"The records do not reach that far: {reason}.",))


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
    if not factors[near] <= NEAR:
        return [], [f"the nearest network is {said}, {factors[near]:,.0f} times off"]
    own = [record for record in records if record.run.workload.network == near]
    return own, [f"It is answered from {said}, the nearest in size."]


def _fullest(records: Sequence[Record]) -> list[Record]:
    """Pick what can be compared: of all equal circumstances those with the most systems, then runs.

    A system with servers is there with as many of them as it has the most runs of.
    """
    groups: dict[tuple[object, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(_circumstances(record.run), []).append(record)
    own = max(groups.values(), key=lambda own: (len(systems_of(own)), len(own)))
    return [each for system in systems_of(own) for each in _one_topology(of_system(own, system))]


def _circumstances(run: Run) -> tuple[object, ...]:
    """Tell what systems have in common when they are compared; servers belong to the system."""
    common = run.topology.model_copy(update={"servers": 0, "placement": "together"})
    return run.experiment, run.workload_name, common, run.global_batch, run.input


def _one_topology(own: list[Record]) -> list[Record]:
    counts = Counter(record.run.topology for record in own)
    (topology, _), *_ = counts.most_common(1)
    return [record for record in own if record.run.topology == topology]


def _ranked(
    own: list[Record], wish: Wish, proofs: Mapping[str, ProofStatus], caveats: tuple[str, ...]
) -> Advice:
    run = own[0].run
    proof = proofs.get(run.workload_name, NO_PROOF)
    table, unit = _RANKINGS[wish](own)
    table["runs"] = [len(of_system(own, system)) for system in table["system"]]
    table["beside"] = ""
    table["why"] = ""
    if wish == "throughput":
        table["beside"] = _beside(own, list(table["system"]), proof)
        table["why"] = _why(own, list(table["system"]))
    unproven = {comparable(record, proof) for record in own} - {"proven"}
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
        basis += f", on emulated hosts ({means_of(run)})"
    return Advice(table.reset_index(drop=True), unit, basis, (*caveats, *more))


def _by_rate(own: list[Record]) -> tuple[pd.DataFrame, str]:
    table = throughput(own).rename(columns={"examples_per_s": "value"})
    table = table.sort_values("value", ascending=False)
    return table[["system", "value", "low", "high"]], "examples/s"


def _by_time(own: list[Record]) -> tuple[pd.DataFrame, str]:
    table = time_to_loss(own).sort_values("time_s", na_position="last")
    names = {"time_s": "value", "time_low_s": "low", "time_high_s": "high"}
    return table.rename(columns=names)[["system", "value", "low", "high"]], "s to the loss"


def _by_memory(own: list[Record]) -> tuple[pd.DataFrame, str]:
    rows = []
    for system in systems_of(own):
        totals = [resource_totals(record) for record in of_system(own, system)]
        found = [float(t.loc[t["name"] == WHOLE, "memory_max"].max()) for t in totals if len(t)]
        estimate = median_interval(found)
        rows.append((system, estimate.value, estimate.low, estimate.high))
    table = pd.DataFrame(rows, columns=["system", "value", "low", "high"])
    return table.sort_values("value", na_position="last"), "MiB together"


_RANKINGS: dict[str, Callable[[list[Record]], tuple[pd.DataFrame, str]]] = {
    "throughput": _by_rate,
    "time to loss": _by_time,
    "memory": _by_memory,
}


def _beside(own: list[Record], systems: list[str], proof: ProofStatus) -> list[str]:
    """Tell how each system stands to the best: the verdict on the pair, with its interval."""
    best = systems[0]
    rows = {(row["a"], row["b"]): row for row in verdicts(own, proof).to_dict("records")}
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


def _why(own: list[Record], systems: list[str]) -> list[str]:
    """Name the part of a step that makes most of the distance to the best."""
    means = phases(own).pivot(index="system", columns="part", values="mean_s").fillna(0.0)
    best = means.loc[systems[0]]
    told = [""]
    for system in systems[1:]:
        more = means.loc[system] - best
        part = str(more.idxmax())
        much_s = float(more.to_numpy().max())
        told.append(f"{part} takes {much_s * 1e3:.1f} ms more" if much_s > 0 else "")
    return told


def _survival(records: Sequence[Record]) -> Advice:
    """Rank the systems by what becomes of the training when a worker is killed."""
    lost = [r for r in records if r.run.incident is not None and r.run.incident.kind == "killed"]
    lost = [r for r in lost if r.run.incident is not None and r.run.incident.role == "worker"]
    if not lost:
        return _nothing("no run in which a worker was killed; the profile incidents makes some")
    table = incidents(lost)
    table["place"] = table["outcome"].map({end: place for place, end in enumerate(_ENDS)})
    table = table.sort_values(["place", "noticed_s"], kind="stable", ignore_index=True)
    ranking = pd.DataFrame(
        {
            "system": table["system"],
            "value": table["steps"].astype(float),
            "low": nan,
            "high": nan,
            "beside": table["outcome"],
            "why": table["how"],
            "runs": 1,
        }
    )
    basis = f"{len(lost)} runs in which a worker was killed on the way"
    caveats = ("Nothing is arranged to survive: what is seen is what a framework does by itself.",)
    return Advice(ranking, "steps made in the end", basis, caveats)

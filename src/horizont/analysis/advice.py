"""Recommendation of a system, from the records nearest to a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isinf, isnan, nan
from operator import attrgetter, itemgetter
from statistics import mode
from typing import Any, Literal, get_args

import pandas as pd

from horizont.analysis.drilldown import LOCAL, Drilldown, drill_down
from horizont.analysis.faults import OUTCOMES, fault_outcomes, kills_worker
from horizont.analysis.learning import time_to_loss
from horizont.analysis.resources import peak_memory_mib
from horizont.analysis.runs import (
    NO_CERTIFICATE_GIVEN,
    CertificateStatus,
    by_system,
    comparability,
    group_by,
    resources_label,
    trained,
)
from horizont.analysis.steps import GROUP_SEPARATOR, means_by_run
from horizont.analysis.throughput import throughput_by_system
from horizont.analysis.verdicts import comparison_key, pairs, pairwise_verdicts
from horizont.config.system import GradientExchange
from horizont.errors import UserError
from horizont.records.record import Record
from horizont.statistics.intervals import median_interval
from horizont.wording import DISTURBED, counted

Objective = Literal["throughput", "time to loss", "memory", "fault tolerance"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)

#: Another network stands in for the one in question up to this ratio of their sizes.
MAX_SIZE_RATIO = 3.0


@dataclass(frozen=True)
class Question:
    """A planned training and the objective to choose a system by.

    Attributes
    ----------
    network
        By name, or by `weights`, its number of trainable parameters.
    rate_mbit
        Link rate of each host; None for any.
    """

    network: str = ""
    weights: float = nan
    workers: int = 1
    threads: int = 1
    rate_mbit: float | None = None
    objective: Objective = "throughput"

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise UserError("objective", self.objective, OBJECTIVES)
        if self.weights <= 0 or isinf(self.weights):
            raise UserError("weights", self.weights, "a number above 0 that is not infinite")
        if bool(self.network) == (self.weights > 0):
            raise UserError("network", self.network, "either a name or a number of weights")
        if self.rate_mbit is not None and not 0 < self.rate_mbit < inf:
            raise UserError("link", self.rate_mbit, "a rate above 0 Mbit/s")
        for field in ("workers", "threads"):
            if getattr(self, field) < 1:
                raise UserError(field, getattr(self, field), "a number of at least 1")


@dataclass(frozen=True)
class Recommendation:
    """A ranking of systems and what it is based on.

    Attributes
    ----------
    ranking
        The best first: ``system``, ``value`` with ``low`` and ``high``, ``versus_best`` (the
        verdict against the best, or the outcome of faults), ``explanation``, ``runs``. Empty if no
        records apply.
    unit
        Of the values.
    basis
        The runs it is based on, in a sentence.
    caveats
        The limits of the answer, in sentences.
    comparison
        What ``versus_best`` shows.
    is_comparable
        Whether the values of all systems may be compared.
    """

    ranking: pd.DataFrame
    unit: str
    basis: str
    caveats: tuple[str, ...] = ()
    comparison: str = "versus the best"
    is_comparable: bool = True


def recommend(
    records: Sequence[Record], question: Question, certificates: Mapping[str, CertificateStatus]
) -> Recommendation:
    """Rank the systems by the objective of a question, with the certificates by workload."""
    if question.objective == "fault tolerance":
        return _rank_by_fault_tolerance(records)
    measured = trained(records)
    # Runs that train or are timed in another way answer only where there are no others.
    usual = [record for record in measured if _is_usual(record)]
    selected, note = _select_network(usual or measured, question)
    for form, value, attribute in (
        ("{:g} workers", question.workers, "workers"),
        ("{:g} threads", question.threads, "threads"),
        ("a link of {:g} Mbit/s", question.rate_mbit, "link.rate_mbit"),
    ):
        value_of = attrgetter(f"run.topology.{attribute}")
        available = sorted(set(map(value_of, selected)), key=lambda v: (v is None, v))
        selected = [r for r in selected if value is None or value_of(r) == value]
        if available and not selected:
            texts = ["no limit" if other is None else f"{other:g}" for other in available]
            reason = f"no runs with {form.format(value)}; the records have {', '.join(texts)}"
            return _no_recommendation(reason)
    if not selected:
        return _no_recommendation(note)
    caveats = (note,) if note else ()
    return _ranked(largest_comparable_group(selected), question.objective, certificates, caveats)


def _is_usual(record: Record) -> bool:
    run = record.run
    return run.record_updates == "none" and run.gradient_exchange == GradientExchange()


def _no_recommendation(reason: str) -> Recommendation:
    return Recommendation(pd.DataFrame(), "", "", (f"No records apply: {reason}.",))


def _select_network(records: Sequence[Record], question: Question) -> tuple[list[Record], str]:
    """Select the records of a network or of the one nearest in size, with a note on the choice."""
    if not records:
        return [], "there are no records"
    sizes = {r.run.workload.network: float(r.result.parameters or nan) for r in records}
    if question.network:
        network = question.network
        note = f"no runs of the network {network}; the records have {', '.join(sorted(sizes))}"
        note = "" if network in sizes else note
    else:
        ratios = {n: max(s, question.weights) / min(s, question.weights) for n, s in sizes.items()}
        network = min(ratios, key=lambda name: ratios[name])
        label = f"{network} with {sizes[network]:,.0f} weights"
        if not ratios[network] <= MAX_SIZE_RATIO:
            return [], f"the nearest network is {label}, {ratios[network]:,.0f} times off"
        note = f"The answer is based on {label}, the nearest in size."
    return [record for record in records if record.run.workload.network == network], note


def largest_comparable_group(records: Sequence[Record]) -> list[Record]:
    """Select the group of equal conditions that has the most systems, then the most runs.

    A system with servers is represented by the number of servers that has the most runs.
    """
    groups = group_by(records, lambda record: (comparison_key(record), record.run.input))
    candidates = [by_system(group) for group in groups.values()]
    largest = max(candidates, key=lambda runs_of: (len(runs_of), sum(map(len, runs_of.values()))))
    selected = []
    for runs in largest.values():
        commonest = mode(record.run.topology.model_dump_json() for record in runs)
        selected += [r for r in runs if r.run.topology.model_dump_json() == commonest]
    return selected


def _ranked(
    records: list[Record],
    objective: Objective,
    certificates: Mapping[str, CertificateStatus],
    caveats: tuple[str, ...],
) -> Recommendation:
    run = records[0].run
    certificate = certificates.get(run.workload_name, NO_CERTIFICATE_GIVEN)
    compute, columns, unit = _RANKINGS[objective]
    table = compute(records).rename(columns=dict(zip(columns, _VALUE_COLUMNS, strict=True)))
    needed = "a loss" if objective == "time to loss" else "a sample"
    if table.empty or table["value"].isna().all():
        reason = f"the runs on {run.workload_name} have too few steps for {needed}"
        return _no_recommendation(reason)
    too_short = list(table.loc[table["value"].isna(), "system"])
    table = table.dropna(subset="value")
    table = table.sort_values("value", ascending=objective != "throughput")
    table = table[["system", *_VALUE_COLUMNS]]
    systems = list(table["system"])
    runs_of = by_system(records)
    is_throughput = objective == "throughput"
    verdicts = pairwise_verdicts(records, certificate).to_dict("records") if is_throughput else []
    table = table.assign(
        runs=[len(runs_of[system]) for system in systems],
        versus_best=_comparison_with_best(verdicts, systems) if is_throughput else "",
        explanation=_explanations(records, verdicts, systems) if is_throughput else "",
    )
    unverified = {comparability(record, certificate) for record in records} - {"verified"}
    notes = [f"Part of it is {min(unverified)}."] if unverified else []
    if too_short:
        notes.append(f"Too few steps for {needed}: {', '.join(too_short)}.")
    if table["runs"].max() < 3:
        notes.append("With fewer than three runs per system no difference is significant.")
    if any(record.result.disturbed for record in records):
        notes.append(f"Some runs were {DISTURBED}.")
    basis = (
        f"{counted(len(records), 'run')} of the experiment {run.experiment} "
        f"on {run.workload_name}: {counted(run.topology.workers, 'worker')}, "
        f"global batch {run.global_batch}"
    )
    if records[0].has("byte_counters"):
        basis += f", on {run.topology.launcher} hosts ({resources_label(run)})"
    ranking = table.reset_index(drop=True)
    return Recommendation(
        ranking, unit, basis, (*caveats, *notes), is_comparable=not is_throughput or not unverified
    )


def _peak_memory(records: Sequence[Record]) -> pd.DataFrame:
    """Estimate the peak memory of all processes of each system, in MiB."""
    return pd.DataFrame(
        {
            "system": system,
            **median_interval([*map(peak_memory_mib, runs)]).columns(*_VALUE_COLUMNS),
        }
        for system, runs in by_system(records).items()
    )


_VALUE_COLUMNS = ("value", "low", "high")

#: Objective -> its table by system, the columns of value and interval, the unit.
_RANKINGS: dict[
    str, tuple[Callable[[Sequence[Record]], pd.DataFrame], tuple[str, str, str], str]
] = {
    "throughput": (throughput_by_system, ("examples_per_s", "low", "high"), "examples/s"),
    "time to loss": (time_to_loss, ("time_s", "time_low_s", "time_high_s"), "s to the loss"),
    "memory": (_peak_memory, _VALUE_COLUMNS, "MiB in total"),
}


def _comparison_with_best(verdicts: list[dict[Any, Any]], systems: list[str]) -> list[str]:
    """Return the verdict of each system against the best, with its 95 % interval.

    If there is none, with the number of further blocks that would give one.
    """
    best = systems[0]
    texts = {best: "the best"}
    for row in verdicts:
        a, b, low, high = row["a"], row["b"], row["low_95"], row["high_95"]
        if best not in (a, b):
            continue
        interval = f"{low:.2f} to {high:.2f}" if a == best else f"{1 / high:.2f} to {1 / low:.2f}"
        text = "slower" if row["outcome"].endswith(" faster") else row["outcome"]
        if not isnan(more := row["additional_blocks"]):
            text += f" without {counted(int(more), 'more block')}"
        texts[b if a == best else a] = text if isnan(low) else f"{text}, factor {interval}"
    return [texts.get(system, "not compared") for system in systems]


def _explanations(
    records: list[Record], verdicts: list[dict[Any, Any]], systems: list[str]
) -> list[str]:
    """Return for each slower system the part of its step that accounts for the difference."""
    decided = (row for row in verdicts if row["outcome"].endswith(" faster"))
    slower = {frozenset((row["a"], row["b"])) for row in decided}
    best, texts = systems[0], {}
    run_means = means_by_run(records)
    for pair in pairs(records):
        names = {pair.a, pair.b}
        if best not in names or names not in slower:
            continue
        (other,) = names - {best}
        texts[other] = _largest_part(drill_down(pair, run_means))
    return [texts.get(system, "") for system in systems]


def _largest_part(drilldown: Drilldown) -> str:
    """Return the phase, or all local work, with most of a difference; if none has, why not."""
    if not drilldown.path or drilldown.step is None:
        return drilldown.stop_reason
    cause = drilldown.path[-1]
    part_ms, step_ms = (abs(each.difference_s) * 1e3 for each in (cause, drilldown.step))
    name = "local work" if cause.part == LOCAL else cause.part.replace(GROUP_SEPARATOR, " and ")
    return f"{name} takes {part_ms:.1f} ms more, the instrumented step {step_ms:.1f} ms"


def _rank_by_fault_tolerance(records: Sequence[Record]) -> Recommendation:
    """Rank the systems by the outcomes of trainings in which a worker is killed."""
    killed = [record for record in records if kills_worker(record.run)]
    outcomes = fault_outcomes(killed)
    if "outcome" not in outcomes:  # no runs, or none with a report
        return _no_recommendation("no run in which a worker was killed; use the profile faults")
    outcomes["outcome"] = pd.Categorical(outcomes["outcome"], OUTCOMES, ordered=True)
    outcomes = outcomes.dropna(subset="outcome")
    rows = [
        {
            "system": system,
            "value": runs["steps"].median(),
            "low": nan,
            "high": nan,
            "versus_best": _outcome_counts(runs["outcome"]),
            "explanation": runs.sort_values("outcome")["first_error"].iloc[-1],
            "runs": len(runs),
            "order": (runs["outcome"].cat.codes.mean(), runs["detected_after_s"].median()),
        }
        for system, runs in outcomes.groupby("system", sort=False)
    ]
    ranking = pd.DataFrame(sorted(rows, key=itemgetter("order"))).drop(columns="order")
    basis = f"{counted(len(outcomes), 'run')} in which a worker was killed during training"
    caveats = ("No recovery is configured: the outcome is the framework's default behaviour.",)
    return Recommendation(ranking, "steps completed", basis, caveats, "outcome")


def _outcome_counts(outcomes: pd.Series) -> str:
    """Return the outcome of several runs: `hangs in 2 of 3, aborts in 1 of 3`."""
    counts = outcomes.value_counts(sort=False)
    counts = counts[counts > 0]
    if len(counts) == 1:
        return str(counts.index[0])
    return ", ".join(f"{name} in {count} of {len(outcomes)}" for name, count in counts.items())

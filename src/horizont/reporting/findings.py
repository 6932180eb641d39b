"""What a page found, in a sentence or two: the first that a reader sees below its title."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isnan

import pandas as pd

from horizont.analysis.advice import largest_comparable_group
from horizont.analysis.answer import Answer, Cell, Verdict, cause_of, leader
from horizont.analysis.claims.learning_checks import LearningOutcome, learning_outcome
from horizont.analysis.claims.quantities import COMPARED_UPDATES, measure
from horizont.analysis.communication import staleness
from horizont.analysis.faults import continued, fault_outcomes
from horizont.analysis.input import input_pipelines
from horizont.analysis.learning import are_about_learning
from horizont.analysis.loss_curves import instability
from horizont.analysis.operators import OUTSIDE_OPERATORS, operator_classes
from horizont.analysis.resources import peak_memory_mib
from horizont.analysis.runs import CertificateStatus, by_system, successful, trained
from horizont.analysis.scaling import is_sweep_over_threads, thread_speedup
from horizont.analysis.throughput import throughput_by_system
from horizont.analysis.verdicts import NOT_COMPARABLE, pairwise_verdicts
from horizont.errors import UserError
from horizont.records.record import Record
from horizont.reporting import labels
from horizont.reporting.answer import cause_sentence, clear_leads
from horizont.reporting.tables import format_number, rate_format
from horizont.statistics.comparison import MARGIN
from horizont.statistics.intervals import LEVEL, attainable_level, median
from horizont.wording import counted

NOTHING = "No run has succeeded."

_UNCERTIFIED = "Without a valid certificate of equivalence no system is compared with another."

#: What one training does, and what several do.
_LEARNING_VERBS: dict[LearningOutcome, tuple[str, str]] = {
    "learned": ("learns", "learn"),
    "lost": ("learns and loses it again", "learn and lose it again"),
    "failed": ("does not learn", "do not learn"),
}


#: An experiment with so many systems names their number: it may repeat the fastest of another one.
_FEW_SYSTEMS = 3


def finding(kind: str, records: Sequence[Record], certificate: CertificateStatus) -> str:
    """Return what the page of a kind of experiment, or a view of one, found.

    It is empty for another kind, and where the servers were varied so that no systems are paired.
    """
    if kind == "faults":  # its runs are meant to fail
        return _faults(records)
    if not successful(records):
        return NOTHING
    try:
        return _FINDINGS[kind](records, certificate) if kind in _FINDINGS else ""
    except UserError:
        return ""


def _training(records: Sequence[Record], certificate: CertificateStatus) -> str:
    """Name the fastest system and its lead, and the cause if the lead is clear.

    Of a training that is unstable in every framework, say so: no certificate settles that.
    """
    group = largest_comparable_group(trained(records))
    cell = leader(group, certificate)
    names = labels.short_labels([*by_system(group)])
    # The page of another experiment may compare more systems on the same workload.
    few = f" {counted(len(names), 'system')} were measured here."
    text = _lead(cell, names) + (few if 1 < len(names) <= _FEW_SYSTEMS else "")
    if unstable := instability(group):
        return f"{unstable_sentence(unstable)} {text}"
    if cell.verdict == "not comparable":
        text = f"{_UNCERTIFIED} {text}"
    if cell.excluded:
        excluded = " and ".join(names[system] for system in cell.excluded)
        text += f" Without a valid certificate and not compared: {excluded}."
    if cell.verdict == "clear":
        answer = Answer(records[0].run.workload_name, {}, cause_of(cell))
        text += f" {cause_sentence(answer)}"
    return text


def unstable_sentence(shown: str) -> str:
    """Return the sentence on an unstable training, and what makes it stable.

    What its losses show is the result of :func:`horizont.analysis.loss_curves.instability`.
    """
    remedy = "a smaller optimizer.learning_rate, or optimizer.clip_norm, prevents that"
    return f"The training is unstable, {shown}; {remedy}."


def _lead(cell: Cell, names: Mapping[str, str]) -> str:
    if not cell.winner:
        return NOTHING
    if not cell.runner_up:
        return f"Only {labels.system_label_in_text(cell.winner)} was measured."
    first, second = names[cell.winner], names[cell.runner_up]
    factor = f"{cell.ratio:.2f}"
    if not isnan(cell.low):
        blocks = len({record.run.block for record in cell.records})
        # Of more blocks it is the median, as in the table of verdicts.
        of_blocks = f", the mean of {blocks} blocks" if attainable_level(blocks) < LEVEL else ""
        factor += f" ({cell.low:.2f} to {cell.high:.2f}{of_blocks})"
    if cell.verdict == "clear":
        return f"{first} trains fastest, by a factor of {factor} before {second}."
    if cell.verdict == "equal":
        both = f"{first} and {second} are equally fast, within {MARGIN:.0%}"
        return f"No system is the fastest: {both}, with a ratio of {factor}."
    if cell.verdict == "not settled":
        lead = f"{first} is ahead of {second} by a factor of {factor}"
        if f"{cell.ratio:.2f}" == "1.00":
            lead = f"the ratio of {first} and {second} is {factor}"
        return f"No system is clearly the fastest: {lead}."
    return f"{first} had the highest throughput, {factor} times that of {second}."


def _sweep(records: Sequence[Record], certificate: CertificateStatus) -> str:
    """Count the points at which a system leads; of one system, give the ends of its range.

    Of runs whose updates were recorded, which takes time, give the staleness of the updates; of
    runs with a seed for each block and without samples, what was learned.
    """
    if are_about_learning(records) and (text := _learning(successful(records))):
        return text
    if all(record.run.record_updates != "none" for record in records):
        return _staleness(records)
    points = labels.records_by_point(successful(records))
    if len(by_system(records)) == 1:
        return _range_of_one_system(points)
    cells = [leader(own, certificate) for own in points.values() if len(by_system(own)) > 1]
    verdicts = Counter(cell.verdict for cell in cells)
    texts: dict[Verdict, str] = {
        "equal": f"the two fastest are equal within {MARGIN:.0%}",
        "not settled": "it is not settled",
        "not comparable": "the fastest are not comparable",
    }
    rest = [
        f"at {verdicts[verdict]} {text}" for verdict, text in texts.items() if verdicts[verdict]
    ]
    names = labels.short_labels([*by_system(records)])
    found = clear_leads(cells, names.__getitem__, "at", "setting")
    if not found:
        none = f"At none of {len(cells)} settings is a system clearly faster than the next"
        return f"{none}: {', '.join(rest)}.{_thread_speedup(records, names)}"
    return f"{'; '.join([found, *rest])}.{_thread_speedup(records, names)}"


def _learning(records: Sequence[Record]) -> str:
    """Count the trainings that learn; without accuracies, give losses after the same updates.

    Empty if a run has neither.
    """
    names = labels.short_labels([*by_system(records)])
    if any(isnan(measure(record, "best_accuracy")) for record in records):
        return _losses(records, names)
    outcomes = Counter(learning_outcome(partial(measure, record)) for record in records)
    counts = [f"{n} {_LEARNING_VERBS[outcome][n > 1]}" for outcome, n in outcomes.items()]
    found = f"Of {counted(len(records), 'training')}, {', '.join(counts)}"
    if len(records) > 1 and len(outcomes) == 1:
        found = f"All {len(records)} trainings {_LEARNING_VERBS[next(iter(outcomes))][1]}"
    ranges = []
    for system, runs in by_system(records).items():
        final = [measure(run, "final_accuracy") for run in runs]
        ends = dict.fromkeys(f"{end:.0%}" for end in (min(final), max(final)))
        ranges.append(f"{' to '.join(ends)} with {names[system]}")
    return f"{found}. The final test accuracy is {', '.join(ranges)}."


def _losses(records: Sequence[Record], names: Mapping[str, str]) -> str:
    """Return a sentence; empty if the losses are of several points, or of fewer updates."""
    losses = {
        names[system]: median([measure(run, "loss_at_100_updates") for run in runs])
        for system, runs in by_system(records).items()
    }
    if len(labels.records_by_point(records)) > 1 or any(map(isnan, losses.values())):
        return ""
    found = ", ".join(f"{loss:.3f} with {name}" for name, loss in losses.items())
    return f"After {COMPARED_UPDATES} updates the training loss is {found}."


def _thread_speedup(records: Sequence[Record], names: Mapping[str, str]) -> str:
    """Return a sentence on the largest number of threads, if nothing but threads was varied."""
    if not is_sweep_over_threads(records):
        return ""
    speedups = thread_speedup(records).dropna(subset="speedup")
    if speedups.empty:
        return ""
    most = speedups[speedups["threads"] == speedups["threads"].max()].sort_values("speedup")
    ends = (
        f"{row['speedup']:.2f} ({names[row['system']]})"
        for row in most.iloc[[0, -1]].to_dict("records")
    )
    threads, fewest = most[["threads", "fewest"]].iloc[0]
    return f" The speedup with {threads} threads instead of {fewest} is {' to '.join(ends)}."


def _staleness(records: Sequence[Record]) -> str:
    counts = staleness(successful(records))
    counts["mean"] = counts["staleness"] * counts["fraction"]
    names = labels.short_labels([*dict.fromkeys(counts["system"])])
    found = []
    for system, name in names.items():
        means = counts[counts["system"] == system].groupby("workers")["mean"].sum()
        sizes = ", ".join(
            f"{mean:.1f} with {counted(size, 'worker')}"
            for size, mean in zip(means.index.tolist(), means, strict=True)
        )
        found.append(f"for {name} {sizes}")
    return f"The mean staleness of an update is {'; '.join(found)}."


def _range_of_one_system(points: Mapping[str, Sequence[Record]]) -> str:
    rates = {
        point: float(throughput_by_system(own)["examples_per_s"].iloc[0])
        for point, own in points.items()
    }
    slowest, fastest = (choose(rates, key=rates.__getitem__) for choose in (min, max))
    (system,) = by_system([record for own in points.values() for record in own])
    form = rate_format(rates[fastest])
    least, most = (format_number(rates[point], form) for point in (slowest, fastest))
    name = labels.system_label_in_text(system)
    if slowest == fastest:
        return f"{name} processes {most} examples per second."
    return f"{name} processes from {least} ({slowest}) to {most} examples per second ({fastest})."


def _faults(records: Sequence[Record]) -> str:
    continues = continued(fault_outcomes(records))
    if continues.empty:
        return "No run with a fault has ended with a report."
    always = continues.groupby(level=0, sort=False).all()
    names = ", ".join(map(labels.system_label_in_text, always[always].index))
    text = f"Training continues in {continues.sum()} of {len(continues)} runs with a fault"
    return f"{text}: always with {names}." if names else f"{text}, with no system always."


def _input(records: Sequence[Record], _: CertificateStatus) -> str:
    table = input_pipelines(records).dropna(subset="wait_fraction")
    table = table[table["input"] != "memory"]
    if table.empty:
        return NOTHING
    table = table.sort_values("wait_fraction", kind="stable")
    least, most = (
        f"{row['wait_fraction']:.0%} of its time in "
        f"{labels.system_label_in_text(row['system'])}, {row['input']},"
        for row in (table.iloc[0], table.iloc[-1])
    )
    return f"A step waits for its batch from {least} to {most.rstrip(',')}."


def _operators(records: Sequence[Record], _: CertificateStatus) -> str:
    classes = operator_classes(records)
    if set(classes.get("operator_class", ())) <= {OUTSIDE_OPERATORS}:
        return "No profile was recorded."
    largest = classes.loc[classes.groupby("system", sort=False)["self_s"].idxmax()]
    groups: dict[str, list[str]] = {}
    for row in largest.to_dict("records"):
        text = f"{labels.single_process_label(str(row['system']))} {row['fraction']:.0%}"
        groups.setdefault(str(row["operator_class"]), []).append(text)
    found = " and ".join(f"{name} ({', '.join(systems)})" for name, systems in groups.items())
    return f"Of the time of a step, the largest fraction is in {found}."


def _resources(records: Sequence[Record], _: CertificateStatus) -> str:
    first = {system: runs[0] for system, runs in by_system(successful(records)).items()}
    memory = pd.Series({system: peak_memory_mib(record) for system, record in first.items()})
    memory = memory.dropna()
    if memory.empty:
        return "No resources were sampled."
    names = labels.short_labels([str(system) for system in memory.index])
    least, most = str(memory.idxmin()), str(memory.idxmax())
    if least == most:
        return f"All processes of {names[most]} together take up to {memory[most]:,.0f} MiB."
    return (
        f"All processes of a run together take up to {memory[least]:,.0f} MiB with {names[least]}, "
        f"and up to {memory[most]:,.0f} MiB with {names[most]}."
    )


def _verdicts(records: Sequence[Record], certificate: CertificateStatus) -> str:
    table = pairwise_verdicts(successful(records), certificate)
    if table.empty:
        return "There are no two systems to compare."
    counts = Counter(table["outcome"])
    counts["differ"] = counts.pop("A faster", 0) + counts.pop("B faster", 0)
    phrases = {
        "differ": ("differs clearly", "differ clearly"),
        "equal": ("is equally fast", "are equally fast"),
        "not settled": ("is not settled", "are not settled"),
        NOT_COMPARABLE: ("is not comparable", "are not comparable"),
    }
    if len(table) == 1:
        (name,) = +counts
        return f"The only pair of systems {phrases[name][0]}."
    found = [
        f"{counts[name]} {one if counts[name] == 1 else several}"
        for name, (one, several) in phrases.items()
        if counts[name]
    ]
    return f"Of {counted(len(table), 'pair')} of systems, {', '.join(found)}."


_FINDINGS: dict[str, Callable[[Sequence[Record], CertificateStatus], str]] = {
    "training": _training,
    "sweep": _sweep,
    "input": _input,
    "operators": _operators,
    "resources": _resources,
    "verdicts": _verdicts,
}

"""The results: of the study, of an experiment, of its runs, and after injected faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from horizont.analysis.faults import fault_outcomes
from horizont.analysis.runs import NO_CERTIFICATE_GIVEN, CertificateStatus, by_workload, run_table
from horizont.analysis.throughput import from_metrics, metrics
from horizont.config.study import Study
from horizont.records.record import Record
from horizont.records.results import UpdateHistory
from horizont.reporting import labels
from horizont.reporting.figures.phases import phase_panels
from horizont.reporting.output import Message, TableOutput
from horizont.reporting.page import workload_title
from horizont.reporting.registry import Drawing, figure, no_drawing, table
from horizont.reporting.tables import (
    format_interval,
    format_number,
    format_table,
    rate_format,
    text_table,
)
from horizont.wording import shorten

#: The title of an experiment and workload -> system -> `horizont.analysis.throughput.metrics`.
MetricsByTitle = Mapping[str, Mapping[str, Mapping[str, Any]]]

#: Panels of the first figure.
_MAX_PANELS = 4

_NUMBERS = {"examples/s", "interval", "of best", "runs"}
_RUN_COLUMNS = ["status", "comparable", "disturbed", "background_cpu", "wall_s", "final_loss"]
_RUN_COLUMNS += ["test_accuracy", "test_perplexity", "reason", "record"]


def step_metrics(
    study: Study,
    records: Sequence[Record],
    certificates: Mapping[str, CertificateStatus],
    sources: Mapping[str, str],
) -> MetricsByTitle:
    """Compute the metrics of experiments that compare systems at one point, for a few panels.

    `sources` has ``real`` or ``synthetic`` by data set.
    """
    training = [r for r in records if study.experiment(r.run.experiment).kind == "training"]
    groups = by_workload(training)
    if len(groups) > _MAX_PANELS:  # the first workloads of the experiment with the most runs
        ((largest, _),) = Counter(record.run.experiment for record in training).most_common(1)
        groups = {key: group for key, group in groups.items() if key[0] == largest}
    panels = {}
    for (experiment, name), group in list(groups.items())[:_MAX_PANELS]:
        workload = study.workload(name)
        title = workload_title(workload, sources.get(workload.dataset, "")).text
        certificate = certificates.get(name, NO_CERTIFICATE_GIVEN)
        panels[f"{title}: {study.experiment_title(experiment)}"] = metrics(group, certificate)
    return panels


@table("origin")
def origin_message(records: Sequence[Record], is_reference: bool) -> Message:
    """Build the sentence on the runs that the report is about."""
    if not records:
        return Message("No runs have a record yet.")
    experiments = len({record.run.experiment for record in records})
    plural = "s" if experiments > 1 else ""
    days = sorted(f"{datetime.fromtimestamp(r.start_time_s, tz=UTC):%Y-%m-%d}" for r in records)
    measured = " to ".join(dict.fromkeys([days[0], days[-1]]))
    runs = f"{len(records):,} runs of {experiments} experiment{plural}, measured {measured}"
    if not is_reference:
        return Message(f"From {runs}.")
    return Message(
        f"From the reference: {runs}, whose records are in reports/reference. The chapter Your run "
        "compares them with those of this folder."
    )


@figure("headline", title="Where the time goes")
def overview_figure(results: MetricsByTitle) -> Drawing:
    """One training step by phase.

    Bars: mean instrumented step of a worker. Markers: timed step, median over repeated runs with
    its interval; the gap between bar and marker is the instrumentation overhead.
    """
    if not results:
        return no_drawing("no experiment of this study compares the step times of systems")
    panels = {title: from_metrics(own) for title, own in results.items()}
    tables = [each.assign(panel=title) for title, pair in panels.items() for each in pair]
    return Drawing(phase_panels(panels), pd.concat(tables))


@table("speed", title="Throughput")
def speed_table(records: Sequence[Record], certificate: CertificateStatus) -> TableOutput:
    """Build the table of the systems of an experiment, ranked by throughput."""
    return text_table(_ranked_rows(records, certificate), _NUMBERS)


@table("sweep", title="Throughput by sweep point")
def sweep_table(records: Sequence[Record], certificate: CertificateStatus) -> TableOutput:
    """Build the table of the systems at each sweep point, ranked by throughput."""
    rows = [
        {"point": point, **row}
        for point, group in labels.records_by_point(records).items()
        for row in _ranked_rows(group, certificate)
    ]
    return text_table(rows, _NUMBERS, group_by="point")


def _ranked_rows(records: Sequence[Record], certificate: CertificateStatus) -> list[dict[str, str]]:
    by_system = metrics(records, certificate)
    rates = {name: own["examples_per_s"] or 0.0 for name, own in by_system.items()}
    verified = {name for name, own in by_system.items() if own["comparable"] == "verified"}
    # A system that may train another network is no measure for the others.
    competing = verified or set(rates)
    fastest = max((rates[name] for name in competing), default=0.0)
    form = rate_format(max(rates.values(), default=0.0))
    rows = []
    for system in sorted(rates, key=rates.__getitem__, reverse=True):
        own = by_system[system]
        is_verified = own["comparable"] == "verified"
        notes = [own["reason"], "" if is_verified else own["comparable"].partition(": ")[2]]
        rows.append(
            {
                "system": labels.system_label(system),
                "examples/s": format_number(own["examples_per_s"], form),
                "interval": format_interval(own["low"], own["high"], form, own["level"]),
                "of best": (
                    f"{rates[system] / fastest:.0%}"
                    if rates[system] and system in competing
                    else "–"
                ),
                "runs": f"{own['ok']} of {own['planned']}",
                "comparable": "yes" if is_verified else "no",
                "note": shorten("; ".join(filter(None, notes))),
            }
        )
    return rows


@table("runs", title="All runs")
def all_runs(records: Sequence[Record], certificate: CertificateStatus) -> TableOutput:
    """Build the table of all planned runs, with the settings in which they differ."""
    frame = run_table(records, certificate)
    if any(record.run.fault is not None for record in records):
        columns = ["system", "status", "wall_s", "disturbed", "reason", "record"]
        return format_table(frame, columns)
    settings = ("workers", "servers", "threads", "global_batch", "block")
    varied = [name for name in settings if len(frame) and frame[name].nunique() > 1]
    return format_table(frame, ["system", *varied, *_RUN_COLUMNS])


@table("faults", title="Outcomes of the faults")
def fault_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of the outcomes of injected faults, grouped by system."""
    outcomes = fault_outcomes(records)
    rows = [_fault_row(row) for _, row in outcomes.iterrows()]
    if any(record.result.update_history for record in records):
        for cells, history in zip(rows, outcomes["updates"], strict=True):
            cells["updates"] = _describe_updates(history)
    return text_table(rows, {"steps", "detected, s"}, group_by="system")


def _describe_updates(history: object) -> str:
    """Return what became of the gradients that were pushed, if they were recorded."""
    if not isinstance(history, UpdateHistory):
        return "–"
    parts = [f"{history.applied} of {history.pushed} applied"]
    parts += [f"{history.in_flight} in flight"] if history.in_flight else []
    parts += [f"{history.discarded} discarded by the restart"] if history.discarded else []
    parts += [f"{count} {kind.replace('_', ' ')}" for kind, count in history.defects.items()]
    return ", ".join(parts)


def _fault_row(row: pd.Series) -> dict[str, str]:
    columns = ("steps", "detected, s", "first error", "survivors", "weights on", "training")
    cells = {"system": labels.system_label(row["system"]), "fault": row["fault"]}
    if row["reason"]:
        return {**cells, **dict.fromkeys(columns, "–"), "first error": shorten(row["reason"])}
    rejoined = {True: ", with the restarted process", False: ", without the restarted process"}
    training = row["outcome"]
    if training == "completes":
        training += rejoined.get(row["rejoined"], "")
    return {
        **cells,
        "steps": f"{row['steps']:.0f} of {row['planned']}",
        "detected, s": format_number(row["detected_after_s"], ".1f"),
        "first error": shorten(row["first_error"]),
        "survivors": row["survivors"] or "none",
        "weights on": row["weight_holders"] or "none: lost",
        "training": training,
    }

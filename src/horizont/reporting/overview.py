"""The results: of the study, of an experiment, of its runs, and after injected faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from horizont.analysis.faults import fault_outcomes
from horizont.analysis.runs import (
    NO_CERTIFICATE_GIVEN,
    CertificateStatus,
    by_workload,
    run_table,
)
from horizont.analysis.throughput import from_metrics, metrics
from horizont.config.study import Study
from horizont.records.record import Record
from horizont.reporting import labels
from horizont.reporting.figures.phases import phase_panels
from horizont.reporting.output import Message, TableOutput
from horizont.reporting.page import synthetic_note
from horizont.reporting.registry import Drawing, figure, no_drawing, table
from horizont.reporting.tables import (
    format_interval,
    format_number,
    format_table,
    shorten,
    text_table,
)

#: Metrics by system; see `horizont.analysis.throughput.metrics`.
Metrics = Mapping[str, Mapping[str, Any]]

#: Metrics by the title of their experiment and workload.
MetricsByTitle = Mapping[str, Metrics]

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
    groups = {
        (experiment, workload): group
        for (experiment, workload), group in by_workload(records).items()
        if study.experiment(experiment).kind == "training"
    }
    return {
        _panel_title(study, experiment, workload, sources): metrics(
            group, certificates.get(workload, NO_CERTIFICATE_GIVEN)
        )
        for (experiment, workload), group in _selected_groups(groups).items()
    }


def _selected_groups(
    groups: Mapping[tuple[str, str], list[Record]],
) -> dict[tuple[str, str], list[Record]]:
    """Select the first workloads of the experiment with the most runs, if there are many groups."""
    if len(groups) <= _MAX_PANELS:
        return dict(groups)
    runs = Counter[str]()
    for (experiment, _), group in groups.items():
        runs[experiment] += len(group)
    ((largest, _),) = runs.most_common(1)
    selected = [key for key in groups if key[0] == largest][:_MAX_PANELS]
    return {key: groups[key] for key in selected}


def _panel_title(study: Study, experiment: str, name: str, sources: Mapping[str, str]) -> str:
    workload = study.workload(name)
    label = labels.workload_label(workload.network, workload.dataset)
    label += synthetic_note(sources.get(workload.dataset, ""))
    return f"{label}: {study.experiment_title(experiment)}"


@table("origin")
def origin_message(records: Sequence[Record], is_reference: bool) -> Message:
    """Build the sentence on the runs that the report is about."""
    if not records:
        return Message("No runs have a record yet.")
    experiments = len({record.run.experiment for record in records})
    plural = "s" if experiments > 1 else ""
    times = [record.start_time_s for record in records]
    first, last = (
        f"{datetime.fromtimestamp(t, tz=UTC):%Y-%m-%d}" for t in (min(times), max(times))
    )
    days = first if first == last else f"{first} to {last}"
    runs = f"{len(records):,} runs of {experiments} experiment{plural}, measured {days}"
    if not is_reference:
        return Message(f"From {runs}.")
    return Message(
        f"From the reference: {runs}, whose records are in reports/reference. The chapter Your run "
        "compares them with those of this folder."
    )


@figure("headline", title="Where the time goes")
def overview_figure(results: MetricsByTitle) -> Drawing:
    """{caption}."""
    if not results:
        return no_drawing("no experiment of this study compares the step times of systems")
    caption = (
        "One training step by phase. Bars: mean instrumented step of a worker. Markers: timed "
        "step, median over repeated runs with its interval; the gap between bar and marker is the "
        "instrumentation overhead"
    )
    panels = {title: from_metrics(own) for title, own in results.items()}
    tables = [each.assign(panel=title) for title, pair in panels.items() for each in pair]
    return Drawing(phase_panels(panels), pd.concat(tables), {"caption": caption})


@table("speed", title="Throughput")
def speed_table(
    records: Sequence[Record], certificate: CertificateStatus = NO_CERTIFICATE_GIVEN
) -> TableOutput:
    """Build the table of the systems of an experiment, ranked by throughput."""
    return text_table(_ranked_rows(metrics(records, certificate)), _NUMBERS)


@table("sweep", title="Throughput by sweep point")
def sweep_table(
    records: Sequence[Record], certificate: CertificateStatus = NO_CERTIFICATE_GIVEN
) -> TableOutput:
    """Build the table of the systems at each sweep point, ranked by throughput."""
    rows = [
        {"point": point, **row}
        for point, group in labels.records_by_point(records).items()
        for row in _ranked_rows(metrics(group, certificate))
    ]
    return text_table(rows, _NUMBERS, group_by="point")


def _ranked_rows(own: Metrics) -> list[dict[str, str]]:
    ranked = sorted(own.items(), key=lambda item: -(item[1]["examples_per_s"] or 0.0))
    fastest = ranked[0][1]["examples_per_s"] if ranked else None
    return [
        {"system": labels.system_label(system), **_speed_row(values, fastest)}
        for system, values in ranked
    ]


def _speed_row(values: Mapping[str, Any], fastest: float | None) -> dict[str, str]:
    rate = values["examples_per_s"]
    is_verified = values["comparable"] == "verified"
    notes = [values["reason"], "" if is_verified else values["comparable"].partition(": ")[2]]
    return {
        "examples/s": format_number(rate, ",.0f"),
        "interval": format_interval(values["low"], values["high"], ",.0f", values["level"]),
        "of best": f"{rate / fastest:.0%}" if rate and fastest else "–",
        "runs": f"{values['ok']} of {values['planned']}",
        "comparable": "yes" if is_verified else "no",
        "note": shorten("; ".join(filter(None, notes))),
    }


@table("runs", title="All runs")
def all_runs(
    records: Sequence[Record], certificate: CertificateStatus = NO_CERTIFICATE_GIVEN
) -> TableOutput:
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
    rows = [_fault_row(row) for _, row in fault_outcomes(records).iterrows()]
    return text_table(rows, {"steps", "detected, s"}, group_by="system")


def _fault_row(row: pd.Series) -> dict[str, str]:
    columns = ("steps", "detected, s", "first error", "survivors", "weights on", "training")
    cells = {"system": labels.system_label(row["system"]), "fault": row["fault"]}
    cells |= dict.fromkeys(columns, "–")
    if row["reason"]:
        return {**cells, "first error": shorten(row["reason"])}
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

"""The results of the study, from the published metrics of its experiments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from horizont.analysis.runs import NO_CERTIFICATE_GIVEN, CertificateStatus
from horizont.analysis.throughput import from_metrics, metrics
from horizont.config.study import Study
from horizont.records.files import read_json
from horizont.records.record import Record
from horizont.reporting import labels, style
from horizont.reporting.figures.phases import phase_panels
from horizont.reporting.output import TableOutput
from horizont.reporting.page import synthetic_note
from horizont.reporting.registry import Drawing, figure, table
from horizont.reporting.tables import format_interval, format_number, shorten, text_table

#: Metrics by system; see `horizont.analysis.throughput.metrics`.
Metrics = Mapping[str, Mapping[str, Any]]

#: Metrics by the title of their experiment and workload.
Results = Mapping[str, Metrics]

_NUMBERS = {"examples/s", "interval", "of best", "runs"}


def read_results(
    study: Study, metrics_path: Callable[[str], Path], sources: Mapping[str, str]
) -> Results:
    """Read the published metrics of all experiments that compare systems at one point.

    `metrics_path` returns the file of an experiment; `sources` has ``real`` or ``synthetic`` by
    data set.
    """
    results = {}
    for experiment, settings in study.experiments.items():
        path = metrics_path(experiment)
        if settings.kind != "training" or not path.exists():
            continue
        published = read_json(path)
        for name in settings.workloads:
            if name in published:
                workload = study.workload(name)
                label = labels.workload_label(workload.network, workload.dataset)
                label += synthetic_note(sources.get(workload.dataset, ""))
                results[f"{label}: {study.experiment_title(experiment)}"] = published[name]
    return results


@figure("headline", title="The answer")
def overview_figure(results: Results) -> Drawing:
    """{caption}."""
    if not results:
        caption = "What this study measured instead is in the following chapters"
        text = "No experiment of this study compares the step times of systems."
        return Drawing(style.message_figure(text), pd.DataFrame(), {"caption": caption})
    caption = (
        "One training step by phase. Bars: mean instrumented step of a worker. Markers: timed "
        "step, median over repeated runs with its interval; the gap between bar and marker is the "
        "instrumentation overhead"
    )
    panels = {title: from_metrics(own) for title, own in results.items()}
    tables = [each.assign(panel=title) for title, pair in panels.items() for each in pair]
    return Drawing(phase_panels(panels), pd.concat(tables), {"caption": caption})


@table("results", title="The answer")
def result_table(results: Results) -> TableOutput:
    """Build the table of all results, systems ranked by throughput."""
    rows = [{"title": title, **row} for title, own in results.items() for row in _ranked_rows(own)]
    if not rows:
        return text_table([{"system": "no systems were compared by throughput"}])
    return text_table(rows, _NUMBERS, group_by="title")


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

"""The results of the whole study, from the metrics that its experiments left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from horizont.analysis.throughput import from_metrics
from horizont.config.study import Study
from horizont.records.files import read_json
from horizont.reporting import figures, labels
from horizont.reporting.page import FigureOutput, PageTitle, workload_title
from horizont.reporting.tables import Table, shorten, text_table

#: What an experiment is called in the titles of results; others go by their own name.
EXPERIMENT_TITLES = {"local": "one process", "distributed": "{} workers"}

#: The metrics of each system, by experiment and workload.
Results = Mapping[tuple[str, str], Mapping[str, Mapping[str, Any]]]


def read_results(study: Study, metrics_path: Callable[[str], Path]) -> Results:
    """Read the metrics of all experiments that have any.

    Parameters
    ----------
    place
        Tells the file of the metrics of a given name, such as `local-lenet5-cifar10`.
    """
    found = {}
    for workload in study.study:
        for experiment in timing_experiments(study, workload):
            path = metrics_path(f"{experiment}-{workload}")
            if path.exists():
                found[experiment, workload] = read_json(path)
    return found


def timing_experiments(study: Study, workload: str) -> list[str]:
    """List the experiments on a workload that are made for their times."""
    names = study.experiments_on(workload)
    return [name for name in names if study.experiment(name).is_timing]


def overview_panels(
    study: Study, results: Results, sources: Mapping[str, str]
) -> dict[str, Mapping[str, Mapping[str, Any]]]:
    """Title each experiment's metrics for `headline`.

    Parameters
    ----------
    sources
        ``real`` or ``synthetic``, by the name of the data set.
    """
    return {
        f"{_workload_title(study, workload, sources)}, {_experiment_label(study, experiment)}": metrics
        for (experiment, workload), metrics in results.items()
    }


def _workload_title(study: Study, name: str, sources: Mapping[str, str]) -> str:
    workload = study.workload(name)
    stand_in = "" if sources.get(workload.dataset) == "real" else " (synthetic stand-in)"
    return labels.workload_label(workload.network, workload.dataset) + stand_in


def _experiment_label(study: Study, name: str) -> str:
    title = EXPERIMENT_TITLES.get(name, name.replace("_", " "))
    return title.format(study.experiment(name).topology.workers)


def experiment_title(study: Study, experiment: str, workload: str, source: str) -> PageTitle:
    """Title a page about an experiment on a workload: `LeNet-5 on CIFAR-10, 2 workers`.

    Parameters
    ----------
    source
        ``real`` or ``synthetic``: where the prepared data come from.
    """
    sources = {study.workload(workload).dataset: source}
    about = workload_title(study.workload(workload), source)
    name = _experiment_label(study, experiment)
    return PageTitle(f"{_workload_title(study, workload, sources)}, {name}", about.facts)


def result_table(study: Study, results: Results, sources: Mapping[str, str]) -> Table:
    """Rank the systems of every experiment by speed; those without a number come last.

    A study of input or incidents alone has none to rank, and the table says so.
    """
    rows = []
    for (experiment, workload), metrics in results.items():
        title = (
            f"{_workload_title(study, workload, sources)}, {_experiment_label(study, experiment)}"
        )
        rows += [{"title": title, **row} for row in _ranked_rows(metrics)]
    if not rows:
        return text_table(pd.DataFrame({"system": ["none was compared by its speed"]}))
    numbers = {"examples/s", "interval", "of best", "runs"}
    return text_table(pd.DataFrame(rows), numbers, group_by="title")


def speed_table(metrics: Mapping[str, Mapping[str, Any]]) -> Table:
    """Rank the systems of one experiment by speed.

    Parameters
    ----------
    metrics
        As of `horizont.analysis.throughput`.
    """
    numbers = {"examples/s", "interval", "of best", "runs"}
    return text_table(pd.DataFrame(_ranked_rows(metrics)), numbers)


def _ranked_rows(metrics: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    fastest = max((own["examples_per_s"] or 0.0 for own in metrics.values()), default=0.0)
    ranked = sorted(metrics.items(), key=lambda item: -(item[1]["examples_per_s"] or 0.0))
    return [
        {"system": labels.system_label(system), **_speed_row(own, fastest)}
        for system, own in ranked
    ]


def _speed_row(own: Mapping[str, Any], fastest: float) -> dict[str, str]:
    rate = own["examples_per_s"]
    interval = "–"
    if own["low"] is not None:
        interval = f"{own['low']:,.0f} to {own['high']:,.0f} ({own['level']:.0%})"
    proven = own["comparable"] == "verified"
    notes = [own["reason"], "" if proven else own["comparable"].partition(": ")[2]]
    return {
        "examples/s": "–" if rate is None else f"{rate:,.0f}",
        "interval": interval,
        "of best": "–" if rate is None else f"{rate / fastest:.0%}",
        "runs": f"{own['ok']} of {own['planned']}",
        "comparable": "yes" if proven else "no",
        "note": shorten("; ".join(filter(None, notes))),
    }


#: The metrics of an experiment on a workload, as of `horizont.analysis.throughput`.
Metrics = Mapping[str, Mapping[str, Any]]


def overview_figure(panels: Mapping[str, Metrics]) -> FigureOutput:
    """Draw where the time goes, for every workload and system.

    Parameters
    ----------
    panels
        Metrics by the title of their panel, top down. Without any the picture says so: a study
        may look at input or incidents alone.
    """
    if not panels:
        said = "No experiment of this study compares systems by the time of a step."
        elsewhere = "What this study looked at instead is in the chapters behind this page."
        return FigureOutput(figures.message_figure(said), "headline", elsewhere)
    tables = {title: from_metrics(found) for title, found in panels.items()}
    figure = figures.stacked_panels(tables)
    caption = (
        "Where the time of a training step goes. Bars: mean instrumented step of a worker, by "
        "phase. Marks: bare step, median over repeated runs with its interval; the distance "
        "between bar and mark is what looking cost."
    )
    data = [each.assign(panel=title) for title, pair in tables.items() for each in pair]
    return FigureOutput(figure, "headline", caption, pd.concat(data) if data else None)

"""The results of the whole study, from the metrics that its experiments left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from horizont.records import read_json
from horizont.report import words
from horizont.report.picture import Title
from horizont.report.tables import Table, plain_table, shortened
from horizont.report.titles import workload_title
from horizont.spec import Study

#: What an experiment is called in the titles of results; others go by their own name.
EXPERIMENTS = {"local": "one process", "distributed": "{} workers"}

#: The metrics of each system, by experiment and workload.
Results = Mapping[tuple[str, str], Mapping[str, Mapping[str, Any]]]


def read_results(study: Study, place: Callable[[str], Path]) -> Results:
    """Read the metrics of all experiments that have any.

    Parameters
    ----------
    place
        Tells the file of the metrics of a given name, such as `local-lenet5-cifar10`.
    """
    found = {}
    for workload in study.study:
        for experiment in timed(study, workload):
            path = place(f"{experiment}-{workload}")
            if path.exists():
                found[experiment, workload] = read_json(path)
    return found


def timed(study: Study, workload: str) -> list[str]:
    """List the experiments on a workload that are made for their times."""
    names = study.experiments_on(workload)
    return [name for name in names if study.experiment(name).is_timed]


def panels(
    study: Study, results: Results, sources: Mapping[str, str]
) -> dict[str, Mapping[str, Mapping[str, Any]]]:
    """Title each experiment's metrics for `headline`.

    Parameters
    ----------
    sources
        ``real`` or ``synthetic``, by the name of the data set.
    """
    return {
        f"{_workload(study, workload, sources)}, {_experiment(study, experiment)}": metrics
        for (experiment, workload), metrics in results.items()
    }


def _workload(study: Study, name: str, sources: Mapping[str, str]) -> str:
    workload = study.workload(name)
    stand_in = "" if sources.get(workload.dataset) == "real" else " (synthetic stand-in)"
    return words.workload(workload.network, workload.dataset) + stand_in


def _experiment(study: Study, name: str) -> str:
    title = EXPERIMENTS.get(name, name.replace("_", " "))
    return title.format(study.experiment(name).topology.workers)


def experiment_title(study: Study, experiment: str, workload: str, source: str) -> Title:
    """Title a page about an experiment on a workload: `LeNet-5 on CIFAR-10, 2 workers`.

    Parameters
    ----------
    source
        ``real`` or ``synthetic``: where the prepared data come from.
    """
    sources = {study.workload(workload).dataset: source}
    about = workload_title(study.workload(workload), source)
    name = _experiment(study, experiment)
    return Title(f"{_workload(study, workload, sources)}, {name}", about.facts)


def result_table(study: Study, results: Results, sources: Mapping[str, str]) -> Table:
    """Rank the systems of every experiment by speed; those without a number come last.

    A study of input or incidents alone has none to rank, and the table says so.
    """
    rows = []
    for (experiment, workload), metrics in results.items():
        title = f"{_workload(study, workload, sources)}, {_experiment(study, experiment)}"
        rows += [{"title": title, **row} for row in _ranked(metrics)]
    if not rows:
        return plain_table(pd.DataFrame({"system": ["none was compared by its speed"]}))
    numbers = {"examples/s", "interval", "of best", "runs"}
    return plain_table(pd.DataFrame(rows), numbers, group_by="title")


def speed_table(metrics: Mapping[str, Mapping[str, Any]]) -> Table:
    """Rank the systems of one experiment by speed.

    Parameters
    ----------
    metrics
        As of `horizont.analysis.metrics`.
    """
    numbers = {"examples/s", "interval", "of best", "runs"}
    return plain_table(pd.DataFrame(_ranked(metrics)), numbers)


def _ranked(metrics: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    fastest = max((own["examples_per_s"] or 0.0 for own in metrics.values()), default=0.0)
    ranked = sorted(metrics.items(), key=lambda item: -(item[1]["examples_per_s"] or 0.0))
    return [{"system": words.system(system), **_speed(own, fastest)} for system, own in ranked]


def _speed(own: Mapping[str, Any], fastest: float) -> dict[str, str]:
    rate = own["examples_per_s"]
    interval = "–"
    if own["low"] is not None:
        interval = f"{own['low']:,.0f} to {own['high']:,.0f} ({own['level']:.0%})"
    proven = own["comparable"] == "proven"
    notes = [own["reason"], "" if proven else own["comparable"].partition(": ")[2]]
    return {
        "examples/s": "–" if rate is None else f"{rate:,.0f}",
        "interval": interval,
        "of best": "–" if rate is None else f"{rate / fastest:.0%}",
        "runs": f"{own['ok']} of {own['planned']}",
        "comparable": "yes" if proven else "no",
        "note": shortened("; ".join(filter(None, notes))),
    }

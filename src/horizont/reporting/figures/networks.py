"""All networks side by side: slower systems, and communication by the size of the weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from horizont.analysis.network_growth import MIN_SIZES, communication_by_size, communication_fits
from horizont.analysis.runs import by_workload, concat_tables
from horizont.analysis.throughput import throughput_by_system
from horizont.config.study import Study
from horizont.records.record import Record
from horizont.reporting import labels, style
from horizont.reporting.figures.elements import system_legend_line
from horizont.reporting.output import TableOutput
from horizont.reporting.registry import Drawing, figure, no_drawing, table
from horizont.reporting.tables import format_interval, format_number, text_table

#: The names of variants are too long for three.
_LEGEND_COLUMNS = 2


def _has_networks(records: Sequence[Record]) -> bool:
    workloads = Counter(experiment for experiment, _ in by_workload(records))
    return any(number > 1 for number in workloads.values())


@figure(
    "networks",
    title="All networks",
    text="Which system is the fastest depends on the network. Only within a row is the work equal.",
    needs=_has_networks,
)
def network_comparison_figure(study: Study, records: Sequence[Record]) -> Drawing:
    """How much longer each system takes per example than the fastest of the same workload and
    experiment (at 1), from timed steps; medians of the runs, with intervals. The farther right, the
    slower. Hollow markers: asynchronous systems.
    """
    times = _relative_times(study, records)
    if times["workload"].nunique() < 2:
        return no_drawing("fewer than two networks were measured in one experiment")
    return Drawing(_comparison_plot(study, times), times)


def _relative_times(study: Study, records: Sequence[Record]) -> pd.DataFrame:
    """Return time per example relative to the fastest, of experiments at one point each.

    ``experiment, workload, system``, ``ratio`` with ``low`` and ``high``.
    """
    groups = by_workload(records)
    tables = [
        throughput_by_system(groups[name, workload])
        for name, experiment in study.experiments.items()
        if experiment.kind == "training" and len(experiment.workloads) > 1
        for workload in experiment.workloads
        if (name, workload) in groups
    ]
    keys = ["experiment", "workload", "system"]
    rates = concat_tables(tables, [*keys, "examples_per_s", "low", "high"])
    best = rates.groupby(keys[:2])["examples_per_s"].transform("max")
    columns = {"ratio": "examples_per_s", "low": "high", "high": "low"}
    ratios = {name: best / rates[inverse] for name, inverse in columns.items()}
    return rates[keys].assign(**ratios).dropna(subset="ratio")


def _comparison_plot(study: Study, times: pd.DataFrame) -> Figure:
    """Plot a panel for each of two experiments and a row per workload."""
    experiments = list(dict.fromkeys(times["experiment"]))[:2]
    times = times[times["experiment"].isin(experiments)]
    order = [name for name in study.workloads if name in set(times["workload"])]
    systems = list(dict.fromkeys(times["system"]))
    plot = style.new_figure(1.1 + 0.4 * len(order))
    panels = plot.subplots(1, len(experiments), squeeze=False, sharey=True)[0]
    for axes, experiment in zip(panels, experiments, strict=True):
        _plot_panel(axes, times[times["experiment"] == experiment], order)
        axes.set_title(study.experiment_title(experiment))
    plot.supxlabel("time per example / that of the fastest", fontsize=9.5)
    panels[0].set_yticks(range(len(order)), labels=map(labels.workload_label_from_name, order))
    panels[0].set_ylim(len(order) - 0.5, -0.5)
    style.legend_above(plot, list(map(system_legend_line, systems)), _LEGEND_COLUMNS)
    return plot


def _plot_panel(axes: Axes, times: pd.DataFrame, order: Sequence[str]) -> None:
    """Plot the systems of each workload, one below the other within the row."""
    for row, workload in enumerate(order):
        own = times[times["workload"] == workload].sort_values("ratio")
        for number, one in enumerate(own.to_dict("records")):
            height = row + 0.7 * ((number + 0.5) / len(own) - 0.5)
            axes.plot([one["low"], one["high"]], [height] * 2, color=style.MUTED, linewidth=1.2)
            axes.plot(one["ratio"], height, markersize=5, **style.marker_style(one["system"]))
    style.grid_axis(axes, "x")
    style.set_log_scale(axes, "x")
    axes.axvline(1.0, color=style.FOREGROUND, linewidth=0.8)


def _has_fits(records: Sequence[Record]) -> bool:
    sizes = {record.result.parameters for record in records if not record.run.system.is_local}
    return len(sizes - {None}) >= MIN_SIZES and len(communication_fits(records)) > 0


@figure(
    "communication_growth",
    title="Communication by size of the network",
    text="Two claims of 2021 are about how communication grows with the number of weights. The "
    "lines are a latency for each step and a time for each byte, fitted to the networks of one "
    "experiment on one type of machine. A system whose time does not grow with the size has none.",
    needs=_has_fits,
)
def communication_growth_figure(records: Sequence[Record]) -> Drawing:
    """Transfer and waiting in a worker's instrumented step by the size of the weights, one marker
    per run, on logarithmic scales. Lines: latency plus size over bandwidth, medians over the
    blocks. The waiting of small networks has other causes than the size, such as workers of unequal
    speed.
    """
    points, fits = communication_by_size(records), communication_fits(records)
    points = points.merge(fits[["experiment", "machine", "system"]])
    sizes = np.geomspace(points["weights_mib"].min(), points["weights_mib"].max(), 40)
    systems = list(dict.fromkeys(fits["system"]))
    plot = style.new_figure(3.4)
    axes = plot.subplots()
    for system in systems:
        own = points[points["system"] == system]
        marker = {**style.marker_style(system), "markersize": 4.5, "alpha": 0.7}
        axes.plot(own["weights_mib"], own["network_s"] * 1e3, **marker)
        line: dict[str, Any] = {"color": style.system_colour(system), "linewidth": 1.3}
        growing = fits[(fits["system"] == system) & (fits["s_per_mib"] > 0)]
        for fit in growing.itertuples():
            line_ms = 1e3 * (fit.latency_s + sizes * fit.s_per_mib)
            shown = line_ms > 0  # a latency near zero may come out negative
            axes.plot(sizes[shown], line_ms[shown], style.line_style(system), **line)
    style.set_log_scale(axes, "x")
    style.set_log_scale(axes, "y")
    style.grid_axis(axes, "y")
    axes.set_xlabel("weights, MiB")
    axes.set_ylabel("milliseconds per step")
    handles = list(map(system_legend_line, systems))
    style.legend_above(plot, handles, _LEGEND_COLUMNS, handlelength=2.4)
    return Drawing(plot, points)


@table("communication_fits", title="Latency and bandwidth", needs=_has_fits)
def communication_fit_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of the fitted latency and bandwidth of each system."""
    rows = [
        {
            "experiment": fit["experiment"],
            "system": labels.system_label(fit["system"]),
            "latency, ms": _interval_ms(fit, "latency_s"),
            "per MiB of weights, ms": _interval_ms(fit, "s_per_mib"),
            "networks": f"{fit['sizes']}",
            "blocks": f"{fit['blocks']}",
        }
        for _, fit in communication_fits(records).iterrows()
    ]
    return text_table(rows, {"networks", "blocks"})


def _interval_ms(fit: pd.Series, name: str) -> str:
    value, low, high = (1e3 * fit[f"{name}{end}"] for end in ("", "_low", "_high"))
    return f"{format_number(value, '.3g')} {format_interval(low, high, '.3g', fit['level'])}"

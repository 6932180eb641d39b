"""Throughput by system."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from horizont.analysis.throughput import throughput_by_run, throughput_by_system
from horizont.records.record import Record
from horizont.reporting import style
from horizont.reporting.registry import Drawing, figure


@figure("throughput", title="Throughput")
def throughput_figure(records: Sequence[Record]) -> Drawing:
    """Training throughput, from timed steps while all workers were training. Large markers:
    {interval}; short strokes: single runs. Filled markers: single-process and synchronous systems;
    hollow markers: asynchronous systems.
    """
    import seaborn as sns

    runs, estimates = throughput_by_run(records), throughput_by_system(records)
    systems = list(estimates["system"])
    rows = {system: row for row, system in enumerate(systems)}
    plot = style.new_figure(style.ROW_HEIGHT * len(systems) + 0.6)
    axes = style.row_axes(plot, systems)
    highest = np.nanmax([runs["examples_per_s"].max(), estimates["high"].max(), 0.0])
    axes.set_xlim(0, highest * 1.15 or 1.0)
    sns.scatterplot(
        runs.assign(row=runs["system"].map(rows) + 0.22),
        x="examples_per_s",
        y="row",
        hue="system",
        palette={system: style.system_colour(system) for system in systems},
        marker="|",
        s=50,
        linewidth=1.2,
        legend=False,
        ax=axes,
    )
    for row, (_, estimate) in enumerate(estimates.iterrows()):
        _plot_estimate(axes, row, estimate)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("examples per second, all workers together (longer is better)")
    axes.set_ylabel("")
    data = pd.concat([runs, estimates])
    return Drawing(plot, data, {"interval": interval_description(records)})


def interval_description(records: Sequence[Record]) -> str:
    """Return what the intervals of an experiment are."""
    level = throughput_by_system(records)["level"].max()
    blocks = len({record.run.block for record in records})
    runs = f"median of {blocks} runs" if blocks > 1 else "a single run"
    return f"{runs} with a {level:.0%} interval" if level > 0 else runs


def _plot_estimate(axes: Axes, row: int, estimate: pd.Series) -> None:
    rate, system = estimate["examples_per_s"], estimate["system"]
    if not rate > 0:
        style.annotate_missing(axes, row, estimate["reason"])
        return
    axes.plot([0, rate], [row, row], color=style.system_colour(system), alpha=0.35, linewidth=3)
    interval = [estimate["low"], estimate["high"]]
    axes.plot(interval, [row, row], color=style.FOREGROUND, linewidth=1.8)
    axes.plot(rate, row, markeredgewidth=1.8, markersize=8, **style.marker_style(system))
    style.annotate(axes, f"{rate:,.0f}", (rate, row), (0, 7), ha="center", va="bottom")

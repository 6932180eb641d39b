"""Throughput beyond the measured numbers of workers, by a queueing model."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from horizont.analysis.extrapolation import Extrapolation, extrapolations, has_extrapolation
from horizont.records.record import Record
from horizont.reporting import labels, style
from horizont.reporting.registry import Drawing, figure, no_drawing

#: A usable model is drawn up to this number of workers.
MOST_WORKERS = 50


@figure(
    "capacity",
    title="Beyond the measured numbers of workers",
    text="A closed queueing network stands for workers that do not wait for each other: each "
    "computes, then its gradients queue for the servers. Its two times are fitted to the "
    "throughput of up to five workers. It is used beyond the measured points only if it predicts "
    "those with more than five workers within 10%.",
    needs=has_extrapolation,
)
def capacity_figure(records: Sequence[Record]) -> Drawing:
    """Updates per second of all workers together. Filled markers: measured, the model is fitted to
    them; hollow markers: measured and held out; lines: the model, with its 90% interval.
    {uses}.
    """
    found = extrapolations(records)
    if not found:
        return no_drawing("too few runs had a throughput")
    batches = sorted({each.local_batch for each in found})
    plot = style.new_figure(3.4)
    panels = plot.subplots(1, len(batches), squeeze=False, sharey=True)[0]
    data = []
    for axes, batch in zip(panels, batches, strict=True):
        axes.set_title(f"batch per worker: {batch:,}")
        own = [each for each in found if each.local_batch == batch]
        data += [_plot_model(axes, each) for each in own]
        _set_scales(axes, sorted({n for each in own for n in each.points["workers"]}))
    panels[0].set_ylabel("updates per second")
    curves = {(each.system, each.servers): each for each in found}.values()
    handles = [
        style.system_legend_line(
            each.system, marker=True, style=_line_style(each), suffix=_servers(each)
        )
        for each in curves
    ]
    held_out = Line2D([], [], color=style.MUTED, marker="o", linestyle="", label="held out")
    held_out.set_markerfacecolor(style.BACKGROUND)
    style.legend_above(plot, [*handles, held_out], 1, handlelength=2.8)
    return Drawing(plot, pd.concat(data), {"uses": "; ".join(map(_use, found))})


def _servers(curve: Extrapolation) -> str:
    if not curve.servers:
        return ", a server per worker"
    return f", {curve.servers} server{'s' if curve.servers > 1 else ''}"


def _line_style(curve: Extrapolation) -> style.LineStyle:
    """Return the line style of a curve, by the hosts of its servers."""
    return "--" if curve.servers else "-."


def _use(curve: Extrapolation) -> str:
    """Return whether the model of a curve may be used, as a clause."""
    name = f"{labels.system_label(curve.system)}{_servers(curve)}, batch {curve.local_batch:,}"
    if curve.unusable_reason:
        return f"{name}: not used, {curve.unusable_reason}"
    held_out = curve.points[curve.points["held_out"]]
    return f"{name}: used, off by at most {held_out['error'].abs().max():.0%}"


def _plot_model(axes: Axes, curve: Extrapolation) -> pd.DataFrame:
    """Plot a curve and return its data: measured points, and the model at each number."""
    points, colour = curve.points, style.system_colour(curve.system)
    largest = int(points["workers"].max())
    numbers = range(1, (largest if curve.unusable_reason else max(largest, MOST_WORKERS)) + 1)
    estimates = [each.columns("predicted", "low", "high") for each in curve.model.predict(numbers)]
    model = pd.DataFrame(estimates).assign(workers=numbers)
    dashes = _line_style(curve)
    axes.plot(model["workers"], model["predicted"], dashes, color=colour, linewidth=1.2)
    axes.fill_between(model["workers"], model["low"], model["high"], color=colour, alpha=0.15, lw=0)
    for is_held_out, own in points.groupby("held_out"):
        axes.plot(
            own["workers"],
            own["measured"],
            style.system_marker(curve.system),
            color=style.BACKGROUND if is_held_out else colour,
            markeredgecolor=colour,
            markersize=5.5,
        )
    measured = points[["workers", "measured", "held_out", "error", "inside"]]
    return model.merge(measured, on="workers", how="left").assign(
        system=curve.system,
        servers=curve.servers,
        batch=curve.local_batch,
        unusable_reason=curve.unusable_reason,
    )


def _set_scales(axes: Axes, measured: Sequence[int]) -> None:
    style.grid_axis(axes, "y")
    axes.set_xscale("log", base=2)
    shown = [*measured, *(n for n in (25, MOST_WORKERS) if n > 1.5 * max(measured))]
    limit = axes.get_xlim()[1]
    axes.xaxis.set_major_locator(FixedLocator([n for n in shown if n <= limit]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("workers")

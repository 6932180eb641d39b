"""Throughput, the phases of a step, and start-up, by system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from horizont.analysis.runs import startup_times, systems_of
from horizont.analysis.steps import instrumentation_overhead, phases
from horizont.analysis.throughput import throughput_by_run, throughput_by_system
from horizont.records.record import Record
from horizont.reporting import labels, style
from horizont.reporting.figures.elements import (
    annotate_missing,
    empty_bar,
    fill_legend,
    interval_mark,
    label_rows,
    stacked_bar,
    system_rows,
)
from horizont.reporting.output import TableOutput
from horizont.reporting.registry import Drawing, figure, table
from horizont.reporting.tables import format_number, format_table, format_wide, rate_format

_PHASE_BAR_HEIGHT = 0.56

_PHASES_TEXT = """\
- *load*: training waits for its next batch.
- *forward*, *backward*, *update*: logits and loss, gradients, new weights.
- *waiting*: this worker has computed its gradients, the slowest worker has not yet. All processes
  share a clock.
- *communication*: the remaining exchange of gradients or weights. What is transferred during the
  backward pass, or while the worker waits, takes no time of its own and is in neither phase.
- *other*: the rest of the step.

A phase that a framework cannot measure separately is named below its bar and is part of another
phase: with a parameter server, the server makes the update, which therefore counts as
communication."""


def has_phases(records: Sequence[Record]) -> bool:
    """Whether a run has instrumented steps, which alone show the phases."""
    return any(record.ok and record.run.steps.instrumented for record in records)


@figure("throughput", title="Throughput")
def throughput_figure(records: Sequence[Record]) -> Drawing:
    """Training throughput, from timed steps while all workers were training. Large markers:
    {interval}; short strokes: single runs. Filled markers: single-process and synchronous systems;
    hollow markers: asynchronous systems.
    """
    runs, estimates = throughput_by_run(records), throughput_by_system(records)
    systems = list(estimates["system"])
    plot, axes = system_rows(systems, 0.6)
    highest = np.nanmax([runs["examples_per_s"].max(), estimates["high"].max(), 0.0])
    axes.set_xlim(0, highest * 1.15 or 1.0)
    rows = runs["system"].map(systems.index) + 0.22
    colours = runs["system"].map(style.system_colour)
    axes.scatter(runs["examples_per_s"], rows, 50, colours, marker="|", linewidths=1.2)
    for row, (_, estimate) in enumerate(estimates.iterrows()):
        _plot_estimate(axes, row, estimate)
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.set_xlabel("examples per second, all workers together (longer is better)")
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
        annotate_missing(axes, row, estimate["reason"])
        return
    axes.plot([0, rate], [row, row], color=style.system_colour(system), alpha=0.35, linewidth=3)
    interval = [estimate["low"], estimate["high"]]
    axes.plot(interval, [row, row], color=style.FOREGROUND, linewidth=1.8)
    axes.plot(rate, row, markeredgewidth=1.8, markersize=8, **style.marker_style(system))
    style.annotate(
        axes, format_number(rate, rate_format(rate)), (rate, row), (0, 7), ha="center", va="bottom"
    )


@figure("phases", title="Where the time goes", text=_PHASES_TEXT, needs=has_phases)
def phase_figure(records: Sequence[Record]) -> Drawing:
    """One training step of a worker by phase. Bars: mean over the instrumented steps, workers and
    runs; “other” is the part of the step outside the phases. Markers: timed steps, {interval}. The
    gap between the end of a bar and its marker is the instrumentation overhead.
    """
    reasons = throughput_by_system(records)[["system", "reason"]]
    times = instrumentation_overhead(records).merge(reasons, on="system")
    breakdown = phases(records)
    plot = phase_panels({"": (breakdown, times)})
    data = pd.concat([breakdown, times])
    return Drawing(plot, data, {"interval": interval_description(records)})


@table("phase_table", title="Phases of a step", needs=has_phases)
def phase_table(records: Sequence[Record]) -> TableOutput:
    """Build a table of mean milliseconds, one row per system and one column per measured phase."""
    wide = phases(records).set_index(["system", "phase"])["mean_s"].unstack(sort=False) * 1e3
    wide = wide.dropna(axis="columns", how="all")
    wide["step"] = wide.sum(axis="columns", min_count=1)
    return format_wide(wide.rename(index=labels.system_label), "milliseconds")


@table(
    "instrumentation_overhead",
    title="Instrumentation overhead",
    text="The ratio of instrumented to timed steps, paired within each block: the median of the "
    "blocks, beside means over all of them, whose own ratio may differ. At a ratio near 1.00, the "
    "phases above are those of a timed step. At a ratio well above 1, their fractions remain "
    "informative, but their absolute times are too long.",
    needs=has_phases,
)
def instrumentation_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of instrumented against timed steps, paired by block."""
    columns = ["system", "timed_s", "instrumented_s", "ratio", "ratio_low", "ratio_high", "level"]
    return format_table(instrumentation_overhead(records), columns)


def phase_panels(panels: Mapping[str, tuple[pd.DataFrame, pd.DataFrame]]) -> Figure:
    """Plot a stacked bar per system for one or more titles, below each other.

    The panels are the results of `horizont.analysis.steps.phases` and of `instrumentation_overhead`
    by title, the latter with a column ``reason`` for rows without data.
    """
    heights = [style.ROW_HEIGHT * times["system"].nunique() + 0.45 for _, times in panels.values()]
    plot = style.new_figure(sum(heights) + 0.75)
    all_axes = plot.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (title, (breakdown, times)) in zip(all_axes, panels.items(), strict=True):
        _plot_phase_panel(axes, breakdown, times)
        _title_at_left_edge(axes, title)
    all_axes[-1].set_xlabel("milliseconds for one step of a worker")
    everything = pd.concat([breakdown for breakdown, _ in panels.values()])
    present = everything.loc[everything["mean_s"] > 0, "phase"]
    fills = {phase: fill for phase, fill in style.PHASE_FILLS.items() if phase in set(present)}
    handles = fill_legend(fills, "timed step")
    if len(handles) == 8:  # Matplotlib fills columns first, but readers read rows
        handles = [handle for start in range(4) for handle in handles[start::4]]
    style.legend_above(plot, handles, 4, columnspacing=1.4)
    return plot


def _title_at_left_edge(axes: Axes, title: str) -> None:
    """Set a title that starts at the left edge of the figure, where a long one has space."""
    axes.set_title(" ", pad=8)  # reserves the line
    position = ("figure fraction", "axes fraction")
    text = axes.annotate(
        title, (0.01, 1.0), (0, 8), position, textcoords="offset points", weight="bold"
    )
    text.set_in_layout(False)


def _plot_phase_panel(axes: Axes, breakdown: pd.DataFrame, times: pd.DataFrame) -> None:
    means = breakdown.pivot(index="system", columns="phase", values="mean_s") * 1e3
    style.grid_axis(axes, "x")
    label_rows(axes, list(times["system"]))
    longest_timed = (times[["timed_s", "timed_high_s"]] * 1e3).max(axis=None)
    longest = np.nanmax([means.sum(axis="columns").max(), longest_timed, 1e-3])
    axes.set_xlim(0, longest * 1.1)
    for row, time in enumerate(times.to_dict("records")):
        own = means.loc[time["system"]]
        timed_ms, is_timed = time["timed_s"] * 1e3, time["timed_s"] > 0
        if own.notna().any():
            _plot_phases(axes, row, own)
        elif is_timed:
            empty_bar(axes, row, timed_ms, _PHASE_BAR_HEIGHT)
            _annotate_below(axes, row, "phases not measured")
        else:
            annotate_missing(axes, row, time["reason"])
        if is_timed:
            ends = (time["timed_low_s"] * 1e3, time["timed_high_s"] * 1e3)
            interval_mark(axes, row, timed_ms, ends, size=6)
            for end in ends:
                axes.plot([end] * 2, [row - 0.13, row + 0.13], color=style.FOREGROUND, lw=1.4)


def _plot_phases(axes: Axes, row: int, means: pd.Series) -> None:
    """Plot the measured phases, and name those that cannot be measured separately."""
    segments = [(means[phase], fill) for phase, fill in style.PHASE_FILLS.items()]
    end = stacked_bar(axes, row, segments, _PHASE_BAR_HEIGHT)
    missing = [phase for phase in style.PHASE_FILLS if np.isnan(means[phase])]
    # A system of one process has no communication, which then is no gap in the measurement.
    if end and missing and "communication" not in missing:
        _annotate_below(axes, row, "not separate: " + ", ".join(missing))


def _annotate_below(axes: Axes, row: int, text: str) -> None:
    position = (0.0, row + _PHASE_BAR_HEIGHT / 2)
    style.annotate(axes, text, position, (1, -1.5), va="top", **style.ASIDE, fontsize=7.5)


@figure("startup", title="Start-up")
def startup_figure(records: Sequence[Record]) -> Drawing:
    """Start-up, from the start of a process to the end of its first step, in chronological order:
    means over processes and runs. Throughput does not include it.
    """
    times = startup_times(records)
    systems = systems_of(records)
    fills = {
        phase: (colour, None)
        for phase, colour in zip(times["phase"].unique(), style.STARTUP_COLOURS, strict=False)
    }
    plot, axes = system_rows(systems, 0.95)
    for row, system in enumerate(systems):
        own = times[times["system"] == system]
        segments = zip(own["mean_s"], own["phase"].map(fills), strict=True)
        if not stacked_bar(axes, row, segments, 0.5):
            annotate_missing(axes, row, "did not start")
    axes.set_xlabel("seconds from the start of a process")
    names = labels.STARTUP_PHASES
    handles = fill_legend({names.get(phase, phase): fill for phase, fill in fills.items()})
    style.legend_above(plot, handles, 5)
    return Drawing(plot, times)

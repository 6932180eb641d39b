"""Traffic against theory, the cost of distribution, links of different rates, staleness."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, PercentFormatter

from horizont.analysis.communication import distribution_cost, link_utilisation, staleness, traffic
from horizont.records.record import Record
from horizont.reporting import labels, style
from horizont.reporting.figures.elements import label_rows, system_legend_line
from horizont.reporting.figures.phases import has_phases
from horizont.reporting.output import Message, TableOutput
from horizont.reporting.registry import Drawing, figure, has_capability, no_drawing, table
from horizont.reporting.tables import format_table
from horizont.wording import counted

_MIB = 2.0**20


def _varies_in_links(records: Sequence[Record]) -> bool:
    return len({record.run.topology.link for record in records}) > 1


@figure(
    "traffic",
    title="Traffic",
    text="In a ring of *n* workers, each sends and receives 2 (*n* − 1) / *n* times the bytes of "
    "the gradients per step. With a parameter server, each worker sends the gradients once and "
    "receives the weights once, and the server's host does so for all workers except its own.",
    needs=has_capability("byte_counters"),
)
def traffic_figure(records: Sequence[Record]) -> Drawing:
    """Traffic of each host, sent (left) and received (right), for one step of each worker; read
    from the counters of its network interface while all workers made timed steps. Strokes: bytes
    of weights and gradients in theory. Markers to the right of them include headers and
    acknowledgements. Traffic within a host does not count.
    """
    rows = traffic(records)
    if rows.empty:
        return no_drawing("no host had a network interface of its own")
    systems = list(dict.fromkeys(rows["system"]))
    plot = style.new_figure(style.ROW_HEIGHT * len(systems) + 0.9)
    panels = plot.subplots(1, 2, sharey=True)
    for axes, direction in zip(panels, ("sent", "received"), strict=True):
        style.grid_axis(axes, "x")
        for row, system in enumerate(systems):
            _plot_hosts(axes, row, rows[rows["system"] == system], direction)
        axes.set_xlim(left=0)
        axes.set_xlabel(f"MiB {direction} per step")
    label_rows(panels[0], systems)
    measured = Line2D([], [], color=style.MUTED, marker="o", linestyle="", label="a host, measured")
    theory = Line2D([], [], color=style.FOREGROUND, marker="|", linestyle="", label="theory")
    theory.set_markersize(11)
    style.legend_above(plot, [measured, theory], 2)
    return Drawing(plot, rows)


def _plot_hosts(axes: Axes, row: int, rows: pd.DataFrame, direction: str) -> None:
    """Plot the hosts of a system below each other, within its row."""
    system = str(rows["system"].iloc[0])
    marker, colour = style.system_marker(system), style.system_colour(system)
    hosts = list(dict.fromkeys(rows["host"]))
    for index, host in enumerate(hosts):
        own = rows[rows["host"] == host]
        y = [row + (index - (len(hosts) - 1) / 2) * 0.6 / len(hosts)] * len(own)
        theory_mib = own[f"{direction}_theory_bytes"] / _MIB
        measured_mib = own[f"{direction}_bytes"] / _MIB
        axes.plot(theory_mib, y, "|", color=style.FOREGROUND, markersize=9, markeredgewidth=1.4)
        axes.plot(measured_mib, y, marker, color=colour, markersize=4.5, alpha=0.85)


@table("traffic_table", title="Traffic per step", needs=has_capability("byte_counters"))
def traffic_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of the traffic of each host, measured and relative to theory."""
    rate = ["rate_mbit"] if _varies_in_links(records) else []
    columns = ["sent_bytes", "sent_ratio", "received_bytes", "received_ratio"]
    return format_table(traffic(records), ["system", *rate, "host", *columns], "system")


def _cost_text(records: Sequence[Record]) -> str:
    """Explain the table, whose measured columns need instrumented steps."""
    compared = (
        "The table compares this with what was **measured**: transfer, and waiting for other "
        "workers. The two differ where communication overlaps with computation, where a server "
        "competes with a worker for the CPU of its host, and wherever a worker computes faster or "
        "slower than a single process."
        if has_phases(records)
        else "Transfer and waiting were not measured: the runs have no instrumented steps."
    )
    return (
        "Earlier studies took the time of distributed training, **subtracted** that of a single "
        "process with one worker's share of the batch, and called the rest network time. "
        f"{compared} Where the all-reduce of a framework has clocks of its own, *exchange* is its "
        "total time in a timed step, and *overlap with backward* the part of it during the "
        "backward pass."
    )


@table(
    "distribution_cost",
    title="The cost of distribution",
    text=_cost_text,
    needs=lambda records: (
        has_capability("byte_counters")(records)
        and any(record.run.system.is_local for record in records)
        and len({record.run.topology.workers for record in records}) <= 2
        and not _varies_in_links(records)
    ),
)
def distribution_cost_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of measured communication and of its estimate by subtraction."""
    return format_table(distribution_cost(records))


@figure("links", title="Step time by link rate", needs=_varies_in_links)
def link_figure(records: Sequence[Record]) -> Drawing:
    """A worker's timed step by the rate of each host's link, on logarithmic scales; median over the
    runs. Horizontal strokes: the time that the busiest direction of any link needs for weights and
    gradients alone. A ring uses all links equally; the link of a single server carries the traffic
    of all workers.
    """
    import seaborn as sns

    utilisation = link_utilisation(records)
    if utilisation.empty:
        return no_drawing("no run succeeded")
    points = utilisation.sort_values("rate_mbit", na_position="last")
    rates = points["rate_mbit"].fillna(0)
    positions = {rate: position for position, rate in enumerate(dict.fromkeys(rates))}
    points = points.assign(position=rates.map(positions), step_ms=points["step_s"] * 1e3)
    systems = list(dict.fromkeys(points["system"]))
    plot = style.new_figure(3.3)
    axes = plot.subplots()
    sns.lineplot(
        points,
        x="position",
        y="step_ms",
        markers={system: style.system_marker(system) for system in systems},
        markersize=7,
        markeredgewidth=0,
        errorbar=None,
        estimator="median",
        ax=axes,
        **style.system_line_style(systems),
    )
    wires = points[points["wire_s"] > 0]
    ends = (wires["position"] - 0.16, wires["position"] + 0.16)
    axes.hlines(wires["wire_s"] * 1e3, *ends, color=style.FOREGROUND, linewidth=1.4, zorder=4)
    axes.set_xticks(list(positions.values()), labels=map(labels.rate_label, positions))
    axes.set_xlim(-0.4, len(positions) - 0.6)
    style.set_log_scale(axes, "y")
    axes.set_ylabel("milliseconds per step")
    axes.set_xlabel("rate of each link")
    style.grid_axis(axes, "y")
    handles = [system_legend_line(system) for system in systems]
    handles.append(Line2D([], [], color=style.FOREGROUND, label="minimum of the busiest link"))
    style.legend_above(plot, handles, 2, handlelength=2.4)
    return Drawing(plot, utilisation)


@table("link_table", title="Transfer by link rate", needs=_varies_in_links)
def link_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of step, transfer and waiting by link rate."""
    columns = ["system", "rate_mbit", "step_s", "communication_s", "waiting_s", "wire_s"]
    return format_table(
        link_utilisation(records), [*columns, "step_ratio", "busiest_ratio"], "system"
    )


@figure(
    "staleness",
    title="Staleness",
    needs=lambda records: any(r.ok and r.run.record_updates != "none" for r in records),
)
def staleness_figure(records: Sequence[Record]) -> Drawing:
    """Staleness of each gradient when a server applied it, of all runs whose updates were
    recorded. Dotted: the number of the other workers, the mean staleness if all workers are equally
    fast. A server that holds several tensors (MXNet) counts each of them separately. Recording
    slows the steps, so that the distribution at full speed may differ.
    """
    import seaborn as sns

    counts = staleness(records)
    if counts.empty:
        return no_drawing("no updates were recorded")
    colours = {name: style.system_colour(name) for name in dict.fromkeys(counts["system"])}
    numbers = sorted(counts["workers"].unique())
    plot = style.new_figure(1.0 + 1.6 * len(numbers))
    panels = plot.subplots(len(numbers), 1, squeeze=False, sharex=True)[:, 0]
    for axes, workers in zip(panels, numbers, strict=True):
        style.grid_axis(axes, "y")
        sns.barplot(
            counts[counts["workers"] == workers],
            x="staleness",
            y="fraction",
            hue="system",
            hue_order=list(colours),
            order=range(int(counts["staleness"].max()) + 1),
            palette=colours,
            saturation=1,
            edgecolor=style.BACKGROUND,
            legend=False,
            ax=axes,
        )
        axes.axvline(workers - 1, color=style.FOREGROUND, linewidth=1, linestyle=":")
        axes.set_title(counted(workers, "worker"))
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.xaxis.set_major_locator(MaxNLocator(12, integer=True))
        axes.set_ylabel("updates")
    panels[-1].set_xlabel("staleness: updates by other workers since the worker read the weights")
    handles = [
        Patch(color=colour, label=labels.system_label(name)) for name, colour in colours.items()
    ]
    style.legend_above(plot, handles, 2)
    return Drawing(plot, counts)


@table("staleness_table", title="Staleness")
def staleness_table(records: Sequence[Record]) -> TableOutput | Message:
    """Build the table of updates by staleness, of all runs whose updates were recorded."""
    counts = staleness(records)
    return Message("No updates were recorded.") if counts.empty else format_table(counts)

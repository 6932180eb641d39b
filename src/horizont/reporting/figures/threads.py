"""Speedup by more compute threads in a process."""

from __future__ import annotations

from collections.abc import Sequence

from horizont.analysis.scaling import is_sweep_over_threads, thread_speedup
from horizont.records.record import Record
from horizont.reporting import style
from horizont.reporting.figures.elements import system_rows
from horizont.reporting.registry import Drawing, figure, no_drawing
from horizont.wording import counted


@figure("threads", title="Speedup by compute threads", needs=is_sweep_over_threads)
def threads_figure(records: Sequence[Record]) -> Drawing:
    """Throughput with more compute threads in each process, relative to that of the same system
    with the fewest, paired by block. Markers and lines: means of the logarithms over the blocks,
    medians from six on, with 95% intervals. Dotted: no speedup, and that of the number of threads.
    """
    speedups = thread_speedup(records)
    if speedups["speedup"].isna().all():
        return no_drawing("no run succeeded")
    systems = list(dict.fromkeys(speedups["system"]))
    plot, axes = system_rows(systems, 0.7)
    speedups["row"] = speedups["system"].map(systems.index)
    ratios = speedups["threads"] / speedups["fewest"]
    for ratio in (1.0, *ratios.unique()):
        axes.axvline(ratio, color=style.FOREGROUND, linewidth=1, linestyle=(0, (1, 2)))
    for point in speedups.dropna(subset="speedup").to_dict("records"):
        colour, position = style.system_colour(point["system"]), (point["speedup"], point["row"])
        axes.hlines(point["row"], point["low"], point["high"], color=colour, linewidth=1.4)
        axes.plot(*position, style.system_marker(point["system"]), color=colour, markersize=6)
        text = f"{point['speedup']:.2f} with {point['threads']} threads"
        style.annotate(axes, text, position, (0, 10), ha="center")
    fewest = counted(int(speedups["fewest"].iloc[0]), "compute thread")
    axes.set_xlabel(f"speedup over {fewest} in each process")
    return Drawing(plot, speedups.drop(columns="row"))

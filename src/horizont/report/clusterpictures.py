"""The figures of distributed training: what crosses the wire, and how it scales."""

from __future__ import annotations

from collections.abc import Sequence

from horizont import analysis
from horizont.records import Record
from horizont.report import figures
from horizont.report.picture import Picture


def traffic_picture(records: Sequence[Record]) -> Picture:
    """Draw the bytes of each host in a step, beside the theory."""
    caption = (
        "What each host sent (left) and received (right) for one step of each worker, by the "
        "counters of its own interface, over the time in which all workers made bare steps. "
        "Strokes: the numbers alone, in theory; a distance to the right of them is headers and "
        "acknowledgements. What stays on a host does not count."
    )
    found = analysis.traffic(records)
    return Picture(figures.traffic_dots(found), "traffic", caption, found)


def link_picture(records: Sequence[Record]) -> Picture:
    """Draw the step over the rate of the links."""
    caption = (
        "A worker's bare step over the rate of each host's link, both logarithmic; median over "
        "the runs. Black: how long the busiest direction of any link needs for the numbers alone. "
        "A ring uses all links alike, a single server's link carries what all workers exchange."
    )
    found = analysis.transfers(records)
    return Picture(figures.link_curves(found), "links", caption, found)


def scaling_picture(records: Sequence[Record]) -> Picture:
    """Draw throughput and speedup over the number of workers."""
    strong = analysis.is_strong([record.run for record in records])
    caption = (
        "Throughput of all workers together (above) and speedup over one worker (below; dotted: "
        "the ideal), medians over the runs with their intervals. An open mark: the hosts together "
        "want more processors than the machine has, so they compete."
    )
    found = analysis.scaling(records)
    figure = figures.scaling_curves(found, strong=strong)
    return Picture(figure, "scaling", caption, found)

"""The picture of the whole study: every system on every workload, from the metrics alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from horizont.analysis import from_metrics
from horizont.report import figures
from horizont.report.picture import Picture

#: The metrics of an experiment on a workload, as of `horizont.analysis.metrics`.
Metrics = Mapping[str, Mapping[str, Any]]


def headline(panels: Mapping[str, Metrics]) -> Picture:
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
        return Picture(figures.sentence(said), "headline", elsewhere)
    tables = {title: from_metrics(found) for title, found in panels.items()}
    figure = figures.stacked_panels(tables)
    caption = (
        "Where the time of a training step goes. Bars: mean instrumented step of a worker, by "
        "phase. Marks: bare step, median over repeated runs with its interval; the distance "
        "between bar and mark is what looking cost."
    )
    data = [each.assign(panel=title) for title, pair in tables.items() for each in pair]
    return Picture(figure, "headline", caption, pd.concat(data) if data else None)

"""Figures of resources: long curves are thinned, and their peaks stay."""

from __future__ import annotations

import numpy as np
import pandas as pd

from horizont.analysis.resources import TOTAL
from horizont.reporting.figures.resources import MAX_POINTS, resource_charts

NO_SEGMENTS = pd.DataFrame(columns=["kind", "start_s", "end_s"])


def drawn_curve(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draw the memory of a process; return the curve of the panel at the left."""
    times = np.arange(len(values)) / 10.0
    rows = [
        pd.DataFrame({"time_s": times, "quantity": "memory", "name": name, "value": values})
        for name in ("worker-0", TOTAL)
    ]
    plot = resource_charts(pd.concat(rows), NO_SEGMENTS)
    panel = next(axes for axes in plot.axes if axes.get_title() == "memory, MiB: each process")
    (line,) = (line for line in panel.lines if len(line.get_xdata()) > 2)
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


def test_the_peaks_of_a_long_curve_are_drawn() -> None:
    values = 100.0 + np.sin(np.arange(5000))
    values[1234], values[4321] = 900.0, 1.0
    times, drawn = drawn_curve(values)
    assert len(drawn) <= MAX_POINTS
    assert (np.diff(times) > 0).all()
    assert drawn.max() == 900.0
    assert times[drawn.argmax()] == 123.4
    assert times[drawn.argmin()] == 432.1


def test_a_short_curve_is_drawn_as_it_is() -> None:
    values = np.arange(float(MAX_POINTS))
    assert list(drawn_curve(values)[1]) == list(values)

"""Small charts as SVG, written by hand: a refresh must not cost what a plotting library costs."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from horizont.analysis.resources import TOTAL
from horizont.reporting.style import SEGMENT_COLOURS, UNKNOWN_COLOUR, process_colour

#: The size of the drawing, in its own units, and the room left for labels.
WIDTH, HEIGHT = 460, 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 8, 10, 20
_STRIP = 5
#: Where an axis may end, in powers of ten.
_STEPS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0, 15.0)
#: Points of a line; more are averaged.
_POINTS = 300

_INK = "var(--jp-ui-font-color1,#24292f)"
_LINES = {"sent": "#3f9c7c", "received": "#8a6d3b"}


@dataclass(frozen=True)
class Frame:
    """How seconds and values become places in the drawing."""

    start_s: float
    end_s: float
    top: float

    def x(self, time_s: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Place times."""
        span_s = max(self.end_s - self.start_s, 1e-9)
        return _LEFT + (time_s - self.start_s) / span_s * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Place values."""
        return HEIGHT - _BOTTOM - value / self.top * (HEIGHT - _BOTTOM - _TOP)


def chart(
    title: str, unit: str, table: pd.DataFrame, segments: pd.DataFrame, span_s: tuple[float, float]
) -> str:
    """Draw one quantity over time, with the newest value of each line beside its name.

    Parameters
    ----------
    table
        ``time_s``, ``name``, ``value``; inside the span.
    segments
        As of `horizont.analysis.resources`.
    span_s
        The shown range of time, in seconds.
    """
    frame = Frame(*span_s, top=nice_top(float(table["value"].max()) if len(table) else 0.0))
    names = sorted(table["name"].unique(), key=lambda name: (name == TOTAL, name))
    parts = [_segments(frame, segments), _grid(frame)]
    parts += [_line(frame, name, table[table["name"] == name]) for name in names]
    if table.empty:
        parts.append(f'<text class="hz-none" x="{WIDTH / 2}" y="{HEIGHT / 2}">not measured</text>')
    keys = "".join(_key(name, table[table["name"] == name], unit) for name in names)
    head = f"<figcaption><b>{html.escape(title)}</b> {unit}<span>{keys}</span></figcaption>"
    return f'<figure>{head}<svg viewBox="0 0 {WIDTH} {HEIGHT}">{"".join(parts)}</svg></figure>'


def nice_top(largest: float) -> float:
    """Find a round number above a value, so that the axis keeps still from look to look."""
    if not largest > 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(largest))
    return next(step * size for step in _STEPS if step * size >= 1.05 * largest)


def clock(time_s: float) -> str:
    """Write seconds as `42 s` or `3:05`."""
    if abs(time_s) < 120:
        return f"{time_s:.0f} s"
    minutes, seconds = divmod(round(time_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def colour_of(name: str) -> str:
    """Tell the colour of a line; that of all processes is the page's ink."""
    return _INK if name == TOTAL else _LINES.get(name, process_colour(name))


def _grid(frame: Frame) -> str:
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = float(frame.y(np.array(share * frame.top)))
        parts.append(f'<path class="hz-grid" d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}"/>')
        label = f"{share * frame.top:g}"
        parts.append(f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" class="hz-y">{label}</text>')
    for share, side in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        x = _LEFT + share * (WIDTH - _LEFT - _RIGHT)
        time_s = frame.start_s + share * (frame.end_s - frame.start_s)
        parts.append(
            f'<text x="{x:.0f}" y="{HEIGHT - 5}" text-anchor="{side}">{_when(frame, time_s)}</text>'
        )
    return "".join(parts)


def _when(frame: Frame, time_s: float) -> str:
    return clock(time_s) if frame.end_s - frame.start_s > 10 else f"{time_s:.1f} s"


def _segments(frame: Frame, segments: pd.DataFrame) -> str:
    parts = []
    for segment in segments.itertuples():
        ends = np.clip([segment.start_s, segment.end_s], frame.start_s, frame.end_s)
        left, right = frame.x(ends)
        if right - left > 0.05:
            colour = SEGMENT_COLOURS.get(str(segment.kind), UNKNOWN_COLOUR)
            box = f'x="{left:.1f}" width="{right - left:.1f}" fill="{colour}"'
            high = HEIGHT - _TOP - _BOTTOM
            parts.append(f'<rect {box} y="{_TOP}" height="{high}" opacity=".09"/>')
            parts.append(f'<rect {box} y="{_TOP - _STRIP}" height="{_STRIP}"/>')
    return "".join(parts)


def _line(frame: Frame, name: str, own: pd.DataFrame) -> str:
    time_s, value = thinned(own["time_s"].to_numpy(float), own["value"].to_numpy(float))
    places = zip(frame.x(time_s), frame.y(value), strict=True)
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dash = ' stroke-dasharray="5 4"' if name == "received" else ""
    thin = ' class="hz-whole"' if name == TOTAL else ""
    return f'<polyline points="{points}" stroke="{colour_of(name)}"{dash}{thin}/>'


def thinned(
    time_s: npt.NDArray[np.float64], value: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Average neighbours until a line has no more points than can be seen."""
    size = math.ceil(len(time_s) / _POINTS)
    if size < 2:
        return time_s, value
    starts = np.arange(0, len(time_s), size)
    counts = np.diff(np.append(starts, len(time_s)))
    return np.add.reduceat(time_s, starts) / counts, np.add.reduceat(value, starts) / counts


def _key(name: str, own: pd.DataFrame, unit: str) -> str:
    newest = own["value"].iloc[-1]
    shown = f"{newest:,.0f}" if newest >= 10 or newest == int(newest) else f"{newest:.1f}"
    dot = f'<i style="background:{colour_of(name)}"></i>'
    return f'<em title="{unit}">{dot}{html.escape(name)} {shown}</em>'


def legend(kinds: Sequence[str], titles: Sequence[str]) -> str:
    """Name the colours of the segments."""
    return "".join(
        f'<em><i style="background:{SEGMENT_COLOURS.get(kind, UNKNOWN_COLOUR)}"></i>{title}</em>'
        for kind, title in zip(kinds, titles, strict=True)
    )

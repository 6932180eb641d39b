"""The style of all figures: colours, markers, rows, axes and legends.

Colours follow Okabe and Ito ("Color universal design", 2008) and Tol ("Colour schemes", 2021):
they differ in lightness as well as in hue, so that colour-blind readers and grey prints can
distinguish them. Wherever colour carries a meaning, a marker, a hatch or a label carries it too.

Text, grid and background have fixed greys, which a style sheet replaces on a dark page. The
colours of the data are readable on white and on near-black.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from horizont.config.system import DEFAULT, framework_info, parse_system

FOREGROUND = "#24292f"
MUTED = "#6b7280"
GRID = "#d8dee4"
BACKGROUND = "#fefefe"

#: Their replacements on a dark page.
DARK_COLOURS = {FOREGROUND: "#e6edf3", MUTED: "#9aa4b0", GRID: "#3a424c", BACKGROUND: "#121820"}

UNKNOWN_COLOUR = "#7f7f7f"

#: Colour and hatch of a bar.
Fill = tuple[str, str | None]

#: Loading and computing have cool colours, the cost of distribution warm ones.
PHASE_COLOURS = {
    "load": "#e3cf6b",
    "forward": "#7cc0e8",
    "backward": "#3b78b4",
    "waiting": "#efa58f",
    "communication": "#c8413b",
    "update": "#3f9c7c",
    "other": "#a9b1ba",
}
PHASE_FILLS: dict[str, Fill] = {
    phase: (colour, "////" if phase == "waiting" else None)
    for phase, colour in PHASE_COLOURS.items()
}

#: Forward and backward pass; equal for classes that belong to neither.
OPERATOR_CLASS_COLOURS: dict[str, tuple[str, str]] = {
    "convolution": ("#8fc4ea", "#2c6ca8"),
    "batch norm": ("#9fd4bc", "#2f8263"),
    "pooling": ("#e3a9cc", "#a0307a"),
    "fully connected": ("#f5c27e", "#cf6c0c"),
    "activation": ("#ece095", "#b59a1d"),
    "recurrent": ("#c3b8e6", "#6a51b5"),
    "embedding": ("#d7bfa3", "#7d5a33"),
    "dropout": ("#bfe3e6", "#3a8f98"),
    "element-wise": ("#d4d9de", "#7d8894"),
    "loss": ("#f2b9ae", "#b5523f"),
    "weight update": ("#3f9c7c", "#3f9c7c"),
    "communication": ("#c8413b", "#c8413b"),
    "copy/layout": ("#5d6670", "#5d6670"),
    "compiled": ("#454b9a", "#454b9a"),
    "other": ("#a9b1ba", "#a9b1ba"),
}

STARTUP_COLOURS = ("#c9d3de", "#7cc0e8", "#d9c25c", "#3b78b4", "#3f9c7c", "#efa58f")

PAIR_COLOURS = ("#2a7fba", "#e07b12", "#3f9c7c", "#b2387c", "#8a6d3b", "#6b7280")
PAIR_MARKERS = ("o", "s", "D", "^", "v", "P")

#: Of a few ordered values, from small to large.
ORDINAL_COLOURS = ("#2a7fba", "#3f9c7c", "#d0a414", "#e0701a", "#b2387c", "#7a5fc0")

#: Of processes and hosts, by rank within their role.
PROCESS_COLOURS = {
    **dict.fromkeys(("worker", "host", "process"), (*PAIR_COLOURS[:5], "#5b6bb5")),
    "server": ("#c8413b", "#8f2d56"),
    "chief": ("#6b7280",),
    "scheduler": ("#a9a9a9",),
}

#: The segments of a run, in the order of the run and of the legend.
SEGMENT_COLOURS = {
    "start-up": "#a9b1ba",
    "warmup": "#e3cf6b",
    "timed": "#3f9c7c",
    "instrumented": "#b2387c",
    "evaluation": "#5b6bb5",
    "profiled": "#8a6d3b",
}

#: Of a text that says why something is missing.
ASIDE: dict[str, Any] = {"color": MUTED, "style": "italic"}

LineStyle = Literal["-", "--", "-.", ":"]

#: Seaborn's dashes of the line styles, in line widths.
DASHES = {"-": "", "--": (4, 1.6), "-.": (4, 1.6, 1, 1.6), ":": (1, 1.6)}

#: Width of a figure in inches: 650 pixels in a browser, the width of the book's text.
FIGURE_WIDTH = 6.8

#: Height of a row in inches.
ROW_HEIGHT = 0.52

#: Sizes of the text of a legend, the height of its rows in inches, and how many of them the heights
#: of figures include.
_LEGEND_PT = (9.0, 8.0)
_LEGEND_ROW_HEIGHT = 0.19
_INCLUDED_LEGEND_ROWS = 2

_RC_PARAMS: dict[Any, Any] = {
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.facecolor": "none",
    "axes.edgecolor": GRID,
    "axes.labelcolor": FOREGROUND,
    "axes.titlecolor": FOREGROUND,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9.5,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.bottom": False,
    "ytick.left": False,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": FOREGROUND,
    "ytick.labelcolor": FOREGROUND,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "text.color": FOREGROUND,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.hinting": "no_hinting",  # hinted at the resolution of SVG, texts would seem narrower
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.handlelength": 1.4,
    "legend.handleheight": 1.0,
    "xtick.major.size": 6,
    "ytick.major.size": 6,
    "patch.edgecolor": BACKGROUND,
    "patch.force_edgecolor": True,
    "lines.solid_capstyle": "round",
    "hatch.color": BACKGROUND,
    "hatch.linewidth": 1.2,
    "lines.linewidth": 1.6,
    "svg.fonttype": "none",
    "svg.hashsalt": "horizont",
}


@contextmanager
def book_style() -> Iterator[None]:
    """Apply the style of the book meanwhile."""
    with mpl.rc_context(_RC_PARAMS):
        yield


def new_figure(height: float, width: float = FIGURE_WIDTH) -> Figure:
    """Create a figure with a size in inches, outside pyplot's global state."""
    return Figure(figsize=(width, height), layout="constrained")


def message_figure(text: str) -> Figure:
    """Plot a sentence where there is nothing else to plot."""
    figure = new_figure(0.8)
    axes = figure.subplots()
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, ha="center", va="center", **ASIDE)
    return figure


def framework_colour(framework: str) -> str:
    """Return the colour of a framework."""
    return framework_info(framework).colour


def line_style(system: str) -> LineStyle:
    """Return the line style of a system: solid for all-reduce and single processes."""
    parsed = parse_system(system)
    if parsed.variant != DEFAULT or parsed.architecture == "mpi":
        return ":"
    if parsed.sync == "async":
        return "--"
    return "-." if parsed.architecture == "parameter_server" else "-"


def system_colour(system: str) -> str:
    """Return the colour of a system: that of its framework, shaded for a variant."""
    parsed = parse_system(system)
    colour = framework_colour(parsed.framework)
    if parsed.variant == DEFAULT:
        return colour
    tone = parsed.variant_info.tone
    target = 1.0 if tone > 0 else 0.0
    red, green, blue = (part + (target - part) * abs(tone) for part in to_rgb(colour))
    return to_hex((red, green, blue))


def system_marker(system: str) -> str:
    """Return the marker of a system, which is that of its framework."""
    return framework_info(parse_system(system).framework).marker


def marker_style(system: str) -> dict[str, Any]:
    """Return marker properties: hollow if asynchronous, half filled for a variant."""
    parsed = parse_system(system)
    colour = system_colour(system)
    return {
        "marker": system_marker(system),
        "color": BACKGROUND if parsed.sync == "async" else colour,
        "fillstyle": "full" if parsed.variant == DEFAULT else parsed.variant_info.fill,
        "markerfacecoloralt": BACKGROUND,
        "markeredgecolor": colour,
        "linestyle": "none",
    }


def system_line_style(systems: Sequence[str]) -> dict[str, Any]:
    """Return the arguments by which Seaborn draws a line per system."""
    return {
        "hue": "system",
        "style": "system",
        "palette": {system: system_colour(system) for system in systems},
        "dashes": {system: DASHES[line_style(system)] for system in systems},
        "legend": False,
    }


def process_colour(name: str) -> str:
    """Return the colour of a process, for example `worker-0`, by its role and rank."""
    if name == "all":
        return FOREGROUND
    role, _, rank = name.rpartition("-")
    colours = PROCESS_COLOURS.get(role, ())
    return colours[int(rank) % len(colours)] if colours and rank.isdigit() else UNKNOWN_COLOUR


def operator_class_fill(name: str) -> Fill:
    """Return the fill of an operator class; time outside all operators is hatched."""
    plain = name.removesuffix(" backward")
    if plain not in OPERATOR_CLASS_COLOURS:
        return GRID, "////"
    return OPERATOR_CLASS_COLOURS[plain][plain != name], None


def grid_axis(axes: Axes, axis: str) -> None:
    """Set the grid lines of one axis only (`x` or `y`), without a frame."""
    axes.grid(visible=False, axis="y" if axis == "x" else "x")
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0)


def set_slanted_labels(axes: Axes) -> None:
    """Set slanted labels on a horizontal axis, where they would overlap otherwise."""
    for label in axes.get_xticklabels():
        label.set(rotation=38, rotation_mode="anchor", ha="right", va="center", fontsize=8)


def annotate(
    axes: Axes,
    text: str,
    position: tuple[float, float],
    offset: tuple[float, float],
    **properties: Any,
) -> None:
    """Add a text at an offset in points from a position."""
    properties = {"va": "center", "fontsize": 8.5, **properties}
    axes.annotate(text, position, offset, textcoords="offset points", **properties)


def set_log_scale(axes: Axes, axis: Literal["x", "y"]) -> None:
    """Set a logarithmic scale with few labels, which do not overlap.

    To be called after plotting, since the limits of the axis decide which ticks are labelled.
    """
    axes.set(**{f"{axis}scale": "log"})
    scaled = axes.xaxis if axis == "x" else axes.yaxis
    low, high = scaled.get_view_interval()
    is_dense = high < 100 * low
    scaled.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if is_dense else (1.0,)))
    scaled.set_major_formatter("{x:,g}")
    scaled.set_minor_formatter(NullFormatter())


def legend_above(figure: Figure, handles: Sequence[Artist], columns: int, **spacing: float) -> None:
    """Add a legend above all axes of a figure, which becomes higher for a legend of many rows.

    If the legend would be wider than the figure, it is set in smaller type, or in fewer columns.
    """
    layouts = [(number, size) for number in range(columns, 0, -1) for size in _LEGEND_PT]
    for number, size in layouts:
        legend = figure.legend(
            handles=list(handles),
            loc="outside upper left",
            ncols=number,
            fontsize=size,
            **spacing,
        )
        if legend.get_window_extent().width <= figure.bbox.width or number == 1:
            break
        legend.remove()
    rows = math.ceil(len(handles) / number)
    figure.set_figheight(
        figure.get_figheight() + _LEGEND_ROW_HEIGHT * max(0, rows - _INCLUDED_LEGEND_ROWS)
    )

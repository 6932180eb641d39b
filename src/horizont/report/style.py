"""The look of every figure: colours, marks and sizes, fixed in this one place.

Colours follow Okabe and Ito ("Color universal design", 2008) and Tol ("Colour schemes", 2021):
they differ in lightness as well as in hue, so they can be told apart by colour-blind readers and
on a grey print. Wherever colour carries a meaning, a mark, a hatch or a label carries it too.

Ink, grid and paper are drawn in three fixed greys that a style sheet may turn for a dark page
(see `horizont.report.svg`); the colours of the data are readable on white and on near-black.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.typing import FillStyleType

from horizont.report import words

INK = "#24292f"
FAINT = "#6b7280"
GRID = "#d8dee4"
PAPER = "#fefefe"

#: The same on a dark page.
DARK = {INK: "#e6edf3", FAINT: "#9aa4b0", GRID: "#3a424c", PAPER: "#121820"}

FRAMEWORK_COLOURS = {"tensorflow": "#e07b12", "pytorch": "#b2387c", "mxnet": "#2a7fba"}
FRAMEWORK_MARKS = {"tensorflow": "o", "pytorch": "s", "mxnet": "D"}
UNKNOWN_COLOUR = "#7f7f7f"

#: A build has its framework's colour, lighter or darker, and the mark filled on one side only.
BUILD_TONES = {
    "compiled": -0.4,
    "channels_last": 0.45,
    "xla": -0.4,
    "eager": 0.35,
    "onednn": -0.55,
    "no_onednn": 0.6,
    "dynamic_alloc": -0.4,
}
UNKNOWN_TONE = 0.6
BUILD_FILLS: dict[str, FillStyleType] = {
    "compiled": "bottom",
    "channels_last": "left",
    "xla": "bottom",
    "eager": "left",
    "onednn": "top",
    "no_onednn": "right",
    "dynamic_alloc": "bottom",
}

#: Reading and computing are cool and plain, what distribution costs is warm.
PART_COLOURS = {
    "load": "#e3cf6b",
    "forward": "#7cc0e8",
    "backward": "#3b78b4",
    "waiting": "#efa58f",
    "communication": "#c8413b",
    "update": "#3f9c7c",
    "other": "#a9b1ba",
}
PART_HATCHES = {"waiting": "////"}

#: Forward and backward of a class of operators; the other classes have one colour.
CLASS_COLOURS: dict[str, tuple[str, str]] = {
    "convolution": ("#8fc4ea", "#2c6ca8"),
    "batch norm": ("#9fd4bc", "#2f8263"),
    "pooling": ("#e3a9cc", "#a0307a"),
    "fully connected": ("#f5c27e", "#cf6c0c"),
    "activation": ("#ece095", "#b59a1d"),
    "recurrent": ("#c3b8e6", "#6a51b5"),
    "word table": ("#d7bfa3", "#7d5a33"),
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
PAIR_MARKS = ("o", "s", "D", "^", "v", "P")

PROCESS_COLOURS = {
    "worker": ("#2a7fba", "#e07b12", "#3f9c7c", "#b2387c", "#8a6d3b", "#5b6bb5"),
    "host": ("#2a7fba", "#e07b12", "#3f9c7c", "#b2387c", "#8a6d3b", "#5b6bb5"),
    "process": ("#2a7fba", "#e07b12", "#3f9c7c", "#b2387c", "#8a6d3b", "#5b6bb5"),
    "server": ("#c8413b", "#8f2d56"),
    "chief": ("#6b7280",),
    "scheduler": ("#a9a9a9",),
}

#: The segments of a run, in their order; each has its name in a legend of the same order.
SEGMENT_COLOURS = {
    "start-up": "#a9b1ba",
    "warmup": "#e3cf6b",
    "bare": "#3f9c7c",
    "instrumented": "#b2387c",
    "evaluation": "#5b6bb5",
    "profiled": "#8a6d3b",
}

Dash = Literal["-", "--", "-.", ":"]

#: Width of a figure in inches: 650 pixels in a browser, the width of the book's text.
WIDTH = 6.8

_SETTINGS: dict[Any, Any] = {
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.facecolor": "none",
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
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
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "text.color": INK,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.handlelength": 1.4,
    "legend.handleheight": 1.0,
    "xtick.major.size": 6,
    "ytick.major.size": 6,
    "patch.edgecolor": PAPER,
    "patch.force_edgecolor": True,
    "lines.solid_capstyle": "round",
    "hatch.color": PAPER,
    "hatch.linewidth": 1.2,
    "lines.linewidth": 1.6,
    "svg.fonttype": "none",
    "svg.hashsalt": "horizont",
}


@contextmanager
def drawing() -> Iterator[None]:
    """Draw in the book's look, and leave the settings of matplotlib as they were."""
    with mpl.rc_context(_SETTINGS):
        yield


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """Make a figure of a size in inches that no window and no global state holds on to."""
    return Figure(figsize=(width, height), layout="constrained")


def framework_colour(framework: str) -> str:
    """Tell the colour of a framework."""
    return FRAMEWORK_COLOURS.get(framework, UNKNOWN_COLOUR)


def system_dash(system: str) -> Dash:
    """Tell the kind of line of a system: whole for all-reduce and one process."""
    if words.build_of(system):
        return ":"
    if "/async/" in system:
        return "--"
    return "-." if system.endswith("/sync/parameter_server") else "-"


def system_colour(system: str) -> str:
    """Tell the colour of a system: that of its framework, in a tone of its own for a build."""
    colour = framework_colour(words.framework_of(system))
    build = words.build_of(system)
    if not build:
        return colour
    tone = BUILD_TONES.get(build, UNKNOWN_TONE)
    towards = 255 if tone > 0 else 0
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(part + (towards - part) * abs(tone)):02x}" for part in parts)


def system_mark(system: str) -> dict[str, Any]:
    """Tell how a system is marked: one that waits for the others is filled, a build half."""
    colour = system_colour(system)
    half = BUILD_FILLS.get(words.build_of(system), "top") if words.build_of(system) else "full"
    return {
        "marker": FRAMEWORK_MARKS.get(words.framework_of(system), "o"),
        "color": PAPER if "/async/" in system else colour,
        "fillstyle": half,
        "markerfacecoloralt": PAPER,
        "markeredgecolor": colour,
        "linestyle": "none",
    }


def process_colour(name: str) -> str:
    """Tell the colour of a process by its role and number: `worker-0`."""
    if name == "all":
        return INK
    role, _, number = name.rpartition("-")
    colours = PROCESS_COLOURS.get(role)
    if not colours or not number.isdigit():
        return UNKNOWN_COLOUR
    return colours[int(number) % len(colours)]


def class_look(name: str) -> tuple[str, str | None]:
    """Tell colour and hatch of a class of operators; what is outside of all is only hatched."""
    plain = name.removesuffix(" backward")
    if plain not in CLASS_COLOURS:
        return GRID, "////"
    return CLASS_COLOURS[plain][plain != name], None


def only_grid(axes: Axes, axis: str) -> None:
    """Keep the grid lines of one axis (`x` or `y`) and drop the frame."""
    axes.grid(visible=False, axis="y" if axis == "x" else "x")
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0)

"""The look of every figure: colours, marks and sizes, fixed in this one place.

Colours follow Okabe and Ito ("Color universal design", 2008) and Tol ("Colour schemes", 2021):
they differ in lightness as well as in hue, so they can be told apart by colour-blind readers and
on a grey print. Wherever colour carries a meaning, a mark, a hatch or a label carries it too.

Ink, grid and paper are drawn in three fixed greys that a style sheet may turn for a dark page
(see `horizont.reporting.style`); the colours of the data are readable on white and on near-black.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from horizont.config.framework import VariantInfo
from horizont.config.system import FRAMEWORKS, framework_info
from horizont.reporting import labels

FOREGROUND = "#24292f"
MUTED = "#6b7280"
GRID = "#d8dee4"
BACKGROUND = "#fefefe"

#: The same on a dark page.
DARK_COLOURS = {FOREGROUND: "#e6edf3", MUTED: "#9aa4b0", GRID: "#3a424c", BACKGROUND: "#121820"}

UNKNOWN_COLOUR = "#7f7f7f"

#: Reading and computing are cool and plain, what distribution costs is warm.
PHASE_COLOURS = {
    "load": "#e3cf6b",
    "forward": "#7cc0e8",
    "backward": "#3b78b4",
    "waiting": "#efa58f",
    "communication": "#c8413b",
    "update": "#3f9c7c",
    "other": "#a9b1ba",
}
PHASE_HATCHES = {"waiting": "////"}

#: Forward and backward of a class of operators; the other classes have one colour.
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
    "timed": "#3f9c7c",
    "instrumented": "#b2387c",
    "evaluation": "#5b6bb5",
    "profiled": "#8a6d3b",
}

LineStyle = Literal["-", "--", "-.", ":"]

#: Width of a figure in inches: 650 pixels in a browser, the width of the book's text.
FIGURE_WIDTH = 6.8

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
    """Draw in the book's look, and leave the settings of matplotlib as they were."""
    with mpl.rc_context(_RC_PARAMS):
        yield


def new_figure(height: float, width: float = FIGURE_WIDTH) -> Figure:
    """Make a figure of a size in inches that no window and no global state holds on to."""
    return Figure(figsize=(width, height), layout="constrained")


def framework_colour(framework: str) -> str:
    """Return the colour of a framework."""
    return framework_info(framework).colour if framework in FRAMEWORKS else UNKNOWN_COLOUR


def framework_marker(framework: str) -> str:
    """Return the marker of a framework."""
    return framework_info(framework).marker if framework in FRAMEWORKS else "o"


def _variant_info(system: str) -> VariantInfo:
    """Return the information about the variant of a system, known or not."""
    framework, variant = labels.framework_of(system), labels.variant_of(system)
    known = framework_info(framework).variants if framework in FRAMEWORKS else {}
    return known.get(variant, VariantInfo(mechanism=variant))


def line_style(system: str) -> LineStyle:
    """Tell the kind of line of a system: whole for all-reduce and one process."""
    if labels.variant_of(system):
        return ":"
    if "/async/" in system:
        return "--"
    return "-." if system.endswith("/sync/parameter_server") else "-"


def system_colour(system: str) -> str:
    """Return the colour of a system: that of its framework, shaded for a variant."""
    colour = framework_colour(labels.framework_of(system))
    if not labels.variant_of(system):
        return colour
    tone = _variant_info(system).tone
    towards = 255 if tone > 0 else 0
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(part + (towards - part) * abs(tone)):02x}" for part in parts)


def marker_style(system: str) -> dict[str, Any]:
    """Return the marker of a system: hollow if asynchronous, filled on one side for a variant."""
    colour = system_colour(system)
    return {
        "marker": framework_marker(labels.framework_of(system)),
        "color": BACKGROUND if "/async/" in system else colour,
        "fillstyle": _variant_info(system).fill if labels.variant_of(system) else "full",
        "markerfacecoloralt": BACKGROUND,
        "markeredgecolor": colour,
        "linestyle": "none",
    }


def process_colour(name: str) -> str:
    """Tell the colour of a process by its role and number: `worker-0`."""
    if name == "all":
        return FOREGROUND
    role, _, number = name.rpartition("-")
    colours = PROCESS_COLOURS.get(role)
    if not colours or not number.isdigit():
        return UNKNOWN_COLOUR
    return colours[int(number) % len(colours)]


def operator_class_style(name: str) -> tuple[str, str | None]:
    """Tell colour and hatch of a class of operators; what is outside of all is only hatched."""
    plain = name.removesuffix(" backward")
    if plain not in OPERATOR_CLASS_COLOURS:
        return GRID, "////"
    return OPERATOR_CLASS_COLOURS[plain][plain != name], None


def grid_axis(axes: Axes, axis: str) -> None:
    """Keep the grid lines of one axis (`x` or `y`) and drop the frame."""
    axes.grid(visible=False, axis="y" if axis == "x" else "x")
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0)


FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"

#: Where a page says that it is dark: the book's theme, and JupyterLab's.
_DARK_PAGES = ('html[data-theme="dark"]', 'body[data-jp-theme-light="false"]')


def standalone_svg(figure: Figure, title: str) -> str:
    """Write a figure as a file of its own, which follows the reader's dark mode."""
    rules = _dark_rules("")
    style = f"<style>@media (prefers-color-scheme: dark) {{{rules}}}</style>"
    text = _insert_title(_render_svg(figure), title)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + _after_open_tag(text, style)


def inline_svg(figure: Figure, title: str) -> str:
    """Write a figure as a part of a page, with names that no other figure of the page has."""
    text = _render_svg(figure)
    mark = hashlib.sha256(text.encode()).hexdigest()[:8]
    text = re.sub(r'\bid="([^"]+)"', rf'id="{mark}-\1"', text)
    text = re.sub(r"(url\(#|href=\"#)", rf"\g<1>{mark}-", text)
    rules = "".join(_dark_rules(f"{page} .hz-figure ") for page in _DARK_PAGES)
    return _after_open_tag(_insert_title(text, title), f"<style>@media screen {{{rules}}}</style>")


def _render_svg(figure: Figure) -> str:
    """Render a figure and drop what differs from day to day or says nothing."""
    file = io.StringIO()
    with book_style():  # whether text stays text is decided when the file is written
        _apply_layout(figure)
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"font-family: [^;\"]+|(?<=px )'DejaVu Sans'[^;\"]*", _replace_font, text)
    text = re.sub(r'(<svg[^>]*?) height="[^"]+pt"', r"\1", text)  # follows from the width
    text = re.sub(r'(<svg[^>]*?) width="([^"]+)pt"', _points_to_pixels, text)
    # A mark's shape has its colours where it is used; its own would hide the dark page's.
    text = re.sub(r'(<path id="m[^>]*?) style="[^"]*"', r"\1", text)
    text = re.sub(r"(\d+\.\d{2})\d+", r"\1", text)  # a hundredth of a point is enough
    return re.sub(r"\s*\n\s*", "\n", text)


def _apply_layout(figure: Figure) -> None:
    """Lay a figure out, once: Matplotlib would do it twice, and draw everything for each time."""
    engine = figure.get_layout_engine()
    if engine is not None:
        figure.set_dpi(72)  # that of its SVG
        engine.execute(figure)
        figure.set_layout_engine(None)


def _replace_font(found: re.Match[str]) -> str:
    return f"font-family: {FONT}" if found.group().startswith("font-family") else FONT


def _points_to_pixels(found: re.Match[str]) -> str:
    return f'{found[1]} width="{float(found[2]) * 4 / 3:.0f}"'


def _dark_rules(selector: str) -> str:
    """Write the rules that turn the greys of a figure inside `where`."""
    return "".join(
        f'{selector}[style*="{kind}: {light}"]{{{kind}:{dark} !important}}'
        for light, dark in DARK_COLOURS.items()
        for kind in ("fill", "stroke")
    )


def _insert_title(text: str, title: str) -> str:
    """Say what the picture shows, for those who do not see it."""
    plain = title.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return text.replace("<svg ", f'<svg role="img" aria-label="{plain}" ', 1)


def _after_open_tag(text: str, part: str) -> str:
    place = text.index(">", text.index("<svg")) + 1
    return text[:place] + part + text[place:]

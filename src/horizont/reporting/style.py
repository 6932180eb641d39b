"""The style of all figures, and their conversion to SVG that follows the dark mode of a page.

Colours follow Okabe and Ito ("Color universal design", 2008) and Tol ("Colour schemes", 2021):
they differ in lightness as well as in hue, so that colour-blind readers and grey prints can
distinguish them. Wherever colour carries a meaning, a marker, a hatch or a label carries it too.

Text, grid and background have fixed greys, which a style sheet replaces on a dark page. The
colours of the data are readable on white and on near-black.
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

#: Their replacements on a dark page.
DARK_COLOURS = {FOREGROUND: "#e6edf3", MUTED: "#9aa4b0", GRID: "#3a424c", BACKGROUND: "#121820"}

UNKNOWN_COLOUR = "#7f7f7f"

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
PHASE_HATCHES = {"waiting": "////"}

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

_SERIES_COLOURS = ("#2a7fba", "#e07b12", "#3f9c7c", "#b2387c", "#8a6d3b", "#5b6bb5")
PROCESS_COLOURS = {
    "worker": _SERIES_COLOURS,
    "host": _SERIES_COLOURS,
    "process": _SERIES_COLOURS,
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
    """Apply the style of the book meanwhile."""
    with mpl.rc_context(_RC_PARAMS):
        yield


def new_figure(height: float, width: float = FIGURE_WIDTH) -> Figure:
    """Create a figure with a size in inches, outside pyplot's global state."""
    return Figure(figsize=(width, height), layout="constrained")


def message_figure(text: str) -> Figure:
    """Plot a sentence where there is nothing else to plot."""
    with book_style():
        figure = new_figure(0.8)
        axes = figure.subplots()
        axes.set_axis_off()
        axes.text(0.5, 0.5, text, ha="center", va="center", color=MUTED, style="italic")
    return figure


def framework_colour(framework: str) -> str:
    """Return the colour of a framework."""
    return framework_info(framework).colour if framework in FRAMEWORKS else UNKNOWN_COLOUR


def framework_marker(framework: str) -> str:
    """Return the marker of a framework."""
    return framework_info(framework).marker if framework in FRAMEWORKS else "o"


def _variant_info(system: str) -> VariantInfo:
    framework, variant = labels.framework_of(system), labels.variant_of(system)
    known = framework_info(framework).variants if framework in FRAMEWORKS else {}
    return known.get(variant, VariantInfo(mechanism=variant))


def line_style(system: str) -> LineStyle:
    """Return the line style of a system: solid for all-reduce and single processes."""
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
    target = 255 if tone > 0 else 0
    channels = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return "#" + "".join(f"{round(c + (target - c) * abs(tone)):02x}" for c in channels)


def system_marker(system: str) -> str:
    """Return the marker of a system, which is that of its framework."""
    return framework_marker(labels.framework_of(system))


def marker_style(system: str) -> dict[str, Any]:
    """Return marker properties: hollow if asynchronous, half filled for a variant."""
    colour = system_colour(system)
    return {
        "marker": system_marker(system),
        "color": BACKGROUND if "/async/" in system else colour,
        "fillstyle": _variant_info(system).fill if labels.variant_of(system) else "full",
        "markerfacecoloralt": BACKGROUND,
        "markeredgecolor": colour,
        "linestyle": "none",
    }


def process_colour(name: str) -> str:
    """Return the colour of a process, for example `worker-0`, by its role and rank."""
    if name == "all":
        return FOREGROUND
    role, _, rank = name.rpartition("-")
    colours = PROCESS_COLOURS.get(role)
    if not colours or not rank.isdigit():
        return UNKNOWN_COLOUR
    return colours[int(rank) % len(colours)]


def operator_class_style(name: str) -> tuple[str, str | None]:
    """Return colour and hatch of an operator class; time outside all operators is hatched."""
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


FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"

#: Selectors of a dark page: of the book's theme, and of JupyterLab.
_DARK_PAGES = ('html[data-theme="dark"]', 'body[data-jp-theme-light="false"]')


def standalone_svg(figure: Figure, title: str) -> str:
    """Convert a figure to an SVG document that follows the reader's colour scheme."""
    style = f"<style>@media (prefers-color-scheme: dark) {{{_dark_rules('')}}}</style>"
    svg = _insert_title(_render_svg(figure), title)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + _insert_in_svg(svg, style)


def inline_svg(figure: Figure, title: str) -> str:
    """Convert a figure to SVG for an HTML page, with IDs that no other figure has."""
    svg = _render_svg(figure)
    prefix = hashlib.sha256(svg.encode()).hexdigest()[:8]
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r"(url\(#|href=\"#)", rf"\g<1>{prefix}-", svg)
    rules = "".join(_dark_rules(f"{page} .hz-figure ") for page in _DARK_PAGES)
    return _insert_in_svg(_insert_title(svg, title), f"<style>@media screen {{{rules}}}</style>")


def _render_svg(figure: Figure) -> str:
    """Render a figure without what varies between renderings or is invisible."""
    file = io.StringIO()
    with book_style():  # svg.fonttype is read when the file is written
        _apply_layout(figure)
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: [^;\"]+|(?<=px )'DejaVu Sans'[^;\"]*", _replace_font, svg)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]+pt"', r"\1", svg)  # follows from the width
    svg = re.sub(r'(<svg[^>]*?) width="([^"]+)pt"', _points_to_pixels, svg)
    # A marker is coloured where it is used; a colour in its definition would override dark mode.
    svg = re.sub(r'(<path id="m[^>]*?) style="[^"]*"', r"\1", svg)
    svg = re.sub(r"(\d+\.\d{2})\d+", r"\1", svg)  # a hundredth of a point is enough
    return re.sub(r"\s*\n\s*", "\n", svg)


def _apply_layout(figure: Figure) -> None:
    """Run the layout engine once; Matplotlib runs it twice, with a full drawing each time."""
    engine = figure.get_layout_engine()
    if engine is not None:
        figure.set_dpi(72)  # the resolution of SVG
        engine.execute(figure)
        figure.set_layout_engine(None)


def _replace_font(match: re.Match[str]) -> str:
    return f"font-family: {FONT}" if match.group().startswith("font-family") else FONT


def _points_to_pixels(match: re.Match[str]) -> str:
    return f'{match[1]} width="{float(match[2]) * 4 / 3:.0f}"'


def _dark_rules(selector: str) -> str:
    """Return the rules that replace the greys of a figure inside a selector."""
    return "".join(
        f'{selector}[style*="{kind}: {light}"]{{{kind}:{dark} !important}}'
        for light, dark in DARK_COLOURS.items()
        for kind in ("fill", "stroke")
    )


def _insert_title(svg: str, title: str) -> str:
    """Add a description of the figure for screen readers."""
    plain = title.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{plain}" ', 1)


def _insert_in_svg(svg: str, element: str) -> str:
    start = svg.index(">", svg.index("<svg")) + 1
    return svg[:start] + element + svg[start:]

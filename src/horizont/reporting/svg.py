"""Figures as SVG that follows the dark mode of a page."""

from __future__ import annotations

import hashlib
import html
import io
import re

from matplotlib.figure import Figure

from horizont.reporting.style import DARK_COLOURS, book_style

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"

#: Selectors of a dark page: of the book's theme, and of JupyterLab.
_DARK_PAGES = ('html[data-theme="dark"]', 'body[data-jp-theme-light="false"]')


def standalone_svg(figure: Figure, title: str) -> str:
    """Convert a figure to an SVG document that follows the reader's colour scheme."""
    rules = f"@media (prefers-color-scheme: dark) {{{_dark_rules('')}}}"
    svg = _with_title_and_rules(_render_svg(figure), title, rules)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{svg}'


def inline_svg(figure: Figure, title: str) -> str:
    """Convert a figure to SVG for an HTML page, with IDs that no other figure has."""
    svg = _render_svg(figure)
    prefix = hashlib.sha256(svg.encode()).hexdigest()[:8]
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r"(url\(#|href=\"#)", rf"\g<1>{prefix}-", svg)
    rules = "".join(_dark_rules(f"{page} .hz-figure ") for page in _DARK_PAGES)
    return _with_title_and_rules(svg, title, f"@media screen {{{rules}}}")


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
    svg = re.sub(r"font-family: [^;\"]+", f"font-family: {FONT}", svg)
    svg = re.sub(r"(?<=px )'DejaVu Sans'[^;\"]*", FONT, svg)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]+pt"', r"\1", svg)  # follows from the width
    pixels = f"{figure.get_figwidth() * 96:.0f}"
    svg = re.sub(r'(<svg[^>]*?) width="[^"]+pt"', rf'\1 width="{pixels}"', svg)
    # A marker is coloured where it is used; a colour in its definition would override dark mode.
    svg = re.sub(r'(<path id="m[^>]*?) style="[^"]*"', r"\1", svg)
    # A hundredth of a point is enough; a text may need more digits.
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\d+\.\d{2})\d+", r"\1", tag[0]), svg)
    return re.sub(r"\s*\n\s*", "\n", svg)


def _apply_layout(figure: Figure) -> None:
    """Run the layout engine once; Matplotlib runs it twice, with a full drawing each time."""
    engine = figure.get_layout_engine()
    if engine is not None:
        figure.set_dpi(72)  # the resolution of SVG
        engine.execute(figure)
        figure.set_layout_engine(None)


def _dark_rules(selector: str) -> str:
    """Return the rules that replace the greys of a figure inside a selector."""
    return "".join(
        f'{selector}[style*="{kind}: {light}"]{{{kind}:{dark} !important}}'
        for light, dark in DARK_COLOURS.items()
        for kind in ("fill", "stroke")
    )


def _with_title_and_rules(svg: str, title: str, rules: str) -> str:
    """Add a description for screen readers, and a style sheet."""
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{html.escape(title)}" ', 1)
    start = svg.index(">") + 1
    return f"{svg[:start]}<style>{rules}</style>{svg[start:]}"

"""Figures as SVG that stays text: small, sharp, searchable, and at home on a dark page.

Matplotlib lays a figure out with its own font, which is wider than the fonts of browsers; the
text is then written in the reader's system font, so it never overlaps. The greys of `style`
stay plain attributes (any viewer can show the file) and rules beside them turn them for a dark
page.
"""

from __future__ import annotations

import hashlib
import io
import re

from matplotlib.figure import Figure

from horizont.report.style import DARK, drawing

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"

#: Where a page says that it is dark: the book's theme, and JupyterLab's.
_DARK_PAGES = ('html[data-theme="dark"]', 'body[data-jp-theme-light="false"]')


def standalone_svg(figure: Figure, title: str) -> str:
    """Write a figure as a file of its own, which follows the reader's dark mode."""
    rules = _dark_rules("")
    style = f"<style>@media (prefers-color-scheme: dark) {{{rules}}}</style>"
    text = _with_title(_draw(figure), title)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + _after_open_tag(text, style)


def inline_svg(figure: Figure, title: str) -> str:
    """Write a figure as a part of a page, with names that no other figure of the page has."""
    text = _draw(figure)
    mark = hashlib.sha256(text.encode()).hexdigest()[:8]
    text = re.sub(r'\bid="([^"]+)"', rf'id="{mark}-\1"', text)
    text = re.sub(r"(url\(#|href=\"#)", rf"\g<1>{mark}-", text)
    rules = "".join(_dark_rules(f"{page} .hz-figure ") for page in _DARK_PAGES)
    return _after_open_tag(_with_title(text, title), f"<style>@media screen {{{rules}}}</style>")


def _draw(figure: Figure) -> str:
    """Render a figure and drop what differs from day to day or says nothing."""
    file = io.StringIO()
    with drawing():  # whether text stays text is decided when the file is written
        _lay_out(figure)
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"font-family: [^;\"]+|(?<=px )'DejaVu Sans'[^;\"]*", _font, text)
    text = re.sub(r'(<svg[^>]*?) height="[^"]+pt"', r"\1", text)  # follows from the width
    text = re.sub(r'(<svg[^>]*?) width="([^"]+)pt"', _pixels, text)
    # A mark's shape has its colours where it is used; its own would hide the dark page's.
    text = re.sub(r'(<path id="m[^>]*?) style="[^"]*"', r"\1", text)
    text = re.sub(r"(\d+\.\d{2})\d+", r"\1", text)  # a hundredth of a point is enough
    return re.sub(r"\s*\n\s*", "\n", text)


def _lay_out(figure: Figure) -> None:
    """Lay a figure out, once: Matplotlib would do it twice, and draw everything for each time."""
    engine = figure.get_layout_engine()
    if engine is not None:
        figure.set_dpi(72)  # that of its SVG
        engine.execute(figure)
        figure.set_layout_engine(None)


def _font(found: re.Match[str]) -> str:
    return f"font-family: {FONT}" if found.group().startswith("font-family") else FONT


def _pixels(found: re.Match[str]) -> str:
    return f'{found[1]} width="{float(found[2]) * 4 / 3:.0f}"'


def _dark_rules(where: str) -> str:
    """Write the rules that turn the greys of a figure inside `where`."""
    return "".join(
        f'{where}[style*="{kind}: {light}"]{{{kind}:{dark} !important}}'
        for light, dark in DARK.items()
        for kind in ("fill", "stroke")
    )


def _with_title(text: str, title: str) -> str:
    """Say what the picture shows, for those who do not see it."""
    plain = title.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return text.replace("<svg ", f'<svg role="img" aria-label="{plain}" ', 1)


def _after_open_tag(text: str, part: str) -> str:
    place = text.index(">", text.index("<svg")) + 1
    return text[:place] + part + text[place:]

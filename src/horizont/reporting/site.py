"""Sphinx at work, and the site on a diet."""

from __future__ import annotations

import io
import re
from pathlib import Path

from horizont.errors import UserError

STATIC = Path(__file__).parent / "static"

TITLE = "Horizont"

#: Everything that Sphinx is told. There is no conf.py: a site is built from notebooks alone.
SETTINGS: dict[str, object] = {
    "project": TITLE,
    "html_title": TITLE,
    "extensions": ["myst_nb", "horizont.reporting.mathml"],
    "nb_execution_mode": "off",
    "nb_merge_streams": True,
    "nb_render_text_lexer": "none",
    "nb_code_prompt_show": "Show the code",
    "nb_code_prompt_hide": "Hide the code",
    "myst_enable_extensions": ["colon_fence", "dollarmath"],
    "html_math_renderer": "mathml",
    "suppress_warnings": ["mystnb.unknown_mime_type", "myst.header"],
    "html_theme": "sphinx_book_theme",
    "html_static_path": [str(STATIC)],
    "html_css_files": ["book.css"],
    "html_js_files": ["tables.js"],
    "html_use_index": False,
    "html_copy_source": False,
    "html_show_sourcelink": False,
    "html_show_sphinx": False,
    "html_show_copyright": False,
    "html_last_updated_fmt": None,
    "html_theme_options": {
        "show_toc_level": 2,
        "home_page_in_toc": True,
        "use_download_button": False,
        "use_fullscreen_button": False,
        "use_repository_button": False,
        "toc_title": "On this page",
        "search_bar_text": "Search the book",
        "pygments_light_style": "a11y-high-contrast-light",
        "pygments_dark_style": "a11y-high-contrast-dark",
        "article_header_end": ["article-header-buttons"],
        "footer_content_items": [],
        "max_navbar_depth": 2,
        "navbar_persistent": [],
    },
    "exclude_patterns": ["jupyter_execute"],
}

#: What the theme brings for developers of the theme, or for features that the book has not.
_BALLAST = (
    "**/*.map",
    "_sphinx_design_static",
    "_static/locales",
    "_static/images/logo_*",
    "_static/webpack-macros.html",
    "_static/sbt-webpack-macros.html",
    "**/*.LICENSE.txt.map",
    ".buildinfo",
    "objects.inv",
    "_sources",
    "jupyter_execute",
)


def build_site(source: Path, out: Path, doctrees: Path) -> list[str]:
    """Build the pages in `source` into HTML.

    Returns
    -------
    list of str
        What Sphinx found fault with; the site is there all the same.

    Raises
    ------
    UserError
        If Sphinx could not build the site.
    """
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    said, warned = io.StringIO(), io.StringIO()
    with patch_docutils(None), docutils_namespace():
        app = Sphinx(
            str(source),
            None,
            str(out),
            str(doctrees),
            "html",
            confoverrides=dict(SETTINGS),
            status=said,
            warning=warned,
        )
        app.build(force_all=True)
    faults = re.sub(r"\x1b\[[0-9;]*m", "", warned.getvalue()).strip().splitlines()
    if app.statuscode:
        raise UserError("book", " ".join(faults) or "a failed build", "pages without faults")
    return [fault.replace(f"{source}/", "") for fault in faults]


def slim_down(site: Path) -> None:
    """Remove what no page of the site uses."""
    import shutil

    for pattern in _BALLAST:
        for path in site.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

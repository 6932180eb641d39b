"""Sphinx settings of the book; `horizont.reporting.book` adds the pages."""

from dataclasses import dataclass, field

import pybtex.plugin
import sphinxcontrib.bibtex.plugin
from pybtex.style.formatting.alpha import Style as AlphaStyle
from sphinxcontrib.bibtex.style.referencing import BracketStyle
from sphinxcontrib.bibtex.style.referencing.author_year import AuthorYearReferenceStyle


def _round_brackets() -> BracketStyle:
    return BracketStyle(left="(", right=")")


@dataclass
class RoundAuthorYear(AuthorYearReferenceStyle):
    """Citations as (Amdahl, 1967)."""

    bracket_textual: BracketStyle = field(default_factory=_round_brackets)
    bracket_parenthetical: BracketStyle = field(default_factory=_round_brackets)
    bracket_year: BracketStyle = field(default_factory=_round_brackets)


class LastNameFirst(AlphaStyle):
    """Entries that begin as citations do: Amdahl, G. M."""

    default_name_style = "lastfirst"


pybtex.plugin.register_plugin("pybtex.style.formatting", "last_name_first", LastNameFirst)
sphinxcontrib.bibtex.plugin.register_plugin(
    "sphinxcontrib.bibtex.style.referencing", "round_author_year", RoundAuthorYear
)

project = html_title = "Horizont"
extensions = ["myst_nb", "sphinxcontrib.bibtex", "horizont.reporting.sphinx_ext"]
exclude_patterns = ["jupyter_execute"]

# Every reference must resolve: the build turns warnings into errors.
nitpicky = True
suppress_warnings = [
    "myst.header",  # pages may skip a level of headings
    "toc.not_readable",  # one page cannot contain the generated index
]

numfig = True
numfig_secnum_depth = 0  # one count for the whole book
numfig_format = {"figure": "Figure %s", "table": "Table %s"}
bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "last_name_first"
bibtex_reference_style = "round_author_year"

nb_execution_mode = "off"
nb_merge_streams = True
nb_output_stderr = "remove"
nb_render_markdown_format = "myst"  # links in outputs lead to pages
nb_render_text_lexer = "none"
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"
myst_enable_extensions = ["colon_fence", "dollarmath"]

html_theme = "sphinx_book_theme"
html_context = {"default_mode": "auto"}  # without it, the console reports an error
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_js_files = ["tables.js"]
html_copy_source = False
# Summaries of search results are fetched, which browsers refuse in a folder, and begin with the
# buttons of the page.
html_show_search_summary = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
html_last_updated_fmt = None
html_theme_options = {
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
}

"""Sphinx extension: numbered figures and tables from notebook outputs, MathML, index of terms.

Formulas are converted when the book is built: browsers and Pandoc read MathML, so neither the site
nor the PDF needs a script or a network.

myst-nb finds `HorizontRenderer` by the entry point ``myst_nb.mime_renderers`` in pyproject.toml.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from latex2mathml.converter import convert
from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

from horizont.reporting.output import FIGURE_MIME, TABLE_MIME

#: The folder of the CSV files, in the source folder of a build.
CSV_FOLDER = "_csv"

#: What the converter writes for a command that it does not know.
_UNKNOWN = re.compile(r"<m[io]>(\\\w+|&)</m[io]>")

#: A prime stands high enough by itself; as a superscript it would be tiny.
_PRIME = re.compile(r"<msup>((?:(?!<msup>).)*?)<mi>&#x02032;</mi></msup>")
_PLAIN_PRIME = r'<mrow>\1<mo lspace="0em" rspace="0em">&#x02032;</mo></mrow>'

#: Environments for inside a formula -> those that the converter knows.
_ENVIRONMENTS = {"aligned": "align*", "split": "align*"}


class DataTable(nodes.General, nodes.Element):  # type: ignore[misc]
    """A numbered table: a caption and HTML. It shares the numbers of Sphinx's own tables."""


class HorizontRenderer:
    """Plugin of myst-nb for the mime types of `horizont.reporting.output`."""

    mime_priority_overrides: ClassVar[list[tuple[str, str, int | None]]] = [
        ("*", FIGURE_MIME, 1),
        ("*", TABLE_MIME, 1),
    ]

    @staticmethod
    def handle_mime(renderer: Any, data: Any, inline: bool) -> list[nodes.Element] | None:
        """Convert an output to a node; None leaves it to myst-nb."""
        content = data.content
        if not inline and data.mime_type == FIGURE_MIME:
            return [_figure(renderer.renderer.sphinx_env, content)]
        if not inline and data.mime_type == TABLE_MIME:
            table = nodes.raw("", content["html"], format="html")
            attributes = {"measured": content["measured"], "title": content.get("title", "")}
            return [DataTable("", nodes.caption(), table, **attributes)]
        return None


def _figure(env: Any, content: Mapping[str, Any]) -> nodes.figure:
    """Build a figure: inline SVG, and a caption that ends with a link to the CSV file."""
    caption = nodes.caption("", content["caption"])
    if content["csv"]:
        caption += [nodes.Text(" "), _csv_link(env, content)]
    svg = nodes.raw("", content["svg"], format="html")
    return nodes.figure("", svg, caption, classes=["hz-figure"], horizont_name=content["name"])


def _csv_link(env: Any, content: Mapping[str, Any]) -> addnodes.download_reference:
    """Write the CSV file where Sphinx copies downloads from, and link to it."""
    target = f"/{CSV_FOLDER}/{_book_label(env.docname, content['name'])}.csv"
    path = Path(f"{env.srcdir}{target}")
    path.parent.mkdir(exist_ok=True)
    path.write_text(content["csv"], encoding="utf-8")
    every = content["csv_rows_per_row"]
    text = "data (CSV)" if every == 1 else f"data (CSV, one row of {every})"
    return addnodes.download_reference(
        "", text, reftarget=target, refdoc=env.docname, classes=["hz-data"]
    )


class LabelOutputs(SphinxTransform):  # type: ignore[misc]
    """Labels of figures and tables; references to them are local to their page.

    A table's caption is its title or the heading of its section, and the source of its values.
    """

    default_priority = 200

    def apply(self, **_: Any) -> None:
        """Set labels and captions of a page, and the targets of its references."""
        source = self.config.horizont_table_sources.get(self.env.docname)
        for node in self.document.findall():
            if isinstance(node, nodes.figure) and "horizont_name" in node:
                self._label(node, f"figure-{node['horizont_name']}")
            elif isinstance(node, DataTable):
                heading = node["title"] or _heading_above(node)
                stop = "" if heading.endswith("?") else "."
                node[0] += nodes.Text(f"{heading.rstrip('.')}{stop}")
                if source and node["measured"]:
                    node[0] += [nodes.Text(" From "), nodes.literal("", source), nodes.Text(".")]
                self._label(node, f"table-{nodes.make_id(heading)}")
            elif (
                isinstance(node, addnodes.pending_xref)
                and node["reftype"] == "numref"
                and node["reftarget"].startswith(("figure-", "table-"))
            ):
                node["reftarget"] = _book_label(self.env.docname, node["reftarget"])

    def _label(self, node: nodes.Element, name: str) -> None:
        wanted = _book_label(self.env.docname, name)
        labels = (wanted if number == 1 else f"{wanted}-{number}" for number in count(1))
        node["names"].append(next(each for each in labels if each not in self.document.nameids))
        self.document.note_explicit_target(node)


class IndexTerms(SphinxTransform):  # type: ignore[misc]
    """Index entries for the places that link to a term of the glossary."""

    default_priority = 200

    def apply(self, **_: Any) -> None:
        """Create an index entry in front of each link to a term."""
        for node in list(self.document.findall(addnodes.pending_xref)):
            if node["reftype"] == "term":
                anchor = f"use-{self.env.new_serialno('term')}"
                entries = [("single", node["reftarget"], anchor, "", None)]
                target = nodes.target("", "", ids=[anchor])
                node.replace_self([addnodes.index(entries=entries), target, node])


def _heading_above(node: nodes.Element) -> str:
    """Return the title of the innermost section around a node."""
    while not isinstance(node, nodes.section | nodes.document):
        node = node.parent
    title = node.next_node(nodes.title)
    return str(title.astext()) if title is not None else ""


def _book_label(docname: str, name: str) -> str:
    return str(nodes.make_id(f"{docname}-{name}"))


def _visit_table(writer: Any, node: DataTable) -> None:
    """Write a table; unlike figures, tables have their captions above."""
    writer.body.append(writer.starttag(node, "figure", CLASS="hz-table"))
    caption, table = node.children
    writer.body.append("<figcaption>")
    writer.add_fignumber(node)
    for child in caption.children:
        child.walkabout(writer)
    writer.add_permalink_ref(node, "Link to this table")
    writer.body.append(f"</figcaption>\n{table.astext()}</figure>\n")
    raise nodes.SkipNode


def _table_caption(node: DataTable) -> str:
    return str(node.children[0].astext())


def mathml(formula: str, *, block: bool = False) -> str:
    """Convert a LaTeX formula to MathML; a command that is not supported is a `ValueError`."""
    text = " ".join(formula.split())
    for inner, outer in _ENVIRONMENTS.items():
        text = text.replace(f"{{{inner}}}", f"{{{outer}}}")
    try:
        converted = convert(text, display="block" if block else "inline")
    except Exception as error:  # noqa: BLE001 - the converter has no common class of errors
        raise ValueError(f"formula {formula!r}: {type(error).__name__}") from None
    if unknown := _UNKNOWN.search(converted):
        raise ValueError(f"formula {formula!r}: {unknown[1]} is not supported")
    return _PRIME.sub(_PLAIN_PRIME, converted)


def _visit_math(writer: Any, node: nodes.math | nodes.math_block) -> None:
    """Write a formula; warn of one that is not supported, which fails the build."""
    is_block = isinstance(node, nodes.math_block)
    try:
        formula = mathml(node.astext(), block=is_block)
    except ValueError as error:
        logging.getLogger(__name__).warning(str(error), location=node)
        formula = f"<code>{html.escape(node.astext())}</code>"
    if is_block:
        identifiers = "".join(f' id="{name}"' for name in node["ids"][:1])
        number = f'<span class="eqno">({node["number"]})</span>' if node.get("number") else ""
        writer.body.append(f'<div class="hz-math-block"{identifiers}>{formula}{number}</div>\n')
    else:
        writer.body.append(f'<span class="hz-math">{formula}</span>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, Any]:
    """Register the extension."""
    app.add_config_value("horizont_table_sources", {}, "env", dict)
    app.add_enumerable_node(DataTable, "table", _table_caption, html=(_visit_table, None))
    app.add_transform(LabelOutputs)
    app.add_transform(IndexTerms)
    app.add_html_math_renderer("mathml", (_visit_math, None), (_visit_math, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

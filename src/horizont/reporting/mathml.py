r"""Formulas as MathML, written when the book is built: they need no script and no network.

A Sphinx extension. Sphinx's own way, MathJax, draws formulas in the browser with a library of
several megabytes from a network address; browsers can draw MathML by themselves.
"""

from __future__ import annotations

import html
import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

#: What stands in the result where the converter met a word that it does not know.
UNKNOWN = re.compile(r"<m[io]>(\\\w+|&)</m[io]>")

#: A prime, which stands high enough by itself: as a superscript it would be tiny.
PRIME = re.compile(r"<msup>((?:(?!<msup>).)*?)<mi>&#x02032;</mi></msup>")
PLAIN_PRIME = r'<mrow>\1<mo lspace="0em" rspace="0em">&#x02032;</mo></mrow>'

#: Environments that are called otherwise inside a formula than on a line of their own.
INNER = {"aligned": "align*", "split": "align*"}


def mathml(formula: str, *, block: bool = False) -> str:
    """Turn a formula in LaTeX into MathML.

    Parameters
    ----------
    block
        Whether it stands on a line of its own.

    Raises
    ------
    ValueError
        If some of it is not understood.
    """
    text = " ".join(formula.split())
    for inner, outer in INNER.items():
        text = text.replace(f"{{{inner}}}", f"{{{outer}}}")
    try:
        written = convert(text, display="block" if block else "inline")
    except Exception as error:  # noqa: BLE001 - the converter has no common class of errors
        raise ValueError(f"formula {formula!r}: {type(error).__name__}") from None
    if unknown := UNKNOWN.search(written):
        raise ValueError(f"formula {formula!r}: {unknown[1]} is not understood")
    return PRIME.sub(PLAIN_PRIME, written)


def setup(app: Any) -> dict[str, Any]:
    """Register the extension with Sphinx."""
    app.add_html_math_renderer(
        "mathml", inline_renderers=(_visit_inline, None), block_renderers=(_visit_block, None)
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _visit_inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(f'<span class="hz-math">{_written(node)}</span>')
    raise nodes.SkipNode


def _visit_block(writer: Any, node: nodes.math_block) -> None:
    names = "".join(f' id="{name}"' for name in node["ids"][:1])
    number = f'<span class="eqno">({node["number"]})</span>' if node.get("number") else ""
    body = f'<div class="hz-math-block"{names}>{_written(node, block=True)}{number}</div>\n'
    writer.body.append(body)
    raise nodes.SkipNode


def _written(node: Any, *, block: bool = False) -> str:
    """Write a formula; one that is not understood is reported and shown as its source."""
    from sphinx.util import logging

    try:
        return mathml(node.astext(), block=block)
    except ValueError as error:
        logging.getLogger(__name__).warning(str(error), location=node)
        return f"<code>{html.escape(node.astext())}</code>"

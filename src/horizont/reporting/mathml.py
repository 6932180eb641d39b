r"""LaTeX formulas as MathML, converted when the book is built.

Browsers and Pandoc read MathML, so neither the site nor the PDF needs a script or a network.
"""

from __future__ import annotations

import html
import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

#: What the converter writes for a command that it does not know.
_UNKNOWN = re.compile(r"<m[io]>(\\\w+|&)</m[io]>")

#: A prime stands high enough by itself; as a superscript it would be tiny.
_PRIME = re.compile(r"<msup>((?:(?!<msup>).)*?)<mi>&#x02032;</mi></msup>")
_PLAIN_PRIME = r'<mrow>\1<mo lspace="0em" rspace="0em">&#x02032;</mo></mrow>'

#: Environments for inside a formula -> those that the converter knows.
_ENVIRONMENTS = {"aligned": "align*", "split": "align*"}


def mathml(formula: str, *, block: bool = False) -> str:
    """Convert a LaTeX formula to MathML.

    Raises
    ------
    ValueError
        If the formula contains a command that is not supported.
    """
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


def visit_inline(writer: Any, node: nodes.math) -> None:
    """Write an inline formula."""
    writer.body.append(f'<span class="hz-math">{_converted(node)}</span>')
    raise nodes.SkipNode


def visit_block(writer: Any, node: nodes.math_block) -> None:
    """Write a displayed formula, with its number if it has one."""
    identifiers = "".join(f' id="{name}"' for name in node["ids"][:1])
    number = f'<span class="eqno">({node["number"]})</span>' if node.get("number") else ""
    formula = f"{_converted(node, block=True)}{number}"
    writer.body.append(f'<div class="hz-math-block"{identifiers}>{formula}</div>\n')
    raise nodes.SkipNode


def _converted(node: Any, *, block: bool = False) -> str:
    """Convert a node; warn of a formula that is not supported, which fails the build."""
    try:
        return mathml(node.astext(), block=block)
    except ValueError as error:
        logging.getLogger(__name__).warning(str(error), location=node)
        return f"<code>{html.escape(node.astext())}</code>"

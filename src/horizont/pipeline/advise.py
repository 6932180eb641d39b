"""`horizont advise`: the user's question, answered from the records at hand."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from horizont.analysis.advice import WISHES, Advice, Question, advise
from horizont.pipeline.claims import evidence_at_hand
from horizont.pipeline.paths import Paths
from horizont.pipeline.summary import PLAIN_WIDTH
from horizont.report.advice import advice_rows


def advice_on(question: Question, paths: Paths | None = None) -> Advice:
    """Answer a question from the records of the study."""
    records, proofs = evidence_at_hand(paths)
    return advise(records, question, proofs)


def advice_otherwise(question: Question) -> dict[str, Advice]:
    """Answer the same question for all other wishes."""
    others = [wish for wish in WISHES if wish != question.wish]
    records, proofs = evidence_at_hand()
    return {wish: advise(records, replace(question, wish=wish), proofs) for wish in others}


def ask(asked: dict[str, Any], paths: Paths) -> int:
    """Print the ranking, on what it rests, and its limits.

    Parameters
    ----------
    asked
        The fields of a question.

    Returns
    -------
    int
        1 if the records do not reach that far, else 0.
    """
    console = Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH)
    advice = advice_on(Question(**asked), paths)
    rows = advice_rows(advice)
    if rows:
        table = Table(header_style="bold", box=SIMPLE_HEAD)
        for column in rows[0]:
            table.add_column(column)
        for row in rows:
            table.add_row(*row.values())
        console.print(table)
        console.print(f"From {advice.basis}.", soft_wrap=True)
    for caveat in advice.caveats:
        console.print(caveat, soft_wrap=True)
    return int(not rows)

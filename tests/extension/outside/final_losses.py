"""A figure: the loss at the end of training, by system."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from horizont.records.record import Record
from horizont.reporting.registry import Drawing, figure
from horizont.reporting.style import book_style, new_figure


@figure("final_losses", title="Final losses")
def final_losses(records: Sequence[Record]) -> Drawing:
    """Training loss of the last step. Points: one run each, by system."""
    rows = [(record.run.system.name, record.steps()["loss"][-1].as_py()) for record in records]
    table = pd.DataFrame(rows, columns=["system", "loss"])
    with book_style():
        fig = new_figure(2.0)
        fig.subplots().scatter(table["loss"], table["system"])
    return Drawing(fig, table)

"""How stale the gradients of asynchronous systems are when a server applies them."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from horizont.report import words
from horizont.report.figures.legends import put_above
from horizont.report.style import FAINT, PAPER, drawing, new_figure, only_grid, system_colour


def staleness_bars(staleness: pd.DataFrame) -> Figure:
    """Draw the share of updates of each staleness, systems side by side.

    Parameters
    ----------
    staleness
        As of `horizont.analysis.staleness`.
    """
    import seaborn as sns  # takes two seconds, which pages without this figure need not wait

    systems = list(dict.fromkeys(staleness["system"]))
    with drawing():
        figure = new_figure(2.6)
        axes = figure.subplots()
        only_grid(axes, "y")
        if not systems:
            axes.text(0.5, 0.5, "no updates were recorded", ha="center", color=FAINT)
            return figure
        colours = {name: system_colour(name) for name in systems}
        sns.barplot(
            staleness,
            x="staleness",
            y="share",
            hue="system",
            hue_order=systems,
            order=range(int(staleness["staleness"].max()) + 1),
            palette=colours,
            saturation=1,
            edgecolor=PAPER,
            legend=False,
            ax=axes,
        )
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.set_xlabel("staleness: updates by others since the worker got its weights")
        axes.set_ylabel("updates")
        handles = [
            Patch(color=colour, label=words.system(name)) for name, colour in colours.items()
        ]
        put_above(figure, handles, 2)
    return figure

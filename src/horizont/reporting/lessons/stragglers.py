"""Pictures of chapter 8: workers of unequal speed, drawn by formula and from real runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from horizont.analysis.runs import steps_of
from horizont.records.record import Record
from horizont.reporting.page import FigureOutput
from horizont.reporting.style import (
    FOREGROUND,
    GRID,
    PAIR_COLOURS,
    book_style,
    grid_axis,
    new_figure,
)
from horizont.reporting.tables import Table, text_table
from horizont.theory.stragglers import (
    Update,
    apart,
    expected_staleness,
    slowest_drawn,
    slowest_expected,
    steps_per_second,
    together,
)

WORKERS = np.arange(1, 33)
TITLES = ("synchronous: all wait", "asynchronous: nobody waits")


def lines(workers: int = 3, slower: float = 4.0) -> FigureOutput:
    """Draw the steps of some workers of which the last is slower, with and without waiting."""
    times_s = np.ones(workers)
    times_s[-1] = slower
    until_s = 2 * slower + 1e-9
    with book_style():
        figure = new_figure(2.4)
        panels = figure.subplots(1, 2, sharey=True)
        for axes, title, steps in zip(
            panels, TITLES, (together(times_s, until_s), apart(times_s, until_s)), strict=True
        ):
            for step in steps:
                _bar(axes, step.worker, step.start_s, step.end_s)
                if title == TITLES[1]:
                    axes.text(step.end_s - 0.06, step.worker, str(step.staleness), ha="right",
                              va="center", fontsize=7, color=FOREGROUND)  # fmt: skip
            axes.set_title(title)
            axes.set_xlim(0, until_s)
            axes.grid(visible=False)
            axes.set_xlabel("time, in steps of a fast worker")
        _ranks(panels[0], workers)
    rates = [steps_per_second(times_s, together=way) for way in (True, False)]
    caption = (
        f"{workers} workers, the last {slower:g} times slower; each bar is a step. Together they "
        f"make {rates[0]:.2f} steps in the time of one, apart {rates[1]:.2f}. Numbers: how many "
        "updates the weights had seen since a step began, the staleness of its gradient."
    )
    return FigureOutput(figure, "lines", caption)


def _bar(axes: Axes, worker: int, start_s: float, end_s: float) -> None:
    axes.barh(worker, end_s - start_s, left=start_s, height=0.62, color=_colour(worker),
              alpha=0.45, edgecolor=FOREGROUND, linewidth=0.4)  # fmt: skip


def _colour(worker: int) -> str:
    return PAIR_COLOURS[worker % len(PAIR_COLOURS)]


def _ranks(axes: Axes, workers: int) -> None:
    axes.set_yticks(range(workers), [f"worker {rank}" for rank in range(workers)])
    axes.set_ylim(workers - 0.5, -0.5)
    axes.grid(visible=False)


def slowest(spread: float = 0.2, slower: float = 4.0) -> FigureOutput:
    """Draw what waiting costs: for the slowest of equals, and for one that is slower."""
    with book_style():
        figure = new_figure(2.8)
        left, right = figure.subplots(1, 2)
        left.plot(WORKERS, slowest_expected(WORKERS, 1.0, spread), color=PAIR_COLOURS[0])
        some = np.array([1, 2, 4, 8, 16, 32])
        left.plot(some, slowest_drawn(some, 1.0, spread), "o", color=PAIR_COLOURS[0])
        left.set_xlabel("workers, all alike")
        left.set_title("time of the slowest")
        factors = np.linspace(1, 10, 37)
        for way, dash, colour in (
            (True, "-", PAIR_COLOURS[0]), (False, "--", PAIR_COLOURS[3]),
        ):  # fmt: skip
            rates = [steps_per_second(np.array([1, 1, 1, f]), together=way) / 4 for f in factors]
            right.plot(factors, rates, dash, color=colour, label=TITLES[not way])
        right.axvline(slower, color=GRID)
        right.set_ylim(0, 1.05)
        right.set_xlabel("one of four is so many times slower")
        right.set_title("steps of all, of what is possible")
        figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    caption = (
        f"Left: the mean time of the slowest of n alike workers, each 1 and an exponential time "
        f"of mean {spread:g}; line by the formula, dots drawn by chance. Right: four workers, one "
        "of them slower. Who waits loses three quarters at four times; who does not, a fifth."
    )
    return FigureOutput(figure, "slowest", caption)


def staleness_of(times_s: Sequence[float]) -> Table:
    """Compare the mean staleness of each worker, expected and drawn by chance."""
    updates = apart(np.asarray(times_s), 3000 * max(times_s), spread=0.1)
    expected = expected_staleness(np.asarray(times_s))
    rows = [
        {
            "worker": f"{rank}, {time:g} a step",
            "updates": f"{len(own):,}",
            "mean staleness": f"{np.mean(own):.2f}",
            "expected": f"{expected[rank]:.2f}",
        }
        for rank, time in enumerate(times_s)
        for own in [[u.staleness for u in updates if u.worker == rank]]
    ]
    whole = {"worker": "all", "updates": f"{len(updates):,}", "expected": f"{len(times_s) - 1:.2f}"}
    rows.append({**whole, "mean staleness": f"{mean_staleness(updates):.2f}"})
    return text_table(pd.DataFrame(rows), numbers=["updates", "mean staleness", "expected"])


def mean_staleness(updates: Sequence[Update]) -> float:
    """Tell the mean over all updates."""
    return float(np.mean([update.staleness for update in updates]))


def real_lines(records: Sequence[Record]) -> FigureOutput:
    """Draw the steps of two real runs with a slowed worker: synchronous, then not."""
    with book_style():
        figure = new_figure(2.6)
        panels = figure.subplots(2, 1, sharex=True)
        for axes, record, title in zip(panels, records, TITLES, strict=True):
            steps = steps_of(record)
            steps = steps[steps["step"] > 0]  # the first holds the start-up
            first_s = steps["start_s"].min()
            for worker, start_s, step_s in steps[["worker", "start_s", "step_s"]].to_numpy():
                _bar(axes, int(worker), start_s - first_s, start_s - first_s + step_s)
            axes.set_title(title)
            _ranks(axes, record.run.topology.workers)
        panels[1].set_xlabel("seconds")
    caption = (
        "Two real runs of the LeNet variant in PyTorch: two workers, of which worker 1 is stopped "
        "three quarters of the time from its third step on. Above with all-reduce, where worker 0 "
        "waits for it in every step; below with a server and without waiting, where worker 0 goes "
        "on at its own speed and is done early."
    )
    return FigureOutput(figure, "real-lines", caption)


def real_staleness(record: Record) -> FigureOutput:
    """Draw how stale the updates of a real run were, for each worker."""
    updates = shared_updates(record)
    bins = np.arange(updates["staleness"].max() + 2) - 0.5
    with book_style():
        figure = new_figure(2.3)
        panels = figure.subplots(1, record.run.topology.workers, sharey=True)
        for rank, axes in enumerate(panels):
            own = updates.loc[updates["worker"] == rank, "staleness"]
            axes.hist(own, bins, color=_colour(rank), rwidth=0.85)
            axes.set_title(f"worker {rank}: mean {own.mean():.2f}")
            axes.set_xlabel("staleness, updates")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            grid_axis(axes, "y")
        panels[0].set_ylabel("updates")
    caption = (
        "How many updates the server had made since each gradient's weights were handed out, in "
        f"the asynchronous run above, while both worked: {len(updates)} updates, mean "
        f"{updates['staleness'].mean():.2f}. With two workers theory says 1, however slow one is."
    )
    return FigureOutput(figure, "real-staleness", caption)


def shared_updates(record: Record) -> pd.DataFrame:
    """List the updates of an asynchronous run up to the last of the worker that ended first."""
    updates: pd.DataFrame = record.updates().to_pandas()
    ends = updates.groupby("worker")["sequence"].max()
    shared: pd.DataFrame = updates[updates["sequence"] <= ends.min()]
    return shared


def slowed_numbers(records: Sequence[Record]) -> dict[str, float]:
    """Tell what the slowed worker did to the other one in two real runs."""
    medians_ms = []
    for record in records:
        steps = steps_of(record)
        own = steps[(steps["worker"] == 0) & (steps["step"] > 4)]
        medians_ms.append(float(own["step_s"].median() * 1e3))
    stale = shared_updates(records[1]).groupby("worker")["staleness"].mean()
    return {
        "ms of a step of worker 0, waiting": medians_ms[0],
        "ms of a step of worker 0, not waiting": medians_ms[1],
        "mean staleness of worker 0": float(stale[0]),
        "mean staleness of the slowed worker": float(stale[1]),
        "mean staleness of both": float(shared_updates(records[1])["staleness"].mean()),
    }

"""Chapter 8: workers of unequal speed, by formula, by simulation, and in two real runs."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from horizont.analysis.runs import steps_of
from horizont.records.record import Record
from horizont.reporting.output import TableOutput
from horizont.reporting.style import FOREGROUND, GRID, PAIR_COLOURS
from horizont_textbook import Array, page
from horizont_textbook.page import Plotted, columns

WORKERS = np.arange(1, 33)
TITLES = ("synchronous: all wait", "asynchronous: none waits")


class WorkerStep(NamedTuple):
    """A step of a worker; `staleness` counts the updates of others while it was computed."""

    worker: int
    start_s: float
    end_s: float
    staleness: int


def expected_maximum(workers: Array, fixed_s: float, spread_s: float) -> Array:
    """Return the mean duration of the slowest of some equal workers.

    Each takes a fixed time and a random one, exponential with mean `spread_s`; the largest of n
    such times is 1 + 1/2 + ... + 1/n of that mean (Renyi, "On the theory of order statistics",
    1953).
    """
    harmonic = np.cumsum(1.0 / np.arange(1, np.max(workers) + 1))
    return np.asarray(fixed_s + spread_s * harmonic[workers - 1])


def simulated_maximum(workers: Array, fixed_s: float, spread_s: float) -> Array:
    """Estimate the same mean from random draws."""
    times = np.random.default_rng(6).exponential(spread_s, (40_000, np.max(workers)))
    slowest = np.maximum.accumulate(times, axis=1).mean(axis=0)
    return np.asarray(fixed_s + slowest[workers - 1])


def steps_per_second(times_s: Array, *, synchronous: bool) -> float:
    """Return the steps of all workers in a second, from the duration of a step of each.

    Synchronous workers wait for the slowest: n / max; asynchronous ones do not: sum of 1 / time.
    """
    return float(len(times_s) / times_s.max() if synchronous else (1 / times_s).sum())


def asynchronous_schedule(times_s: Any, until_s: float, spread: float = 0.0) -> list[WorkerStep]:
    """Compute the steps of workers that update shared weights without waiting.

    The logarithm of a duration is normally distributed with the spread as standard deviation.
    """
    rng = np.random.default_rng(7)

    def duration_s(rank: int) -> float:
        return float(times_s[rank] * np.exp(rng.normal(0, spread)))

    queue = [(duration_s(rank), rank, 0.0, 0) for rank in range(len(times_s))]
    heapq.heapify(queue)
    steps: list[WorkerStep] = []
    while queue[0][0] <= until_s:
        end_s, rank, start_s, version = heapq.heappop(queue)
        steps.append(WorkerStep(rank, start_s, end_s, len(steps) - version))
        heapq.heappush(queue, (end_s + duration_s(rank), rank, end_s, len(steps)))
    return steps


def synchronous_schedule(times_s: Any, until_s: float) -> list[WorkerStep]:
    """Compute the steps of workers that all wait for the slowest."""
    slowest_s = float(np.max(times_s))
    return [
        WorkerStep(rank, step * slowest_s, step * slowest_s + float(time_s), 0)
        for step in range(int(until_s / slowest_s + 1e-9))
        for rank, time_s in enumerate(times_s)
    ]


def expected_staleness(times_s: Any) -> Array:
    """Return the mean staleness of each worker: the updates of the others during its step.

    Weighted by the updates of each worker, the mean is the number of the others, whatever their
    speeds: each update falls into exactly one step of every other worker.
    """
    times = np.asarray(times_s, dtype=np.float64)
    return np.asarray(times * (1 / times).sum() - 1)


@page.figure("lines", height=2.4)
def plot_schedules(figure: Figure, workers: int = 3, slower: float = 4.0) -> Plotted:
    """{workers} workers, the last {slower:g} times slower; each bar is a step. Synchronously they
    make {rates[0]:.2f} steps in the time of one, asynchronously {rates[1]:.2f}. Numbers: the
    staleness of a gradient, that is the updates of others during its step.
    """
    times_s = np.append(np.ones(workers - 1), slower)
    until_s = 2 * slower + 1e-9
    schedules = (synchronous_schedule(times_s, until_s), asynchronous_schedule(times_s, until_s))
    panels, frames = figure.subplots(1, 2, sharey=True), []
    for axes, title, schedule in zip(panels, TITLES, schedules, strict=True):
        steps = pd.DataFrame(schedule).assign(schedule=title)
        frames.append(steps)
        _plot_steps(axes, steps.assign(step_s=steps["end_s"] - steps["start_s"]), workers)
        axes.set(title=title, xlim=(0, until_s), xlabel="time, in steps of a fast worker")
    right: dict[str, Any] = {"ha": "right", "va": "center", "fontsize": 7}
    for step in schedules[1]:
        panels[1].text(step.end_s - 0.06, step.worker, str(step.staleness), **right)
    rates = [steps_per_second(times_s, synchronous=synchronous) for synchronous in (True, False)]
    return pd.concat(frames), {"rates": rates}


def _plot_steps(axes: Axes, steps: pd.DataFrame, workers: int) -> None:
    """Plot a bar for each step, in a row for each worker."""
    colours = [PAIR_COLOURS[worker] for worker in steps["worker"]]
    style: dict[str, Any] = {"color": colours, "edgecolor": FOREGROUND, "linewidth": 0.4}
    bars = steps["worker"], steps["step_s"]
    axes.barh(*bars, left=steps["start_s"], height=0.62, alpha=0.45, **style)
    axes.set_yticks(range(workers), [f"worker {rank}" for rank in range(workers)])
    axes.set_ylim(workers - 0.5, -0.5)
    axes.grid(visible=False)


@page.figure("slowest", height=2.8, legend=2)
def plot_waiting(figure: Figure, spread: float = 0.2, slower: float = 4.0) -> Plotted:
    """Left: the mean time of the slowest of n equal workers, each 1 plus an exponential time of
    mean {spread:g}; line by the formula, dots simulated. Right: four workers, one of them slower.
    At a factor of four, synchronous workers lose three quarters of their steps, asynchronous ones a
    fifth.
    """
    some, factors = np.array([1, 2, 4, 8, 16, 32]), np.linspace(1, 10, 37)
    data = columns(workers=WORKERS, slowest=expected_maximum(WORKERS, 1.0, spread), factor=factors)
    left, right = figure.subplots(1, 2)
    left.plot(WORKERS, data["slowest"].dropna())
    left.plot(some, simulated_maximum(some, 1.0, spread), "o", color=PAIR_COLOURS[0])
    left.set(xlabel="equal workers", title="time of the slowest")
    for synchronous, title in zip((True, False), TITLES, strict=True):
        times = [np.array([1, 1, 1, factor]) for factor in factors]
        data[title] = [steps_per_second(t, synchronous=synchronous) / 4 for t in times]
        right.plot(factors, data[title], label=title)
    right.axvline(slower, color=GRID, linestyle="-")
    right.set(ylim=(0, 1.05), title="steps, relative to four equal workers")
    right.set_xlabel("factor by which one of four is slower")
    return data


def staleness_table(times_s: Sequence[float]) -> TableOutput:
    """Format the mean staleness of each worker, expected and simulated."""
    steps = pd.DataFrame(asynchronous_schedule(times_s, 3000 * max(times_s), spread=0.1))
    table = steps.groupby("worker")["staleness"].agg(["count", "mean"])
    table.insert(0, "worker", [f"{rank}, {time_s:g} a step" for rank, time_s in enumerate(times_s)])
    table["expected"] = expected_staleness(times_s)
    table.loc["all"] = "all", len(steps), steps["staleness"].mean(), len(times_s) - 1
    table["count"] = table["count"].map("{:,.0f}".format)
    for name in ("mean", "expected"):
        table[name] = table[name].map("{:.2f}".format)
    return page.table(table.rename(columns={"count": "updates", "mean": "mean staleness"}))


@page.figure("measured-schedules", height=2.6)
def plot_measured_schedules(figure: Figure, records: Sequence[Record]) -> Plotted:
    """Two real runs of the LeNet variant in PyTorch: two workers, of which worker 1 is stopped
    three quarters of the time from its third step on. Above with all-reduce, where worker 0 waits
    for it in every step; below with an asynchronous server, where worker 0 keeps its own speed and
    finishes early.
    """
    panels, frames = figure.subplots(2, 1, sharex=True), []
    for axes, record, title in zip(panels, records, TITLES, strict=True):
        steps = steps_of(record)
        steps = steps[steps["step"] > 0]  # the first includes the start-up
        steps = steps.assign(start_s=steps["start_s"] - steps["start_s"].min(), schedule=title)
        frames.append(steps[["schedule", "worker", "step", "start_s", "step_s"]])
        _plot_steps(axes, steps, record.run.topology.workers)
        axes.set_title(title)
    panels[1].set_xlabel("seconds")
    return pd.concat(frames)


@page.figure("measured-staleness", height=2.3, grid="y")
def plot_measured_staleness(figure: Figure, record: Record) -> Plotted:
    """The staleness of each gradient in the asynchronous run above, while both workers were
    running: {count} updates, mean {mean:.2f}. For two workers theory predicts 1, whatever their
    speeds.
    """
    updates = overlapping_updates(record)
    bins = np.arange(updates["staleness"].max() + 2) - 0.5
    panels = figure.subplots(1, record.run.topology.workers, sharey=True)
    for rank, axes in enumerate(panels):
        own = updates.loc[updates["worker"] == rank, "staleness"]
        axes.hist(own, bins, color=PAIR_COLOURS[rank], rwidth=0.85)
        axes.set(title=f"worker {rank}: mean {own.mean():.2f}", xlabel="staleness, updates")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    panels[0].set_ylabel("updates")
    data = updates[["worker", "sequence", "staleness"]]
    return data, {"count": len(updates), "mean": updates["staleness"].mean()}


def overlapping_updates(record: Record) -> pd.DataFrame:
    """Return the updates of an asynchronous run while all workers were running."""
    updates: pd.DataFrame = record.updates().to_pandas()
    last = updates.groupby("worker")["sequence"].max()
    return updates[updates["sequence"] <= last.min()]


def measured_values(records: Sequence[Record]) -> dict[str, float]:
    """Return step times and staleness of two real runs, synchronous and asynchronous."""
    medians_ms = [
        steps_of(record).query("worker == 0 and step > 4")["step_s"].median() * 1e3
        for record in records
    ]
    updates = overlapping_updates(records[1])
    staleness = updates.groupby("worker")["staleness"].mean()
    return {
        "ms of a step of worker 0, synchronous": medians_ms[0],
        "ms of a step of worker 0, asynchronous": medians_ms[1],
        "mean staleness of worker 0": staleness[0],
        "mean staleness of the slowed worker": staleness[1],
        "mean staleness of both": updates["staleness"].mean(),
    }

"""Chapter 7: model and data parallelism, run by two processes over gloo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import NullLocator

from horizont.reporting.output import TableOutput
from horizont.reporting.style import BACKGROUND, FOREGROUND, GRID, MUTED, PAIR_COLOURS, grid_axis
from horizont.reporting.tables import text_table
from horizont.workflow.paths import Paths
from horizont_textbook import Array
from horizont_textbook.autodiff import WEIGHTS, gradients_by_hand
from horizont_textbook.page import book_figure, columns, format_distance
from horizont_textbook.processes import GroupResults, relative_distance, run_group
from horizont_textbook.strategies import (
    PROCESSES,
    SMALL,
    STRATEGIES,
    Arrays,
    LayerSizes,
    Partition,
    SplitStrategy,
    initial_state,
)

STEPS, RATE = 3, 0.5

#: Colour and hatch of what process 0, process 1, and both hold.
STYLES = {
    "process 0": (PAIR_COLOURS[0], ""),
    "process 1": (PAIR_COLOURS[1], "////"),
    "both": (GRID, "...."),
}


def train(gradients: Callable[[Arrays], Arrays], weights: Arrays) -> Arrays:
    """Run gradient descent; return the gradients of the first step and the last weights."""
    first: Arrays = {}
    for _ in range(STEPS):
        found = gradients(weights)
        first = first or {f"gradient {name}": value for name, value in found.items()}
        weights = {name: weights[name] - RATE * found[name] for name in found}
    return first | {f"weight {name}": value for name, value in weights.items()}


def train_in_one_process() -> Arrays:
    """Train the small network in one process."""
    state = initial_state()
    x, labels = state["x"], state["labels"]
    weights = {name: state[name] for name in WEIGHTS}
    return train(lambda w: gradients_by_hand(x=x, labels=labels, **w), weights)


def run_exercises(rank: int, size: int) -> dict[tuple[str, str], Array]:
    """Train with every strategy in one process of a gloo group."""
    from horizont_textbook.group import Group

    arrays: dict[tuple[str, str], Array] = {}
    for name, strategy in STRATEGIES.items():
        group = Group(rank, size)
        own = {k: strategy.partition(k).part(v, rank) for k, v in initial_state().items()}
        x, labels = own.pop("x"), own.pop("labels")
        trained = train(lambda w: strategy.gradients(w, x, labels, group), own)  # noqa: B023
        arrays |= {(name, key): value for key, value in trained.items()}
        arrays[name, "bytes"] = group.counts()
    return arrays


def exercise_results(paths: Paths | None = None) -> GroupResults:
    """Return the results of two real processes."""
    return run_group("parallelism", PROCESSES, paths)


def distance_from_one_process(results: GroupResults, name: str) -> float | None:
    """Return the largest relative distance of a gradient or weight; None if it was not run."""
    strategy = STRATEGIES[name]
    if not results.by_rank(name, "weight W2"):
        return None
    return max(
        relative_distance(
            strategy.partition(key.rpartition(" ")[2]).merge(results.by_rank(name, key)), expected
        )
        for key, expected in train_in_one_process().items()
    )


def copies_agree(results: GroupResults, name: str) -> bool:
    """Whether the weights that both processes hold are bitwise equal."""
    shared = [weight for weight in WEIGHTS if weight not in STRATEGIES[name].partitions]
    copies = [results.by_rank(name, f"weight {weight}") for weight in shared]
    return all(np.array_equal(parts[0], part) for parts in copies for part in parts)


def result_values(results: GroupResults) -> dict[str, float]:
    """Return the numbers of this chapter."""
    distances = [distance_from_one_process(results, name) or 0.0 for name in STRATEGIES]
    exact = [
        set(results.sent_bytes(name)) == {8 * STEPS * strategy.sent(SMALL)}
        for name, strategy in STRATEGIES.items()
    ]
    return {
        "largest_distance_from_one_process": max(distances),
        "strategies_that_sent_what_the_formula_says": float(sum(exact)),
        **{f"numbers_sent_a_step,_{n}": float(s.sent(SMALL)) for n, s in STRATEGIES.items()},
    }


def idle_fraction(stages: int, micro_batches: int) -> float:
    """Return the idle fraction of a pipeline of equally long stages: (p - 1) / (m + p - 1).

    Huang et al., "GPipe: efficient training of giant neural networks using pipeline
    parallelism", 2019.
    """
    return (stages - 1) / (micro_batches + stages - 1)


@book_figure("strategies", height=4.9)
def plot_strategies(figure: Figure) -> tuple[str, pd.DataFrame]:
    """Plot which part of batch and weights each process holds."""
    for axes, (name, strategy) in zip(figure.subplots(2, 2).flat, STRATEGIES.items(), strict=True):
        _plot_strategy(axes, name, strategy)
    handles = [
        Patch(facecolor=colour, hatch=hatch, edgecolor=BACKGROUND, label=who)
        for who, (colour, hatch) in STYLES.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    caption = (
        "Four ways to split the training of a network with one hidden layer between two "
        f"processes: which part of a batch of {SMALL.examples} examples (rows of x) and of the "
        "weights each holds. Below each: the numbers that each process sends in a step. They are "
        "fewest where only the scores have to be summed."
    )
    sent = [strategy.sent(SMALL) for strategy in STRATEGIES.values()]
    return caption, columns(strategy=list(STRATEGIES), numbers_sent=sent)


def _plot_strategy(axes: Axes, name: str, strategy: SplitStrategy) -> None:
    axes.axis("off")
    axes.set(aspect="equal", xlim=(-1, 27), ylim=(-3.4, 13.6))
    axes.set_title(name, fontsize=9.5)
    left, top = 0.0, SMALL.examples
    for label, key, rows, width in (
        ("x", "x", SMALL.examples, SMALL.inputs),
        ("W₁", "W1", SMALL.inputs, SMALL.hidden),
        ("W₂", "W2", SMALL.hidden, SMALL.classes),
    ):
        _plot_array(axes, (left, top - rows), rows, width, strategy.partition(key))
        axes.text(left + width / 2, top + 0.4, label, ha="center", va="bottom")
        left += width + 3
    text = f"{strategy.sent(SMALL)} numbers"
    axes.text(0, -1, text, ha="left", va="top", color=FOREGROUND, weight="bold")


def _plot_array(
    axes: Axes, corner: tuple[float, float], rows: int, width: int, partition: Partition
) -> None:
    """Plot an array as a rectangle, divided between the processes that hold it."""
    (x, y), styles = corner, list(STYLES.values())
    parts = [((x, y), width, float(rows), styles[2])]
    if partition.owner is not None:
        parts = [((x, y), width, rows, styles[partition.owner])]
    elif partition.axis == 0:
        parts = [((x, y + rows / 2 * (1 - k)), width, rows / 2, styles[k]) for k in (0, 1)]
    elif partition.axis == 1:
        parts = [((x + width / 2 * k, y), width / 2, rows, styles[k]) for k in (0, 1)]  # type: ignore[misc]
    for at, across, down, (colour, hatch) in parts:
        box = Rectangle(at, across, down, facecolor=colour, hatch=hatch, edgecolor=BACKGROUND)
        axes.add_patch(box)


@book_figure("volume", height=3.3)
def plot_volume(
    figure: Figure, inputs: int = 784, hidden: int = 500, classes: int = 10
) -> tuple[str, pd.DataFrame]:
    """Plot what each process sends in a step by the size of the batch."""
    batches = 2 ** np.arange(1, 15)
    shapes = [LayerSizes(int(batch), inputs, hidden, classes) for batch in batches]
    data = columns(batch=batches)
    axes = figure.subplots()
    grid_axis(axes, "y")
    for name, strategy in STRATEGIES.items():
        data[f"{name}, kB"] = [4 * strategy.sent(sizes) / 1e3 for sizes in shapes]
        style: dict[str, Any] = {"color": strategy.colour, "linestyle": strategy.dash}
        axes.plot(batches, data[f"{name}, kB"], label=name, **style)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.set(xlabel="examples in the batch", ylabel="kB sent by each process")
    figure.legend(loc="outside lower center", ncols=2)
    weights = shapes[0].weights
    caption = (
        f"What each of two processes sends in a step for a network of {inputs:,} inputs, "
        f"{hidden:,} hidden neurons and {classes:,} classes, in float32. The gradients of its "
        f"{weights:,} weights do not depend on the batch; activations grow with it. Splitting "
        "between the layers sends less than averaging gradients up to "
        f"{weights // hidden:,} examples, splitting within them, by columns and rows, up to "
        f"{weights // classes:,}."
    )
    return caption, data


@book_figure("schedule", height=2.2)
def plot_pipeline(
    figure: Figure, stages: int = 2, micro_batches: int = 4
) -> tuple[str, pd.DataFrame]:
    """Plot the schedule of a pipeline, with one batch and with micro-batches."""
    figure.set_figheight(1.4 + 0.4 * stages)
    spans: list[dict[str, Any]] = []
    for axes, count in zip(figure.subplots(1, 2), (1, micro_batches), strict=True):
        spans += _plot_schedule(axes, stages, count)
    caption = (
        f"{stages} processes with a part of the layers each, computing a batch at once (left) and "
        f"in {micro_batches} micro-batches (right). Blue: forward, purple: backward, which takes "
        f"twice as long. The processes are idle {idle_fraction(stages, 1):.0%} of the time "
        f"without micro-batches and {idle_fraction(stages, micro_batches):.0%} with them."
    )
    return caption, pd.DataFrame(spans)


def _plot_schedule(axes: Axes, stages: int, count: int) -> list[dict[str, Any]]:
    """Plot all forward passes and then all backward passes, in units of a whole forward pass."""
    turn, spans = count + stages - 1, []
    for stage in range(stages):
        row = stages - 1 - stage
        forward = [(stage + k) / count for k in range(count)]
        backward = [(turn + 2 * (row + k)) / count for k in range(count)]
        for starts, width, colour in (
            (forward, 1 / count, PAIR_COLOURS[0]),
            (backward, 2 / count, PAIR_COLOURS[3]),
        ):
            bars = [(start, width) for start in starts]
            spans += [
                {"batches": count, "process": stage, "start": s, "length": w} for s, w in bars
            ]
            axes.broken_barh(bars, (row - 0.35, 0.7), facecolors=colour, edgecolor=BACKGROUND)
    axes.set_xlim(0, 3 * stages)
    axes.set_yticks(range(stages), [f"process {stages - 1 - row}" for row in range(stages)])
    axes.axvline(3 * turn / count, color=MUTED, linewidth=1, linestyle=":")
    axes.set(
        xlabel="time of a forward pass",
        title="one batch" if count == 1 else f"{count} micro-batches",
    )
    grid_axis(axes, "x")
    return spans


def results_table(results: GroupResults) -> TableOutput:
    """Format the bytes of each strategy, and its distance from one process."""
    rows = []
    for name, strategy in STRATEGIES.items():
        sent = results.sent_bytes(name)
        rows.append(
            {
                "strategy": name,
                "formula, bytes a step": f"{8 * strategy.sent(SMALL):,}",
                "bytes sent a step": f"{max(sent) / STEPS:,.0f}" if sent else "–",
                "distance from one process": format_distance(
                    distance_from_one_process(results, name)
                ),
            }
        )
    frame = pd.DataFrame(rows)
    return text_table(frame, measured=False, numbers=list(frame.columns[1:]))

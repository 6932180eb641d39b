"""Chapter 7: model and data parallelism, run by two processes over gloo."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from horizont.reporting.output import TableOutput
from horizont.reporting.style import BACKGROUND, FOREGROUND, GRID, MUTED, PAIR_COLOURS
from horizont_textbook import page
from horizont_textbook.framework_call import Results
from horizont_textbook.page import Plotted, columns, power_axis
from horizont_textbook.processes import by_rank
from horizont_textbook.strategies import (
    ENGINES,
    PROCESSES,
    SMALL,
    STEPS,
    STRATEGIES,
    LayerSizes,
    SplitStrategy,
    merge,
    train_in_one_process,
)

#: Colour and hatch of what process 0, process 1, and both hold.
STYLES = {
    "process 0": (PAIR_COLOURS[0], ""),
    "process 1": (PAIR_COLOURS[1], "////"),
    "both": (GRID, "...."),
}

#: Left, bottom, width and height of what each process holds, as fractions of a split array.
SHARES = {
    "rows": [("process 0", 0.0, 0.5, 1.0, 0.5), ("process 1", 0.0, 0.0, 1.0, 0.5)],
    "columns": [("process 0", 0.0, 0.0, 0.5, 1.0), ("process 1", 0.5, 0.0, 0.5, 1.0)],
}


def distance_from_one_process(results: Results, name: str, engine: str) -> float | None:
    """Return the largest relative distance of a gradient or weight; None if it was not run."""
    if not results:
        return None
    strategy, distances = STRATEGIES[name], []
    for key, expected in train_in_one_process().items():
        merged = merge(by_rank(results, f"{engine}: {name}", key), strategy.split(key.split()[1]))
        distances.append(page.relative_distance(merged, expected))
    return max(distances)


def result_values(results: Results) -> dict[str, float]:
    """Return the numbers of this chapter."""
    trained, exact, distances = 0, 0, []
    for name, strategy in STRATEGIES.items():
        sent = [by_rank(results, f"{engine}: {name}", "sent bytes") for engine in ENGINES]
        exact += sent == [[8 * STEPS * strategy.sent(SMALL)] * PROCESSES] * len(ENGINES)
        trained += sum(len(counts) for counts in sent)
        distances += [distance_from_one_process(results, name, engine) for engine in ENGINES]
    return {
        "processes_that_trained": trained,
        "largest_distance_from_one_process": max(each or 0.0 for each in distances),
        "strategies_that_sent_what_the_formula_says": exact,
        **{f"numbers_sent_a_step,_{n}": s.sent(SMALL) for n, s in STRATEGIES.items()},
    }


def idle_fraction(stages: int, micro_batches: int) -> float:
    """Return the idle fraction of a pipeline of equally long stages: (p - 1) / (m + p - 1).

    Huang et al., "GPipe: efficient training of giant neural networks using pipeline
    parallelism", 2019.
    """
    return (stages - 1) / (micro_batches + stages - 1)


@page.figure("strategies", height=4.9)
def plot_strategies(figure: Figure) -> Plotted:
    """Four ways to split the training of a network with one hidden layer between two processes:
    which part of a batch of {examples} examples (rows of x) and of the weights each holds. Below
    each: the numbers that each process sends in a step. They are fewest where only the scores have
    to be summed.
    """
    for axes, (name, strategy) in zip(figure.subplots(2, 2).flat, STRATEGIES.items(), strict=True):
        _plot_strategy(axes, name, strategy)
    handles = [
        Patch(facecolor=colour, hatch=hatch, edgecolor=BACKGROUND, label=who)
        for who, (colour, hatch) in STYLES.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    sent = [strategy.sent(SMALL) for strategy in STRATEGIES.values()]
    return columns(strategy=list(STRATEGIES), numbers_sent=sent), {"examples": SMALL.examples}


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
        split = strategy.split(key)
        for who, x, y, across, down in SHARES.get(split, [(split, 0, 0, 1, 1)]):
            corner, size = (left + x * width, top - rows + y * rows), (across * width, down * rows)
            colour, hatch = STYLES[who]
            style: dict[str, Any] = {"facecolor": colour, "hatch": hatch, "edgecolor": BACKGROUND}
            axes.add_patch(Rectangle(corner, *size, **style))
        axes.text(left + width / 2, top + 0.4, label, ha="center", va="bottom")
        left += width + 3
    text = f"{strategy.sent(SMALL)} numbers"
    axes.text(0, -1, text, ha="left", va="top", color=FOREGROUND, weight="bold")


@page.figure("volume", height=3.3, legend=2)
def plot_volume(figure: Figure, inputs: int = 784, hidden: int = 500, classes: int = 10) -> Plotted:
    """What each of two processes sends in a step for a network of {inputs:,} inputs, {hidden:,}
    hidden neurons and {classes:,} classes, in float32. The gradients of its {weights:,} weights do
    not depend on the batch; activations grow with it. Splitting between the layers sends less than
    averaging gradients up to {between:,} examples, splitting within them, by columns and rows, up
    to {within:,}.
    """
    batches = 2 ** np.arange(1, 15)
    shapes = [LayerSizes(int(batch), inputs, hidden, classes) for batch in batches]
    data = columns(batch=batches)
    axes = figure.subplots()
    for name, strategy in STRATEGIES.items():
        data[f"{name}, kB"] = [4 * strategy.sent(sizes) / 1e3 for sizes in shapes]
        axes.plot(batches, data[f"{name}, kB"], label=name)
    power_axis(axes, batches[1::2].tolist())
    axes.set(yscale="log", xlabel="examples in the batch", ylabel="kB sent by each process")
    axes.yaxis.set_major_formatter("{x:,g}")
    weights = shapes[0].weights
    return data, {"weights": weights, "between": weights // hidden, "within": weights // classes}


@page.figure("schedule", height=2.2, grid="x")
def plot_pipeline(figure: Figure, stages: int = 2, micro_batches: int = 4) -> Plotted:
    """{stages} processes with a part of the layers each, computing a batch at once (left) and in
    {micro_batches} micro-batches (right). Blue: forward, purple: backward, which takes twice as
    long. The processes are idle {idle[0]:.0%} of the time without micro-batches and {idle[1]:.0%}
    with them.
    """
    figure.set_figheight(1.4 + 0.4 * stages)
    counts, frames = (1, micro_batches), []
    for axes, count in zip(figure.subplots(1, 2), counts, strict=True):
        frames.append(_plot_schedule(axes, stages, count))
    return pd.concat(frames), {"idle": [idle_fraction(stages, count) for count in counts]}


def _plot_schedule(axes: Axes, stages: int, count: int) -> pd.DataFrame:
    """Plot all forward passes and then all backward passes, in units of a whole forward pass."""
    turn, spans = count + stages - 1, []
    for stage in range(stages):
        row = stages - 1 - stage
        forward = [((stage + k) / count, 1 / count) for k in range(count)]
        backward = [((turn + 2 * (row + k)) / count, 2 / count) for k in range(count)]
        for bars, colour in ((forward, PAIR_COLOURS[0]), (backward, PAIR_COLOURS[3])):
            spans += [(count, stage, *bar) for bar in bars]
            axes.broken_barh(bars, (row - 0.35, 0.7), facecolors=colour, edgecolor=BACKGROUND)
    axes.set_yticks(range(stages), [f"process {stages - 1 - row}" for row in range(stages)])
    axes.axvline(3 * turn / count, color=MUTED, linewidth=1, linestyle=":")
    title = "one batch" if count == 1 else f"{count} micro-batches"
    axes.set(xlim=(0, 3 * stages), xlabel="time of a forward pass", title=title)
    return pd.DataFrame(spans, columns=["batches", "process", "start", "length"])


def results_table(results: Results) -> TableOutput:
    """Format the bytes of each strategy, and its distance from one process."""
    rows = []
    for name, strategy in STRATEGIES.items():
        row = {"strategy": name, "formula, bytes a step": f"{8 * strategy.sent(SMALL):,}"}
        for engine in ENGINES:
            sent = by_rank(results, f"{engine}: {name}", "sent bytes")
            distance = distance_from_one_process(results, name, engine)
            row[f"{engine}: sent"] = f"{max(sent) / STEPS:,.0f}" if sent else "–"
            row[f"{engine}: distance"] = page.format_distance(distance)
        rows.append(row)
    return page.table(rows)

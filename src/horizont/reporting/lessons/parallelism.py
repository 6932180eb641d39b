"""Pictures of chapter 7: who holds what, what it costs to send, and who waits."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import NullLocator

from horizont.reporting.page import FigureOutput
from horizont.reporting.style import (
    BACKGROUND,
    FOREGROUND,
    GRID,
    MUTED,
    PAIR_COLOURS,
    LineStyle,
    book_style,
    grid_axis,
    new_figure,
)
from horizont.reporting.tables import Table, text_table
from horizont.theory.cuts import WAYS, Part, Sizes, Way
from horizont.theory.parallelism import SMALL, STEPS, idle_share
from horizont.theory.together.findings import Together

#: Colour and hatch of what process 0, process 1, and both hold.
HOLDERS = {"process 0": (PAIR_COLOURS[0], ""), "process 1": (PAIR_COLOURS[1], "////")}
BOTH = (GRID, "....")

LOOKS: dict[str, tuple[str, LineStyle]] = {
    "between layers": (PAIR_COLOURS[0], "-"),
    "within layers, columns": (PAIR_COLOURS[2], "--"),
    "within layers, columns and rows": (PAIR_COLOURS[3], "-."),
    "data parallel": (PAIR_COLOURS[1], ":"),
}


def ways() -> FigureOutput:
    """Draw who holds which part of batch and weights in each way."""
    with book_style():
        figure = new_figure(4.9)
        for axes, (name, way) in zip(figure.subplots(2, 2).flat, WAYS.items(), strict=True):
            _draw_way(axes, name, way)
        handles = [
            Patch(facecolor=colour, hatch=hatch, edgecolor=BACKGROUND, label=who)
            for who, (colour, hatch) in {**HOLDERS, "both": BOTH}.items()
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
    caption = (
        f"Four ways to train a network of two layers on two processes: who holds which part of a "
        f"batch of {SMALL.examples} examples (rows of x) and of the weights. Below each: the "
        "numbers that each process sends in a step. It is fewest where the two halves meet only "
        "in the scores."
    )
    return FigureOutput(figure, "ways", caption)


def _draw_way(axes: Axes, name: str, way: Way) -> None:
    axes.axis("off")
    axes.set_aspect("equal")
    axes.set_xlim(-1, 27)
    axes.set_ylim(-3.4, 13.6)
    axes.set_title(name, fontsize=9.5)
    left = 0.0
    for label, part, rows, columns in (
        ("x", way.inputs, SMALL.examples, SMALL.inputs),
        ("W₁", way.held.get("W1", Part()), SMALL.inputs, SMALL.hidden),
        ("W₂", way.held.get("W2", Part()), SMALL.hidden, SMALL.classes),
    ):
        _draw_array(axes, (left, SMALL.examples - rows), rows, columns, part)
        axes.text(left + columns / 2, SMALL.examples + 0.4, label, ha="center", va="bottom")
        left += columns + 3
    said = f"{way.sent(SMALL)} numbers"
    axes.text(0, -1, said, ha="left", va="top", color=FOREGROUND, weight="bold")


def _draw_array(
    axes: Axes, corner: tuple[float, float], rows: int, columns: int, part: Part
) -> None:
    """Draw an array as a rectangle of so many squares, cut among its holders."""
    x, y = corner
    looks = list(HOLDERS.values())
    pieces: list[tuple[float, float, float, float, tuple[str, str]]]
    pieces = [(x, y, columns, rows, BOTH)]
    if part.owner is not None:
        pieces = [(x, y, columns, rows, looks[part.owner])]
    elif part.axis == 0:
        half = rows / 2
        pieces = [(x, y + half * (1 - k), columns, half, looks[k]) for k in (0, 1)]
    elif part.axis == 1:
        half = columns / 2
        pieces = [(x + half * k, y, half, rows, looks[k]) for k in (0, 1)]
    for left, low, width, height, (colour, hatch) in pieces:
        box = Rectangle(
            (left, low), width, height, facecolor=colour, hatch=hatch, edgecolor=BACKGROUND
        )
        axes.add_patch(box)


def volume(inputs: int = 784, hidden: int = 500, classes: int = 10) -> FigureOutput:
    """Draw what each process sends in a step by the size of the batch."""
    batches = 2 ** np.arange(1, 15)
    shapes = [Sizes(int(batch), inputs, hidden, classes) for batch in batches]
    with book_style():
        figure = new_figure(3.3)
        axes = figure.subplots()
        grid_axis(axes, "y")
        for name, (colour, dash) in LOOKS.items():
            sent = [4 * WAYS[name].sent(sizes) / 1e3 for sizes in shapes]
            axes.plot(batches, sent, color=colour, linestyle=dash, label=name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.set_xlabel("examples in the batch")
        axes.set_ylabel("kB sent by each process")
        figure.legend(loc="outside lower center", ncols=2)
    weights = shapes[0].weights
    caption = (
        f"What each of two processes sends in a step for a network of {inputs:,} inputs, "
        f"{hidden:,} hidden neurons and {classes:,} classes, in float32. The gradients of its "
        f"{weights:,} weights do not depend on the batch; activations grow with it. Cutting "
        "between the layers sends less than averaging gradients up to "
        f"{weights // hidden:,} examples, cutting "
        f"within them, by columns and rows, up to {weights // classes:,}."
    )
    return FigureOutput(figure, "volume", caption)


def schedule(stages: int = 2, pieces: int = 4) -> FigureOutput:
    """Draw when each process of a pipeline works, with the batch whole and cut into pieces."""
    with book_style():
        figure = new_figure(1.4 + 0.4 * stages)
        for axes, count in zip(figure.subplots(1, 2), (1, pieces), strict=True):
            _draw_schedule(axes, stages, count)
    caption = (
        f"{stages} processes with a part of the layers each, going through a batch (left) and "
        f"through the same batch in {pieces} pieces (right). Blue: forward, purple: backward, "
        f"which takes twice as long. The processes are idle {idle_share(stages, 1):.0%} of the "
        f"time without pieces and {idle_share(stages, pieces):.0%} with them."
    )
    return FigureOutput(figure, "schedule", caption)


def _draw_schedule(axes: Axes, stages: int, pieces: int) -> None:
    """Draw all forward passes and then all backward passes, each piece 1 / pieces of the batch."""
    turn = pieces + stages - 1
    for stage in range(stages):
        forward = [(stage + k) / pieces for k in range(pieces)]
        backward = [(turn + 2 * (stages - 1 - stage + k)) / pieces for k in range(pieces)]
        row = stages - 1 - stage
        for starts, width, colour in (
            (forward, 1 / pieces, PAIR_COLOURS[0]),
            (backward, 2 / pieces, PAIR_COLOURS[3]),
        ):
            spans = [(start, width) for start in starts]
            axes.broken_barh(spans, (row - 0.35, 0.7), facecolors=colour, edgecolor=BACKGROUND)
    axes.set_xlim(0, 3 * stages)
    axes.set_yticks(range(stages), [f"process {stages - 1 - row}" for row in range(stages)])
    axes.axvline(3 * turn / pieces, color=MUTED, linewidth=1, linestyle=":")
    axes.set_xlabel("time of a forward pass")
    axes.set_title("the batch whole" if pieces == 1 else f"{pieces} pieces")
    grid_axis(axes, "x")


def done(together: Together) -> Table:
    """Show what two real processes came to in each way, and what they sent."""
    rows = []
    for name, way in WAYS.items():
        row = {"way": name, "formula, bytes a step": f"{8 * way.sent(SMALL):,}"}
        for doer, said in (("numpy", "NumPy"), ("pytorch", "PyTorch, gloo")):
            sent = together.sent_bytes(doer, name)
            distance = together.way_distance(doer, name)
            row[f"{said}: sent"] = "–" if sent is None else f"{max(sent) / STEPS:,.0f}"
            row[f"{said}: distance"] = _written(distance)
        rows.append(row)
    frame = pd.DataFrame(rows)
    return text_table(frame, numbers=list(frame.columns[1:]))


def _written(distance: float | None) -> str:
    if distance is None:
        return "–"
    return f"{distance:.0e}" if distance else "0"

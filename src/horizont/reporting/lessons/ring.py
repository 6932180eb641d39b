"""Pictures of chapter 9: a ring step by step, what it sends, and how long the wire needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import NullLocator
from numpy.typing import NDArray

from horizont.reporting.page import FigureOutput
from horizont.reporting.style import (
    BACKGROUND,
    FOREGROUND,
    GRID,
    MUTED,
    PAIR_COLOURS,
    book_style,
    grid_axis,
    new_figure,
)
from horizont.reporting.tables import Table, text_table
from horizont.theory.ring import (
    NUMBERS,
    ring_bytes,
    ring_states,
    ring_time,
    server_bytes,
    server_time,
)
from horizont.theory.together.exercises import RINGS
from horizont.theory.together.findings import Together

Array = NDArray[Any]

RING, SERVER = PAIR_COLOURS[0], PAIR_COLOURS[1]
LETTERS = "abcdefgh"

#: Width of the text in a row of cells, in points of a font whose letters are square.
CELL_POINTS = 170

#: What the busiest process sends.
COUNTED = (
    ("numpy", "ring", "o", RING, "ring, sockets"),
    ("numpy", "server", "s", SERVER, "server, sockets"),
    ("pytorch", "ring", "x", FOREGROUND, "ring, gloo"),
)
LAWS = (("ring", ring_bytes, "-", RING), ("server", server_bytes, "--", SERVER))


def steps(workers: int = 4) -> FigureOutput:
    """Draw who holds which sum after each step of a ring."""
    return held(ring_states(workers), "processes")


def held(states: Array, who: str = "real processes") -> FigureOutput:
    """Draw what processes held after each step.

    Parameters
    ----------
    states
        (moments, processes, chunks), as of :func:`horizont.theory.ring.ring_states`.
    """
    moments, workers, _ = states.shape
    columns = 4
    rows = -(-moments // columns)
    with book_style():
        figure = new_figure(rows * (0.75 + 0.25 * workers) + 0.2)
        panels = figure.subplots(rows, columns, squeeze=False)
        for moment, axes in enumerate(panels.flat):
            axes.axis("off")
            if moment < moments:
                before = states[moment - 1] if moment else states[0]
                _draw_moment(axes, states[moment], before, _titled(moment, workers))
    caption = (
        f"A ring of {workers} {who}: what each process (row) holds of each chunk (column). "
        "Process a begins with its own numbers, a; ab is the sum of what a and b had. Framed: "
        "what has just come from the process above (for a: the last one). After "
        f"{workers - 1} steps each process has one chunk complete (dark, all); after "
        f"{workers - 1} more, every chunk."
    )
    return FigureOutput(figure, "steps", caption)


def _titled(moment: int, workers: int) -> str:
    if not moment:
        return "at the beginning"
    return f"{moment}: {'reduce-scatter' if moment < workers else 'all-gather'}"


def _draw_moment(axes: Axes, state: Array, before: Array, title: str) -> None:
    workers = len(state)
    axes.set_xlim(-0.75, workers)
    axes.set_ylim(workers, 0)
    axes.set_title(title, fontsize=9)
    for rank in range(workers):
        axes.text(-0.4, rank + 0.5, LETTERS[rank], ha="center", va="center", color=MUTED)
        for chunk in range(workers):
            here = parts_of(float(state[rank, chunk]))
            fresh = state[rank, chunk] != before[rank, chunk]
            _draw_cell(axes, rank, chunk, here, workers, fresh=fresh)


def _draw_cell(axes: Axes, rank: int, chunk: int, parts: str, workers: int, *, fresh: bool) -> None:
    complete = len(parts) == workers
    colour = RING if complete else GRID if len(parts) > 1 else BACKGROUND
    edge, width = (FOREGROUND, 1.6) if fresh else (GRID, 0.6)
    box = Rectangle(
        (chunk + 0.05, rank + 0.06), 0.9, 0.88, facecolor=colour, edgecolor=edge, linewidth=width
    )
    axes.add_patch(box)
    said, ink = ("all", "#ffffff") if complete else (parts, FOREGROUND)
    size = min(8.5, CELL_POINTS / (workers + 0.75) / len(said))
    axes.text(chunk + 0.5, rank + 0.5, said, ha="center", va="center", color=ink, fontsize=size)


def parts_of(number: float) -> str:
    """Tell whose parts a sum has, from its digits: 101 is a and c."""
    digits = reversed(f"{number:.0f}")
    return "".join(letter for letter, digit in zip(LETTERS, digits, strict=False) if digit == "1")


def volumes(together: Together) -> FigureOutput:
    """Draw what the busiest process sends, by formula and as real processes sent it."""
    workers = np.arange(2, 17)
    size = 8 * NUMBERS
    with book_style():
        figure = new_figure(2.9)
        axes = figure.subplots()
        grid_axis(axes, "y")
        for name, law, dash, colour in LAWS:
            axes.plot(workers, [law(int(n), 1.0) for n in workers], dash, color=colour, label=name)
        for doer, kind, mark, colour, label in COUNTED:
            found = {n: together.sent_bytes(doer, f"{kind} of {n}") for n in RINGS}
            known = {n: max(sent) / size for n, sent in found.items() if sent}
            about: dict[str, Any] = {"color": colour, "linestyle": "none", "markersize": 7}
            axes.plot(list(known), list(known.values()), mark, label=label, **about)
        axes.set_ylim(0, 16.5)
        axes.set_yticks(range(0, 17, 4))
        axes.set_xlim(1.5, 16.5)
        axes.set_xticks([2, 3, 4, 8, 16])
        axes.set_xlabel("workers")
        axes.set_ylabel("sent by the busiest, × N")
        figure.legend(loc="outside lower center", ncols=5)
    caption = (
        "What the busiest process sends, in multiples of the N bytes of the array. Lines: the "
        f"formulas. Marks: the kernel's count for real processes that summed {size:,} bytes. In a "
        "ring it never reaches 2 N; at a server it grows with the workers."
    )
    return FigureOutput(figure, "volumes", caption)


def wire(workers: int = 8, array_mb: float = 44.0, latency_ms: float = 0.1) -> FigureOutput:
    """Draw how long the wire needs at least, by its rate and by the size of the array."""
    rates = np.geomspace(50, 100_000, 60)
    sizes = np.geomspace(1e2, 1e9, 60)
    latency_s = latency_ms * 1e-3
    with book_style():
        figure = new_figure(2.9)
        left, right = figure.subplots(1, 2)
        n = np.array(workers)
        for name, law, dash, colour in (
            ("ring", ring_time, "-", RING),
            ("server", server_time, "--", SERVER),
        ):
            by_rate = [1e3 * law(n, array_mb * 1e6, rate * 1e6 / 8, latency_s) for rate in rates]
            by_size = [1e3 * law(n, size, 1e9 / 8, latency_s) for size in sizes]
            left.plot(rates, by_rate, dash, color=colour, label=name)
            right.plot(sizes / 1e3, by_size, dash, color=colour)
        left.set_title(f"{array_mb:g} MB", fontsize=9.5)
        left.set_xlabel("rate of each link, Mbit/s")
        left.set_ylabel("milliseconds")
        right.set_title("links of 1,000 Mbit/s", fontsize=9.5)
        right.set_xlabel("array, kB")
        for axes in (left, right):
            grid_axis(axes, "y")
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.xaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter("{x:,.7g}")
            axes.yaxis.set_major_formatter("{x:,.7g}")
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    caption = (
        f"What the wire needs at least for {workers} workers with a latency of {latency_ms:g} ms. "
        f"Left: {array_mb:g} MB of gradients over links of different rates. Right: arrays of "
        f"different sizes. For small arrays only messages count, of which a ring has "
        f"{2 * (workers - 1)} one after another and a server two."
    )
    return FigureOutput(figure, "wire", caption)


def counted(together: Together) -> Table:
    """Show what real processes sent and received, beside the formulas."""
    size = 8.0 * NUMBERS
    rows = []
    for n in RINGS:
        ring, server = f"ring of {n}", f"server of {n}"
        rows.append(_row(together, ring, "each process", ring_bytes(n, size), 0))
        rows.append(_row(together, server, "each worker", size, 0))
        rows.append(_row(together, server, "the server", server_bytes(n, size), -1))
    frame = pd.DataFrame(rows)
    return text_table(frame, numbers=list(frame.columns[2:]))


def _row(together: Together, exercise: str, who: str, formula: float, place: int) -> dict[str, str]:
    def one(found: list[int] | None) -> str:
        return "–" if not found else f"{found[place]:,}"

    return {
        "exercise": exercise,
        "who": who,
        "formula, bytes sent": f"{formula:,.0f}",
        "sent, at the socket": one(together.sent_bytes("numpy", exercise, "socket")),
        "sent, kernel": one(together.sent_bytes("numpy", exercise)),
        "received, kernel": one(together.received_bytes("numpy", exercise)),
        "gloo sent, kernel": one(together.sent_bytes("pytorch", exercise)),
    }

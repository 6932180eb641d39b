"""Chapter 9: ring all-reduce and parameter server, run over gloo with counted bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import NullLocator

from horizont.reporting.output import FigureOutput, TableOutput
from horizont.reporting.style import BACKGROUND, FOREGROUND, GRID, MUTED, PAIR_COLOURS, grid_axis
from horizont.reporting.tables import text_table
from horizont.workflow.paths import Paths
from horizont_textbook import Array
from horizont_textbook.page import book_figure, columns
from horizont_textbook.processes import GroupResults, relative_distance, run_group
from horizont_textbook.ring import (
    NUMBERS,
    ring_all_reduce,
    ring_bytes,
    ring_states,
    ring_time,
    server_all_reduce,
    server_bytes,
    server_time,
    summands,
)

#: Workers of the exercises; a server is one process more.
WORKERS = (2, 3, 4)
GROUP_SIZE = 5

#: The ring whose states are recorded after each step.
RECORDED_RING = 4

RING_COLOUR, SERVER_COLOUR = PAIR_COLOURS[0], PAIR_COLOURS[1]
LETTERS = "abcdefgh"

#: Width of the text in a row of cells, in points of a font whose letters are square.
CELL_POINTS = 170


def run_exercises(rank: int, size: int) -> dict[tuple[str, str], Array]:
    """Run all exercises in one process of a gloo group."""
    import torch
    import torch.distributed as dist

    from horizont_textbook.group import Group

    gloo = {n: dist.new_group(list(range(n))) for n in WORKERS}
    arrays: dict[tuple[str, str], Array] = {}
    for n in WORKERS:
        if rank < n:
            group = Group(rank, n)
            arrays[f"ring of {n}", "sum"] = ring_all_reduce(summands(n)[rank], group)
            arrays[f"ring of {n}", "bytes"] = group.counts()
            own = torch.tensor(summands(n)[rank])
            dist.all_reduce(own, group=gloo[n])
            arrays[f"gloo all_reduce of {n}", "sum"] = own.numpy()
        if rank <= n < size:
            group = Group(rank, n + 1)
            values = summands(n)[rank] if rank < n else np.zeros(NUMBERS)
            arrays[f"server of {n}", "sum"] = server_all_reduce(values, group)
            arrays[f"server of {n}", "bytes"] = group.counts()
    if rank < RECORDED_RING:
        states: list[Array] = []
        digits = np.full(RECORDED_RING, 10.0**rank)
        ring_all_reduce(digits, Group(rank, RECORDED_RING), lambda s: states.append(s.copy()))
        arrays["recorded ring", "states"] = np.array(states)
    return arrays


def exercise_results(paths: Paths | None = None) -> GroupResults:
    """Return the results of rings and servers of real processes."""
    return run_group("allreduce", GROUP_SIZE, paths)


def recorded_states(results: GroupResults) -> Array:
    """Return the states of the recorded ring, (states, processes, chunks)."""
    states = results.by_rank("recorded ring", "states")
    return np.stack(states, axis=1) if states else ring_states(RECORDED_RING)


def count_exact(results: GroupResults) -> int:
    """Return the number of rings and servers whose bytes are those of the formulas."""
    size = 8 * NUMBERS
    exact = 0
    for n in WORKERS:
        ring = [*results.sent_bytes(f"ring of {n}"), *results.received_bytes(f"ring of {n}")]
        exact += bool(ring) and set(ring) == {ring_bytes(n, size)}
        expected = [size] * n + [n * size]
        server = (results.sent_bytes(f"server of {n}"), results.received_bytes(f"server of {n}"))
        exact += server == (expected, expected)
    return exact


def result_values(results: GroupResults) -> dict[str, float]:
    """Return the numbers of this chapter."""
    differing = np.any(recorded_states(results) != ring_states(RECORDED_RING), axis=(1, 2))
    kinds = ("ring", "server", "gloo all_reduce")
    distances = [
        relative_distance(total, summands(n).sum(axis=0))
        for n in WORKERS
        for kind in kinds
        for total in results.by_rank(f"{kind} of {n}", "sum")
    ]
    return {
        "bytes_of_the_array": 8.0 * NUMBERS,
        "exchanges_that_sent_what_the_formula_says": float(count_exact(results)),
        "steps_at_which_a_process_had_another_state": float(np.sum(differing)),
        "largest_distance_from_the_sum_in_one_process": max(distances, default=0.0),
    }


def plot_ring(workers: int = 4) -> FigureOutput:
    """Plot the sums of each process after each step of a ring."""
    return plot_ring_states(ring_states(workers), "processes")


@book_figure("steps", height=3.0)
def plot_ring_states(
    figure: Figure, states: Array, who: str = "real processes"
) -> tuple[str, pd.DataFrame]:
    """Plot the states of processes after each step, (states, processes, chunks)."""
    count, workers, _ = states.shape
    rows = -(-count // 4)
    figure.set_figheight(rows * (0.75 + 0.25 * workers) + 0.2)
    for number, axes in enumerate(figure.subplots(rows, 4, squeeze=False).flat):
        axes.axis("off")
        if number < count:
            phase = "reduce-scatter" if number < workers else "all-gather"
            axes.set_title(f"{number}: {phase}" if number else "at the beginning", fontsize=9)
            _plot_state(axes, states[number], states[max(0, number - 1)])
    caption = (
        f"A ring of {workers} {who}: the contents of each chunk (column) in each process (row). "
        "Process a begins with its own numbers, a; ab is the sum of those of a and b. Framed: "
        "what was just received from the process above (for a: the last one). After "
        f"{workers - 1} steps each process has one complete chunk (dark, all); after "
        f"{workers - 1} more, every chunk."
    )
    index = [tuple(map(int, each)) for each in np.ndindex(states.shape)]
    data = pd.DataFrame(index, columns=["step", "process", "chunk"])
    return caption, data.assign(summands=[summand_names(value) for value in states.ravel()])


def _plot_state(axes: Axes, state: Array, before: Array) -> None:
    workers = len(state)
    axes.set(xlim=(-0.75, workers), ylim=(workers, 0))
    for rank in range(workers):
        axes.text(-0.4, rank + 0.5, LETTERS[rank], ha="center", va="center", color=MUTED)
    for rank, chunk in np.ndindex(state.shape):
        names = summand_names(state[rank, chunk])
        complete = len(names) == workers
        colour = RING_COLOUR if complete else GRID if len(names) > 1 else BACKGROUND
        received = state[rank, chunk] != before[rank, chunk]
        edge: dict[str, Any] = {"edgecolor": FOREGROUND if received else GRID}
        edge["linewidth"] = 1.6 if received else 0.6
        corner = (chunk + 0.05, rank + 0.06)
        axes.add_patch(Rectangle(corner, 0.9, 0.88, facecolor=colour, **edge))
        text, text_colour = ("all", "#ffffff") if complete else (names, FOREGROUND)
        size = min(8.5, CELL_POINTS / (workers + 0.75) / len(text))
        position = (chunk + 0.5, rank + 0.5)
        axes.text(*position, text, ha="center", va="center", color=text_colour, fontsize=size)


def summand_names(number: float) -> str:
    """Return the letters of the summands of a sum of powers of ten: 101 is `ac`."""
    digits = reversed(f"{number:.0f}")
    return "".join(letter for letter, digit in zip(LETTERS, digits, strict=False) if digit == "1")


@book_figure("volumes", height=2.9)
def plot_volumes(figure: Figure, results: GroupResults) -> tuple[str, pd.DataFrame]:
    """Plot what the busiest process sends, by formula and as counted."""
    size, workers = 8 * NUMBERS, np.arange(2, 17)
    data = columns(workers=workers)
    axes = figure.subplots()
    grid_axis(axes, "y")
    for name, law, dash, mark, colour in (
        ("ring", ring_bytes, "-", "o", RING_COLOUR),
        ("server", server_bytes, "--", "s", SERVER_COLOUR),
    ):
        data[name] = [law(int(n), 1.0) for n in workers]
        counted = {n: results.sent_bytes(f"{name} of {n}") for n in WORKERS}
        multiples = {n: max(sent) / size for n, sent in counted.items() if sent}
        data[f"{name}, counted"] = data["workers"].map(multiples)
        axes.plot(workers, data[name], dash, color=colour, label=name)
        label = f"{name}, counted"
        axes.plot(list(multiples), list(multiples.values()), mark, color=colour, label=label)
    axes.set(
        ylim=(0, 16.5),
        yticks=range(0, 17, 4),
        xlim=(1.5, 16.5),
        xticks=[2, 3, 4, 8, 16],
        xlabel="workers",
        ylabel="sent by the busiest, × N",
    )
    figure.legend(loc="outside lower center", ncols=4)
    caption = (
        "What the busiest process sends, in multiples of the N bytes of the array. Lines: the "
        f"formulas. Marks: bytes counted by real processes that summed {size:,} bytes. In a ring "
        "it never reaches 2 N; at a server it grows with the workers."
    )
    return caption, data


@book_figure("wire", height=2.9)
def plot_wire_time(
    figure: Figure, workers: int = 8, array_mb: float = 44.0, latency_ms: float = 0.1
) -> tuple[str, pd.DataFrame]:
    """Plot the lower bounds of the time by the rate of the links and by the size of the array."""
    rates, sizes = np.geomspace(50, 100_000, 60), np.geomspace(1e2, 1e9, 60)
    latency_s = latency_ms * 1e-3
    data = columns(rate_mbit=rates, array_kb=sizes / 1e3)
    left, right = figure.subplots(1, 2)
    for name, law, dash, colour in (
        ("ring", ring_time, "-", RING_COLOUR),
        ("server", server_time, "--", SERVER_COLOUR),
    ):
        by_rate = [1e3 * law(workers, array_mb * 1e6, rate * 1e6 / 8, latency_s) for rate in rates]
        by_size = [1e3 * law(workers, size, 1e9 / 8, latency_s) for size in sizes]
        data[f"{name}: ms by rate"] = np.array(by_rate)
        data[f"{name}: ms by size"] = np.array(by_size)
        left.plot(rates, by_rate, dash, color=colour, label=name)
        right.plot(sizes / 1e3, by_size, dash, color=colour)
    left.set_title(f"{array_mb:g} MB", fontsize=9.5)
    left.set(xlabel="rate of each link, Mbit/s", ylabel="milliseconds")
    right.set_title("links of 1,000 Mbit/s", fontsize=9.5)
    right.set_xlabel("array, kB")
    for axes in (left, right):
        grid_axis(axes, "y")
        axes.set(xscale="log", yscale="log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter("{x:,.7g}")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    caption = (
        f"Lower bounds of the time for {workers} workers with a latency of {latency_ms:g} ms. "
        f"Left: {array_mb:g} MB of gradients over links of different rates. Right: arrays of "
        "different sizes. For small arrays only the messages count, of which a ring has "
        f"{2 * (workers - 1)} one after another and a server two."
    )
    return caption, data


def bytes_table(results: GroupResults) -> TableOutput:
    """Format the counted bytes of each exercise next to the formulas."""
    size = 8 * NUMBERS
    rows = []
    for n in WORKERS:
        for kind, who, rank, formula in (
            ("ring", "each process", 0, ring_bytes(n, size)),
            ("server", "each worker", 0, size),
            ("server", "the server", -1, server_bytes(n, size)),
        ):
            sent = results.sent_bytes(f"{kind} of {n}")
            received = results.received_bytes(f"{kind} of {n}")
            rows.append(
                {
                    "exercise": f"{kind} of {n}",
                    "process": who,
                    "formula, bytes sent": f"{formula:,.0f}",
                    "bytes sent": f"{sent[rank]:,}" if sent else "–",
                    "bytes received": f"{received[rank]:,}" if received else "–",
                }
            )
    frame = pd.DataFrame(rows)
    return text_table(frame, measured=False, numbers=list(frame.columns[2:]))

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
from horizont.reporting.style import BACKGROUND, FOREGROUND, GRID, MUTED, PAIR_COLOURS
from horizont_textbook import Array, page
from horizont_textbook.framework_call import Results
from horizont_textbook.page import Plotted, columns, relative_distance
from horizont_textbook.processes import by_rank
from horizont_textbook.ring import NUMBERS, RECORDED_RING, WORKERS, ring_steps, summands

LETTERS = "abcdefgh"

#: Width of the text in a row of cells, in points of a font whose letters are square.
CELL_POINTS = 170


def ring_states(size: int) -> Array:
    """Compute the states of all processes of a ring after each step, without any process.

    Process r begins with 10^r in every chunk, so that the digits of a sum name its summands.
    """
    states = [np.tile(10.0 ** np.arange(size)[:, None], (1, size))]
    for steps in zip(*(ring_steps(rank, size) for rank in range(size)), strict=True):
        state = states[-1].copy()
        for rank, step in enumerate(steps):
            received = states[-1][rank - 1, step.receive]
            state[rank, step.receive] = received + (state[rank, step.receive] if step.add else 0)
        states.append(state)
    return np.array(states)


def ring_bytes(size: int, total_bytes: float) -> float:
    """Return what each of n processes sends for N bytes: 2 (n - 1) / n N, the lower bound."""
    return 2 * (size - 1) / size * total_bytes


def server_bytes(workers: int, total_bytes: float) -> float:
    """Return what a server of n workers sends and receives: n N. Each worker sends N."""
    return workers * total_bytes


def ring_time(workers: int, total_bytes: Any, bytes_per_s: Any, latency_s: float) -> Array:
    """Return a lower bound of the time of a ring: its bytes and 2 (n - 1) sequential messages."""
    return np.asarray(2 * (workers - 1) * (latency_s + total_bytes / workers / bytes_per_s))


def server_time(workers: int, total_bytes: Any, bytes_per_s: Any, latency_s: float) -> Array:
    """Return a lower bound of the time of a server that sums everything before it answers.

    The bytes of all workers share its link, in both directions.
    """
    return np.asarray(2 * (latency_s + workers * total_bytes / bytes_per_s))


def recorded_states(results: Results) -> Array:
    """Return the states of the recorded ring, (states, processes, chunks)."""
    states = by_rank(results, "recorded ring", "states")
    return np.stack(states, axis=1) if states else ring_states(RECORDED_RING)


def _bytes_by_rank(results: Results, exercise: str) -> list[list[Array]]:
    """List the bytes that each process sent, and those that it received."""
    return [by_rank(results, exercise, f"{way} bytes") for way in ("sent", "received")]


def result_values(results: Results) -> dict[str, float]:
    """Return the numbers of this chapter."""
    size, exact, distances = 8 * NUMBERS, 0, [0.0]
    for n in WORKERS:
        ring, server = (_bytes_by_rank(results, f"{name} of {n}") for name in ("ring", "server"))
        exact += ring == [[ring_bytes(n, size)] * n] * 2
        exact += server == [[size] * n + [n * size]] * 2
        for kind in ("ring", "server", "gloo all_reduce"):
            sums = by_rank(results, f"{kind} of {n}", "sum")
            distances += [relative_distance(each, summands(n).sum(axis=0)) for each in sums]
    differing = np.any(recorded_states(results) != ring_states(RECORDED_RING), axis=(1, 2))
    return {
        "bytes_of_the_array": size,
        "exchanges_that_sent_what_the_formula_says": exact,
        "steps_at_which_a_process_had_another_state": np.sum(differing),
        "largest_distance_from_the_sum_in_one_process": max(distances),
    }


def plot_ring(workers: int = 4) -> FigureOutput:
    """Plot the sums of each process after each step of a ring."""
    return plot_ring_states(ring_states(workers), "processes")


@page.figure("steps", height=3.0)
def plot_ring_states(figure: Figure, states: Array, who: str = "real processes") -> Plotted:
    """A ring of {workers} {who}: the contents of each chunk (column) in each process (row). Process
    a begins with its own numbers, a; ab is the sum of those of a and b. Framed: what was just
    received from the process above (for a: the last one). After {half} steps each process has one
    complete chunk (dark, all); after {half} more, every chunk.
    """
    count, workers, _ = states.shape
    rows = -(-count // 4)
    figure.set_figheight(rows * (0.75 + 0.25 * workers) + 0.2)
    for number, axes in enumerate(figure.subplots(rows, 4, squeeze=False).flat):
        axes.axis("off")
        if number < count:
            phase = "reduce-scatter" if number < workers else "all-gather"
            axes.set_title(f"{number}: {phase}" if number else "at the beginning", fontsize=9)
            _plot_state(axes, states[number], states[max(0, number - 1)])
    data = pd.DataFrame(list(np.ndindex(states.shape)), columns=["step", "process", "chunk"])
    data["summands"] = [summand_names(value) for value in states.ravel()]
    return data, {"workers": workers, "half": workers - 1}


def _plot_state(axes: Axes, state: Array, before: Array) -> None:
    workers = len(state)
    axes.set(xlim=(-0.75, workers), ylim=(workers, 0))
    centre: dict[str, Any] = {"ha": "center", "va": "center"}
    for rank in range(workers):
        axes.text(-0.4, rank + 0.5, LETTERS[rank], color=MUTED, **centre)
    for (rank, chunk), value in np.ndenumerate(state):
        names = summand_names(value)
        complete = len(names) == workers
        colour = PAIR_COLOURS[0] if complete else GRID if len(names) > 1 else BACKGROUND
        edge, width = (GRID, 0.6) if value == before[rank, chunk] else (FOREGROUND, 1.6)
        frame: dict[str, Any] = {"facecolor": colour, "edgecolor": edge, "linewidth": width}
        axes.add_patch(Rectangle((chunk + 0.05, rank + 0.06), 0.9, 0.88, **frame))
        text, text_colour = ("all", "#ffffff") if complete else (names, FOREGROUND)
        size = min(8.5, CELL_POINTS / (workers + 0.75) / len(text))
        axes.text(chunk + 0.5, rank + 0.5, text, color=text_colour, fontsize=size, **centre)


def summand_names(number: float) -> str:
    """Return the letters of the summands of a sum of powers of ten: 101 is `ac`."""
    digits = reversed(f"{number:.0f}")
    return "".join(letter for letter, digit in zip(LETTERS, digits, strict=False) if digit == "1")


@page.figure("volumes", height=2.9, legend=4, grid="y")
def plot_volumes(figure: Figure, results: Results) -> Plotted:
    """What the busiest process sends, in multiples of the N bytes of the array. Lines: the
    formulas. Marks: bytes counted by real processes that summed {size:,} bytes. In a ring it never
    reaches 2 N; at a server it grows with the workers.
    """
    size, workers = 8 * NUMBERS, np.arange(2, 17)
    data = columns(workers=workers)
    axes = figure.subplots()
    for name, law, mark, colour in (
        ("ring", ring_bytes, "o", PAIR_COLOURS[0]),
        ("server", server_bytes, "s", PAIR_COLOURS[1]),
    ):
        data[name] = [law(int(n), 1.0) for n in workers]
        sent = {n: by_rank(results, f"{name} of {n}", "sent bytes") for n in WORKERS}
        counted = {n: max(by_each, default=np.nan) / size for n, by_each in sent.items()}
        multiples = data[f"{name}, counted"] = data["workers"].map(counted)
        axes.plot(workers, data[name], label=name)
        axes.plot(workers, multiples, mark, color=colour, label=f"{name}, counted")
    axes.set(ylim=(0, 16.5), yticks=range(0, 17, 4), ylabel="sent by the busiest, × N")
    axes.set(xlim=(1.5, 16.5), xticks=[2, 3, 4, 8, 16], xlabel="workers")
    return data, {"size": size}


@page.figure("wire", height=2.9, legend=2, grid="y")
def plot_wire_time(
    figure: Figure, workers: int = 8, array_mb: float = 44.0, latency_ms: float = 0.1
) -> Plotted:
    """Lower bounds of the time for {workers} workers with a latency of {latency_ms:g} ms. Left:
    {array_mb:g} MB of gradients over links of different rates. Right: arrays of different sizes.
    For small arrays only the messages count, of which a ring has {messages} one after another and a
    server two.
    """
    rates, sizes = np.geomspace(50, 100_000, 60), np.geomspace(1e2, 1e9, 60)
    latency_s = latency_ms * 1e-3
    data = columns(rate_mbit=rates, array_kb=sizes / 1e3)
    left, right = figure.subplots(1, 2)
    for name, law in (("ring", ring_time), ("server", server_time)):
        by_rate = 1e3 * law(workers, array_mb * 1e6, rates * 1e6 / 8, latency_s)
        by_size = 1e3 * law(workers, sizes, 1e9 / 8, latency_s)
        data[f"{name}: ms by rate"], data[f"{name}: ms by size"] = by_rate, by_size
        left.plot(rates, by_rate, label=name)
        right.plot(sizes / 1e3, by_size)
    left.set_title(f"{array_mb:g} MB", fontsize=9.5)
    left.set(xlabel="rate of each link, Mbit/s", ylabel="milliseconds")
    right.set_title("links of 1,000 Mbit/s", fontsize=9.5)
    right.set_xlabel("array, kB")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter("{x:,.7g}")
    return data, {"messages": 2 * (workers - 1)}


def bytes_table(results: Results) -> TableOutput:
    """Format the counted bytes of each exercise next to the formulas."""
    rows = []
    for n in WORKERS:
        for kind, who, rank, formula in (
            ("ring", "each process", 0, ring_bytes(n, 8 * NUMBERS)),
            ("server", "each worker", 0, 8 * NUMBERS),
            ("server", "the server", -1, server_bytes(n, 8 * NUMBERS)),
        ):
            exercise = f"{kind} of {n}"
            sent, received = _bytes_by_rank(results, exercise)
            rows.append(
                {
                    "exercise": exercise,
                    "process": who,
                    "formula, bytes sent": f"{formula:,.0f}",
                    "bytes sent": f"{sent[rank]:,}" if sent else "–",
                    "bytes received": f"{received[rank]:,}" if received else "–",
                }
            )
    return page.table(rows, text=["process"])

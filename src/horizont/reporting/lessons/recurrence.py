"""Pictures of chapter 6: memories, unrolled networks, and how far back they reach."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from numpy.typing import NDArray

from horizont.reporting.page import FigureOutput
from horizont.reporting.style import (
    BACKGROUND,
    FOREGROUND,
    PAIR_COLOURS,
    book_style,
    grid_axis,
    new_figure,
)
from horizont.theory.memory import energy, letters, reach, recall, remembered, spoiled

#: Inputs and outputs of each use at five time steps: 1 where there is one.
USES = {
    "sequence to sequence": ((1, 1, 1, 1, 1), (1, 1, 1, 1, 1)),
    "sequence to vector": ((1, 1, 1, 1, 1), (0, 0, 0, 0, 1)),
    "vector to sequence": ((1, 0, 0, 0, 0), (1, 1, 1, 1, 1)),
    "delayed sequence": ((1, 1, 1, 0, 0), (0, 0, 1, 1, 1)),
}


def memory(spoiled_share: float = 0.2) -> FigureOutput:
    """Draw how a Hopfield network finds three letters again."""
    patterns = letters()
    weights = remembered(patterns)
    with book_style():
        figure = new_figure(4.2)
        panels = figure.subplots(3, 5, width_ratios=[1, 1, 1, 1, 2.2])
        for row, pattern in enumerate(patterns):
            states = recall(weights, spoiled(pattern, spoiled_share, seed=row))
            shown = zip(
                panels[row, :4],
                (pattern, *states[:3]),
                ("learned", "spoiled", "1 sweep", "2 sweeps"),
                strict=True,
            )
            for axes, state, title in shown:
                axes.imshow(state.reshape(8, 8), cmap="cividis_r", vmin=-1, vmax=1)
                axes.set_xticks([])
                axes.set_yticks([])
                axes.grid(visible=False)
                if row == 0:
                    axes.set_title(title, fontsize=9)
            _energies(panels[row, 4], energy(weights, states), row)
    caption = (
        "A Hopfield network of 64 neurons that has learned three letters, each shown to it with "
        f"{spoiled_share:.0%} of the marks turned round. Neurons follow the sum of their inputs "
        "one after the other, in random order. Right: the energy, which no update can raise."
    )
    return FigureOutput(figure, "memory", caption)


def _energies(axes: Axes, energies: NDArray[Any], row: int) -> None:
    axes.plot(energies, "o-", color=PAIR_COLOURS[0], markersize=4)
    axes.set_xticks(range(len(energies)))
    axes.yaxis.tick_right()
    grid_axis(axes, "y")
    if row == 0:
        axes.set_title("energy", fontsize=9)
    if row == 2:
        axes.set_xlabel("sweeps")


def uses() -> FigureOutput:
    """Draw the four uses of a recurrent network."""
    with book_style():
        figure = new_figure(3.6)
        for axes, (name, (given, told)) in zip(
            figure.subplots(2, 2).flat, USES.items(), strict=True
        ):
            axes.axis("off")
            axes.set_xlim(-0.6, 4.6)
            axes.set_ylim(-1.5, 1.7)
            axes.set_title(name, fontsize=9.5)
            for t in range(5):
                _step(axes, t, bool(given[t]), bool(told[t]))
    caption = (
        "Four uses of a recurrent network, unrolled over five time steps: below what it is given, "
        "above what it is asked for. This study's LSTM is of the first kind: after each word it "
        "predicts the next one. Translators are of the last: they listen first."
    )
    return FigureOutput(figure, "uses", caption)


def _step(axes: Axes, t: int, given: bool, told: bool) -> None:
    arrow = {"arrowstyle": "-|>", "color": FOREGROUND, "linewidth": 0.9, "shrinkA": 8, "shrinkB": 8}
    if t:
        axes.annotate("", (t, 0), (t - 1, 0), arrowprops=arrow)
    if given:
        axes.annotate("", (t, 0), (t, -1.1), arrowprops=arrow)
        axes.plot(t, -1.1, "s", color=PAIR_COLOURS[2], markersize=9)
    if told:
        axes.annotate("", (t, 1.1), (t, 0), arrowprops=arrow)
        axes.plot(t, 1.1, "D", color=PAIR_COLOURS[3], markersize=8)
    axes.plot(t, 0, "o", color=BACKGROUND, markeredgecolor=FOREGROUND, markersize=14)


def memory_span(steps: int = 40) -> FigureOutput:
    """Draw how much the last state depends on earlier inputs."""
    lines = {
        "recurrent (tanh)": ("--", PAIR_COLOURS[1], reach("recurrent", steps)),
        "LSTM, forget bias 0": ("-.", PAIR_COLOURS[2], reach("lstm", steps, 0.0)),
        "LSTM, forget bias 1": (":", PAIR_COLOURS[3], reach("lstm", steps, 1.0)),
        "LSTM, forget bias 3": ("-", PAIR_COLOURS[0], reach("lstm", steps, 3.0)),
    }
    with book_style():
        figure = new_figure(2.9)
        axes = figure.subplots()
        grid_axis(axes, "y")
        for label, (dash, colour, sizes) in lines.items():
            axes.plot(sizes, dash, color=colour, label=label)
        axes.set_yscale("log")
        axes.set_xlabel("time steps back")
        axes.set_ylabel("gradient by the input")
        figure.legend(loc="outside lower center", ncols=2)
    caption = (
        f"How much the state after {steps} steps depends on each input before it, relative to the "
        "last input, in untrained layers of 32 units with weights of the same size. What a plain "
        "recurrent layer saw ten steps ago is all but gone. The cell of an LSTM keeps its content "
        "as long as its forget gate stays open, which the bias of the gate decides at first."
    )
    return FigureOutput(figure, "span", caption)

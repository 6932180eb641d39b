"""Pictures of chapter 5: batch norm, dropout, residual blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from horizont.reporting import labels
from horizont.reporting.page import FigureOutput
from horizont.reporting.style import PAIR_COLOURS, book_style, grid_axis, new_figure
from horizont.reporting.tables import Table, text_table
from horizont.theory.blocks import gradients_through, passed_on
from horizont.theory.norms import dropout_mask

GAINS = {0.5: "small weights", 1.0: "weights of variance 1/n", 3.0: "large weights"}


def outputs(layers: int = 12) -> FigureOutput:
    """Draw how outputs are spread in the last of many layers, with batch norm and without."""
    edges = np.linspace(-1, 1, 41)
    with book_style():
        figure = new_figure(3.3)
        panels = figure.subplots(2, len(GAINS), sharex=True)
        for column, (gain, said) in enumerate(GAINS.items()):
            for row, normalised in enumerate((False, True)):
                values = passed_on(layers, normalised=normalised, gain=gain)[-1].ravel()
                axes = panels[row, column]
                axes.hist(
                    values, edges, color=PAIR_COLOURS[row], weights=values * 0 + 1 / len(values)
                )
                grid_axis(axes, "y")
                axes.set_yticks([])
            panels[0, column].set_title(said, fontsize=9)
            panels[1, column].set_xlabel("output")
        panels[0, 0].set_ylabel("without")
        panels[1, 0].set_ylabel("with batch norm")
    caption = (
        f"What comes out of the {layers}th of {layers} tanh layers of 64 neurons, for three sizes "
        "of the initial weights. Without batch norm the signal dies out, or saturates at −1 and 1; "
        "with it the outputs are spread alike, whatever the weights."
    )
    return FigureOutput(figure, "outputs", caption)


def dropped(rate: float = 0.5) -> FigureOutput:
    """Draw a dropout mask, and what sums of dropped values are like."""
    random = np.random.default_rng(0)
    values = random.random(64)
    sums = [float(values @ dropout_mask((64,), rate, seed)) for seed in range(2000)]
    with book_style():
        figure = new_figure(2.4)
        left, right = figure.subplots(1, 2, width_ratios=[1, 1.8])
        left.imshow(dropout_mask((8, 8), rate, 1), cmap="Greys_r", vmin=-0.4)
        left.set_xticks([])
        left.set_yticks([])
        left.grid(visible=False)
        left.set_title(f"a mask, rate {rate:g}")
        right.hist(sums, 40, color=PAIR_COLOURS[0])
        right.axvline(values.sum(), color=PAIR_COLOURS[1], linewidth=1.6)
        right.set_title("sum of 64 values, 2,000 masks")
        right.set_yticks([])
        grid_axis(right, "x")
    caption = (
        f"Dropout with the rate {rate:g}. Left: one mask; dark neurons are left out, the others "
        f"multiplied by {1 / (1 - rate):g}. Right: what the next neuron receives changes from mask "
        "to mask, around what it receives in use (line), where nothing is dropped."
    )
    return FigureOutput(figure, "dropped", caption)


def draws(told: Mapping[str, NDArray[Any]], slopes: Mapping[str, NDArray[Any]]) -> Table:
    """Show what each framework's own dropout did to ten thousand ones.

    Parameters
    ----------
    told, slopes
        Values and gradients, by framework.
    """
    rows = [
        {
            "framework": labels.framework_label(name),
            "dropped": f"{np.mean(values == 0):.1%}",
            "the others became": f"{values.max():.6f}",
            "mean": f"{values.mean():.3f}",
            "same mask on the way back": "yes" if np.array_equal(values, slopes[name]) else "no",
        }
        for name, values in told.items()
    ]
    frame = pd.DataFrame(rows)
    return text_table(frame, numbers=["dropped", "the others became", "mean"])


def depth(blocks: int = 40) -> FigureOutput:
    """Draw how a gradient fares through many blocks, with a way around each and without."""
    with book_style():
        figure = new_figure(2.7)
        axes = figure.subplots()
        grid_axis(axes, "y")
        for around, label, dash, colour in (
            (False, "plain", "--", PAIR_COLOURS[1]),
            (True, "residual", "-", PAIR_COLOURS[0]),
        ):
            sizes = [gradients_through(blocks, around=around, seed=seed) for seed in range(5)]
            middle = np.median(sizes, axis=0)
            axes.plot(middle, color=colour, linestyle=dash, label=label)
        axes.set_yscale("log")
        axes.set_xlabel("blocks passed on the way back")
        axes.set_ylabel("size of the gradient")
        axes.legend()
    caption = (
        f"The size of a gradient on its way back through {blocks} blocks of a layer with batch "
        "norm and relu, relative to where it starts; median of five chains. Without a way around, "
        "batch norm makes the gradient of a random network explode; with it, the gradient keeps "
        "its order of size."
    )
    return FigureOutput(figure, "depth", caption)

"""Pictures of chapter 1: activation functions, a neuron's line, and vanishing gradients."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from horizont.reporting.page import FigureOutput
from horizont.reporting.style import (
    FOREGROUND,
    GRID,
    MUTED,
    PAIR_COLOURS,
    book_style,
    grid_axis,
    new_figure,
)
from horizont.theory.activations import FUNCTIONS
from horizont.theory.neuron import SATURATED, gradients_by_layer, neuron

#: Activation functions that the figures compare, each with a colour and a kind of line.
COMPARED = {"sigmoid": ("-", 0), "tanh": ("--", 1), "relu": ("-.", 2)}


def response(weight: float = 1.0, bias: float = 0.0) -> FigureOutput:
    """Draw what a neuron with one input gives, and how much it reacts."""
    x = np.linspace(-6, 6, 241)
    with book_style():
        figure = new_figure(2.9)
        left, right = figure.subplots(1, 2)
        left.plot(x, weight * x + bias, color=MUTED, linewidth=1, linestyle=":")
        for name, (dash, place) in COMPARED.items():
            function, slope = FUNCTIONS[name]
            about = {"color": PAIR_COLOURS[place], "linestyle": dash, "label": name}
            left.plot(x, function(weight * x + bias), **about)
            right.plot(x, weight * slope(weight * x + bias), **about)
        left.set_ylim(-1.4, 3)
        left.set_title("output")
        right.set_title("derivative by the input")
        for axes in (left, right):
            axes.set_xlabel("input x")
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    caption = (
        f"A neuron with one input, weight {weight:g} and bias {bias:g}. Dotted: the weighted sum "
        "before the activation function. The weight sets how steep the output is, and on which "
        "side it rises; the bias moves it along the input. At the right, what is left of a "
        "gradient on its way back."
    )
    return FigureOutput(figure, "response", caption)


def activations() -> FigureOutput:
    """Draw each activation function with its derivative and where it is saturated."""
    x = np.linspace(-6, 6, 481)
    with book_style():
        figure = new_figure(4.4)
        panels = figure.subplots(2, 3, sharex=True, sharey=True)
        for axes, (name, (function, slope)) in zip(panels.flat, FUNCTIONS.items(), strict=True):
            steep = slope(x)
            axes.fill_between(
                x, -1.5, 3, where=steep < SATURATED, color=GRID, alpha=0.6, linewidth=0
            )
            axes.plot(x, function(x), color=PAIR_COLOURS[0], label="function")
            axes.plot(x, steep, color=PAIR_COLOURS[1], linestyle="--", label="derivative")
            axes.set_title(name.replace("_", " "))
            axes.set_ylim(-1.5, 3)
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
    caption = (
        "Six activation functions and their derivatives. Shaded: where the derivative is below "
        f"{SATURATED:g}. There the neuron is saturated: it says the same whatever its weights do, "
        "so that they learn next to nothing."
    )
    return FigureOutput(figure, "activations", caption)


def line(angle: float = 30.0, steepness: float = 3.0, bias: float = 0.0) -> FigureOutput:
    """Draw the line that a neuron with two inputs draws through their plane."""
    turned = np.deg2rad(angle)
    weights = steepness * np.array([np.cos(turned), np.sin(turned)])
    side = np.linspace(-2, 2, 81)
    grid = np.stack(np.meshgrid(side, side), axis=-1)
    with book_style():
        figure = new_figure(3.1, 4.2)
        axes = figure.subplots()
        levels = np.linspace(0, 1, 11)
        shown = axes.contourf(
            side, side, neuron(grid, weights, bias), levels, cmap="cividis", alpha=0.9
        )
        axes.contour(side, side, grid @ weights + bias, [0.0], colors=[FOREGROUND], linewidths=1.4)
        foot = -bias * weights / (weights @ weights)
        tip = foot + weights / steepness
        arrow = {"arrowstyle": "-|>", "color": FOREGROUND}
        axes.annotate("", (tip[0], tip[1]), (foot[0], foot[1]), arrowprops=arrow)
        axes.set_aspect("equal")
        axes.set_xlabel("first input")
        axes.set_ylabel("second input")
        figure.colorbar(shown, label="output of the neuron", ticks=[0, 0.5, 1])
    caption = (
        "A sigmoid neuron with two inputs cuts their plane along a line, where the weighted sum "
        "plus bias is zero. The arrow is the direction of the weights; their size sets how sharp "
        f"the cut is, and the bias (here {bias:g}) how far the line lies from the middle."
    )
    return FigureOutput(figure, "line", caption)


def vanishing(layers: int = 30) -> FigureOutput:
    """Draw how the gradient shrinks from layer to layer on its way back."""
    with book_style():
        figure = new_figure(2.8)
        axes = figure.subplots()
        grid_axis(axes, "y")
        for name, (dash, place) in COMPARED.items():
            sizes = np.array([gradients_by_layer(name, layers, seed=seed) for seed in range(5)])
            colour = PAIR_COLOURS[place]
            middle = np.median(sizes, axis=0)
            axes.fill_between(
                range(layers + 1), sizes.min(0), sizes.max(0), color=colour, alpha=0.2, linewidth=0
            )
            axes.plot(middle, color=colour, linestyle=dash, label=name)
            _name(axes, name, layers, float(middle[-1]), colour)
        axes.set_yscale("log")
        axes.set_xlim(0, layers * 1.14)
        axes.set_xlabel("layers passed on the way back")
        axes.set_ylabel("size of the gradient")
    caption = (
        f"The size of a gradient behind a chain of {layers} random layers of 64 neurons, relative "
        "to where it starts; median of five chains, shaded from the smallest to the largest. "
        "Weights have the variance 1/64. Through sigmoid neurons each layer keeps about an eighth."
    )
    return FigureOutput(figure, "vanishing", caption)


def _name(axes: Axes, name: str, layers: int, value: float, colour: str) -> None:
    axes.annotate(
        name,
        (layers, value),
        xytext=(4, 0),
        textcoords="offset points",
        color=colour,
        va="center",
    )

"""Chapter 5: batch normalisation, dropout and residual blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import autograd.numpy as np
from matplotlib.figure import Figure

from horizont.reporting.labels import framework_label
from horizont.reporting.output import TableOutput
from horizont.reporting.style import PAIR_COLOURS, grid_axis
from horizont_textbook import Array, page
from horizont_textbook.neuron import WIDTH, norms_by_depth
from horizont_textbook.page import Plotted, columns

#: Factor of the standard deviation of the initial weights.
GAINS = {0.5: "small weights", 1.0: "weights of variance 1/n", 3.0: "large weights"}


def batch_norm(values: Array, scale: Any = 1.0, offset: Any = 0.0, epsilon: float = 1e-5) -> Array:
    """Return features with mean 0 and variance 1 over the batch, then scaled and shifted."""
    deviation = np.sqrt(np.var(values, axis=0) + epsilon)
    return scale * (values - np.mean(values, axis=0)) / deviation + offset


def batch_norm_gradient(gradient: Array, values: Array, epsilon: float = 1e-5) -> Array:
    """Return the gradient by the values, given that by the normalised values.

    Mean and variance depend on the batch, so the gradient of an example depends on all others.
    """
    deviation = np.sqrt(np.var(values, axis=0) + epsilon)
    normal = (values - np.mean(values, axis=0)) / deviation
    by_mean_and_variance = gradient.mean(axis=0) + normal * (gradient * normal).mean(axis=0)
    return (gradient - by_mean_and_variance) / deviation


def dropout_mask(shape: tuple[int, ...], rate: float, seed: int) -> Array:
    """Draw factors: 0 with the given rate, else 1 / (1 - rate), so that their mean is 1."""
    return (np.random.default_rng(seed).random(shape) >= rate) / (1 - rate)


def deep_outputs(layers: int, *, normalised: bool, gain: float) -> Array:
    """Return the outputs of the last tanh layer; weights have variance gain^2 / width."""
    rng = np.random.default_rng(7)
    values = rng.normal(size=(128, WIDTH))
    for _ in range(layers):
        sums = values @ rng.normal(0, gain * WIDTH**-0.5, (WIDTH, WIDTH))
        values = np.tanh(batch_norm(sums) if normalised else sums)
    return values


def gradients_by_depth(blocks: int, *, residual: bool, seed: int = 1) -> Array:
    """Compute the norm of a gradient behind each block of layer, batch norm and relu."""

    def block(x: Array, weight: Array) -> Array:
        return np.maximum(batch_norm(x @ weight), 0) + (x if residual else 0)

    return norms_by_depth(block, blocks, 64, seed)


@page.figure("outputs", height=3.3, grid="y")
def plot_outputs(figure: Figure, layers: int = 12) -> Plotted:
    """The outputs of the last of {layers} tanh layers of 64 neurons, for three sizes of the initial
    weights. Without batch norm the signal vanishes, or saturates at −1 and 1; with it the
    distribution is the same for all weights.
    """
    edges = np.linspace(-1, 1, 41)
    data = columns(output=(edges[1:] + edges[:-1]) / 2)
    panels = figure.subplots(2, len(GAINS), sharex=True)
    for row, label in enumerate(("without", "with batch norm")):
        for axes, (gain, description) in zip(panels[row], GAINS.items(), strict=True):
            outputs = deep_outputs(layers, normalised=bool(row), gain=gain).ravel()
            weights = np.full(outputs.shape, 1 / len(outputs))
            heights, *_ = axes.hist(outputs, edges, color=PAIR_COLOURS[row], weights=weights)
            data[f"{description}, {label}"] = heights
            axes.set_yticks([])
            axes.set_title("" if row else description, fontsize=9)
            axes.set_xlabel("output" if row else "")
        panels[row, 0].set_ylabel(label)
    return data


@page.figure("dropped", height=2.4)
def plot_dropout(figure: Figure, rate: float = 0.5) -> Plotted:
    """Dropout with rate {rate:g}. Left: one mask; dark neurons are dropped, the others multiplied
    by {factor:g}. Right: the input of a neuron of the next layer varies from mask to mask, around
    its input at inference (line), where nothing is dropped.
    """
    values = np.random.default_rng(0).random(64)
    sums = [float(values @ dropout_mask((64,), rate, seed)) for seed in range(2000)]
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.8])
    left.imshow(dropout_mask((8, 8), rate, 1), cmap="Greys_r", vmin=-0.4)
    left.set(xticks=[], yticks=[], title=f"a mask, rate {rate:g}")
    left.grid(visible=False)
    counts, edges, _ = right.hist(sums, 40)
    right.axvline(values.sum(), color=PAIR_COLOURS[1], linestyle="-")
    right.set(title="sum of 64 values, 2,000 masks", yticks=[])
    grid_axis(right, "x")
    return columns(sum=edges[:-1], masks=counts), {"factor": 1 / (1 - rate)}


def dropout_table(outputs: Mapping[str, Array], gradients: Mapping[str, Array]) -> TableOutput:
    """Format what the dropout of each framework did to ten thousand ones."""
    same_mask = "same mask in the backward pass"
    rows = [
        {
            "framework": framework_label(name),
            "dropped": f"{np.mean(values == 0):.1%}",
            "the others became": f"{values.max():.6f}",
            "mean": f"{values.mean():.3f}",
            same_mask: "yes" if np.array_equal(values, gradients[name]) else "no",
        }
        for name, values in outputs.items()
    ]
    return page.table(rows, text=[same_mask])


@page.figure("depth", height=2.7, grid="y")
def plot_depth(figure: Figure, blocks: int = 40) -> Plotted:
    """The norm of a gradient after {blocks} blocks of a layer with batch norm and relu, relative
    to the output; median of five networks. Without the skip connection, batch norm makes the
    gradient of a random network explode: all blocks multiply it by about {plain:,.0f}. With
    the connection, they multiply it by about {residual:,.0f}.
    """
    data = columns(block=np.arange(blocks + 1))
    axes = figure.subplots()
    for residual, label in ((True, "residual"), (False, "plain")):
        norms = [gradients_by_depth(blocks, residual=residual, seed=seed) for seed in range(5)]
        data[label] = np.median(norms, axis=0)
        axes.plot(data[label], label=label)
    axes.set(yscale="log", ylabel="norm of the gradient")
    axes.set_xlabel("blocks passed in the backward pass")
    axes.legend()
    # One digit: the five networks differ by more.
    return data, {name: float(f"{data[name].iloc[-1]:.1g}") for name in ("plain", "residual")}

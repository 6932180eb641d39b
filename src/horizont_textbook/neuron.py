"""Chapter 1: a neuron, activation functions, and vanishing gradients."""

from __future__ import annotations

from collections.abc import Callable

import autograd.numpy as np
from autograd import elementwise_grad, make_vjp
from matplotlib.figure import Figure

from horizont.reporting.style import FOREGROUND, GRID, MUTED, PAIR_COLOURS
from horizont_textbook import Array, page
from horizont_textbook.page import Plotted, columns

#: Where the derivative is smaller, a function counts as saturated.
SATURATION_THRESHOLD = 0.05

#: Neurons of each layer of the random networks.
WIDTH = 64

#: Activation functions that the figures compare.
COMPARED = ("sigmoid", "tanh", "relu")


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)), written with tanh, which does not overflow."""
    return 0.5 * (1 + np.tanh(0.5 * x))


def sigmoid_derivative(x: Array) -> Array:
    """Return the derivative: at most 1/4, at 0."""
    y = sigmoid(x)
    return y * (1 - y)


def relu(x: Array) -> Array:
    """Return x where it is positive, else 0; the derivative at 0 is 0, as in the frameworks."""
    return np.where(x > 0, x, 0.0)


def leaky_relu(x: Array) -> Array:
    """Return x where it is positive, else an eighth of it."""
    return np.where(x > 0, x, 0.125 * x)


def elu(x: Array) -> Array:
    """Return x where it is positive, else exp(x) - 1."""
    return np.where(x > 0, x, np.expm1(np.where(x > 0, 0.0, x)))


def softplus(x: Array) -> Array:
    """Return log(1 + exp(x)), a smooth relu."""
    return np.logaddexp(0.0, x)


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "relu": relu,
    "leaky_relu": leaky_relu,
    "elu": elu,
    "softplus": softplus,
}

DERIVATIVES = {name: elementwise_grad(function) for name, function in ACTIVATIONS.items()}


def neuron(x: Array, weights: Array, bias: float, activation: str = "sigmoid") -> Array:
    """Apply the activation function to the weighted sum of the inputs plus the bias."""
    return ACTIVATIONS[activation](x @ weights + bias)


def norms_by_depth(
    layer: Callable[[Array, Array], Array], layers: int, examples: int, seed: int
) -> Array:
    """Compute the norm of a gradient behind each layer of inputs and weights, from the last back.

    Weights have variance 1 / width, so that a linear layer would preserve the norm.
    """
    rng = np.random.default_rng(seed)
    weights = [rng.normal(0, WIDTH**-0.5, (WIDTH, WIDTH)) for _ in range(layers)]
    values, backward_passes = rng.normal(size=(examples, WIDTH)), []
    for weight in weights:
        backward, values = make_vjp(layer)(values, weight)
        backward_passes.append(backward)
    gradients = [rng.normal(size=values.shape)]
    for backward in reversed(backward_passes):
        gradients.append(backward(gradients[-1]))
    norms = np.linalg.norm(gradients, axis=(1, 2))
    return norms / norms[0]


def gradient_norms(activation: str, layers: int, seed: int = 1) -> Array:
    """Compute the norm of a gradient behind each layer with an activation function."""
    return norms_by_depth(lambda x, w: ACTIVATIONS[activation](x @ w), layers, 32, seed)


def saturation_point(activation: str) -> float:
    """Find the positive input from which the function is saturated."""
    x = np.linspace(0, 20, 200_001)
    is_flat = DERIVATIVES[activation](x) < SATURATION_THRESHOLD
    return float(x[is_flat][0]) if is_flat[-1] else float("inf")


@page.figure("response", height=2.9, legend=3)
def plot_response(figure: Figure, weight: float = 1.0, bias: float = 0.0) -> Plotted:
    """A neuron with one input, weight {weight:g} and bias {bias:g}. Dotted: the weighted sum before
    the activation function. The weight sets how steep the output is and on which side it rises; the
    bias shifts it along the input. Right: the factor by which the neuron scales a gradient in the
    backward pass.
    """
    x = np.linspace(-6, 6, 241)
    data = columns(input=x, weighted_sum=weight * x + bias)
    left, right = figure.subplots(1, 2)
    left.plot(x, data["weighted_sum"], color=MUTED, linewidth=1, linestyle=":")
    for name in COMPARED:
        data[name] = ACTIVATIONS[name](weight * x + bias)
        data[f"{name} derivative"] = weight * DERIVATIVES[name](weight * x + bias)
        left.plot(x, data[name], label=name)
        right.plot(x, data[f"{name} derivative"])
    left.set(ylim=(-1.4, 3), title="output", xlabel="input x")
    right.set(title="derivative with respect to the input", xlabel="input x")
    return data


@page.figure("activations", height=4.4, legend=2)
def plot_activations(figure: Figure) -> Plotted:
    """Six activation functions and their derivatives. Shaded: where the derivative is below
    {threshold:g}. There the neuron is saturated: its output hardly depends on its weights, which
    therefore hardly change in training.
    """
    x = np.linspace(-6, 6, 481)
    data = columns(x=x)
    panels = figure.subplots(2, 3, sharex=True, sharey=True)
    for axes, (name, function) in zip(panels.flat, ACTIVATIONS.items(), strict=True):
        data[name], derivative = function(x), DERIVATIVES[name](x)
        data[f"{name} derivative"] = derivative
        is_flat = derivative < SATURATION_THRESHOLD
        axes.fill_between(x, -1.5, 3, where=is_flat, color=GRID, alpha=0.6, linewidth=0)
        axes.plot(x, data[name])
        axes.plot(x, derivative)
        axes.set(title=name.replace("_", " "), ylim=(-1.5, 3))
    for line, label in zip(panels[0, 0].lines, ("function", "derivative"), strict=True):
        line.set_label(label)
    return data, {"threshold": SATURATION_THRESHOLD}


@page.figure("line", height=3.1)
def plot_decision_line(
    figure: Figure, angle: float = 30.0, steepness: float = 3.0, bias: float = 0.0
) -> Plotted:
    """A sigmoid neuron with two inputs divides their plane along the line where the weighted sum
    plus bias is zero. The arrow is the direction of the weights; their size sets how sharp the
    transition is, and the bias (here {bias:g}) how far the line lies from the origin.
    """
    figure.set_figwidth(4.2)
    direction = np.array([np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))])
    weights = steepness * direction
    side = np.linspace(-2, 2, 81)
    grid = np.stack(np.meshgrid(side, side), axis=-1)
    output = neuron(grid, weights, bias)
    axes = figure.subplots()
    filled = axes.contourf(side, side, output, np.linspace(0, 1, 11), cmap="cividis", alpha=0.9)
    axes.contour(side, side, grid @ weights + bias, [0.0], colors=[FOREGROUND], linewidths=1.4)
    foot = -bias * weights / (weights @ weights)
    arrow = {"arrowstyle": "-|>", "color": FOREGROUND}
    axes.annotate("", tuple(foot + direction), tuple(foot), arrowprops=arrow)
    axes.set(aspect="equal", xlabel="first input", ylabel="second input")
    figure.colorbar(filled, label="output of the neuron", ticks=[0, 0.5, 1])
    first, second = grid[::4, ::4].reshape(-1, 2).T
    return columns(first=first, second=second, output=output[::4, ::4].ravel())


@page.figure("vanishing", height=2.8, grid="y")
def plot_vanishing(figure: Figure, layers: int = 30) -> Plotted:
    """The norm of a gradient after {layers} random layers of 64 neurons, relative to the output;
    median of five networks, shaded from the smallest to the largest. Weights have variance 1/64.
    A sigmoid layer divides the gradient by {factor:.1f} on average.
    """
    data = columns(layer=np.arange(layers + 1))
    axes = figure.subplots()
    for name, colour in zip(COMPARED, PAIR_COLOURS, strict=False):
        norms = np.array([gradient_norms(name, layers, seed=seed) for seed in range(5)])
        data[name] = np.median(norms, axis=0)
        axes.fill_between(data["layer"], norms.min(0), norms.max(0), alpha=0.2, linewidth=0)
        axes.plot(data[name])
        end = (layers, data[name].iloc[-1])
        axes.annotate(name, end, (4, 0), textcoords="offset points", color=colour, va="center")
    axes.set(yscale="log", xlim=(0, layers * 1.14))
    axes.set(xlabel="layers passed in the backward pass", ylabel="norm of the gradient")
    return data, {"factor": data["sigmoid"].iloc[-1] ** (-1 / layers)}

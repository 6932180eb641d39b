"""Chapter 8: gradient descent with delayed gradients."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

import autograd.numpy as np
from autograd import grad
from matplotlib.figure import Figure
from scipy.optimize import brentq

from horizont.reporting.labels import framework_label
from horizont.reporting.output import TableOutput
from horizont.reporting.style import FOREGROUND, MUTED, PAIR_COLOURS, grid_axis
from horizont_textbook import Array, page
from horizont_textbook.descent import Momentum, descend, steps_to_a_millionth
from horizont_textbook.loss import cross_entropy
from horizont_textbook.page import Plotted, columns

DELAYS = range(17)

#: Delays of the gradients in the training of a small network.
TRAINING_DELAYS = (0, 1, 4, 16)


def delayed_descent(product: float, delay: int, steps: int) -> Array:
    """Compute w[t+1] = w[t] - product * w[t-delay] from w[0] = 1.

    The product is that of learning rate and curvature.
    """
    path = [1.0]
    for step in range(steps):
        path.append(path[step] - product * path[max(0, step - delay)])
    return np.array(path)


def spectral_radius(product: float, delay: int) -> float:
    """Return the asymptotic contraction of a step; above 1 the descent diverges.

    The largest absolute root of z^(delay+1) - z^delay + product, the characteristic polynomial
    of the recurrence.
    """
    polynomial = np.zeros(delay + 2)
    polynomial[:2] = 1.0, -1.0
    polynomial[-1] += product
    return float(np.abs(np.roots(polynomial)).max())


def stability_limit(delay: int) -> float:
    """Return the product of learning rate and curvature from which delayed descent diverges.

    2 sin(pi / (2 (2 delay + 1))): Levin and May, A note on difference-delay equations,
    Theoretical Population Biology 9, 1976 (there as 2 cos(delay pi / (2 delay + 1))).
    """
    return float(2 * np.sin(np.pi / (2 * (2 * delay + 1))))


def numeric_stability_limit(delay: int) -> float:
    """Find the same limit from the roots alone."""
    optimum, _ = optimal_product(delay)
    # Not from 0: without descent the contraction is 1, too.
    return float(brentq(lambda product: spectral_radius(product, delay) - 1, optimum, 4.0))


def optimal_product(delay: int) -> tuple[float, float]:
    """Return the product that converges fastest, and the contraction of each step.

    delay^delay / (delay+1)^(delay+1), where the two largest roots meet, at delay / (delay + 1).
    """
    return float(delay**delay / (delay + 1) ** (delay + 1)), delay / (delay + 1)


def train_with_delay(
    x: Array, labels: Array, delay: int, rate: float, steps: int, *, hidden: int = 24
) -> Array:
    """Train a network with one hidden layer by old gradients; return the loss of each step."""
    rng = np.random.default_rng(8)
    features, classes = x.shape[-1], int(labels.max()) + 1
    start = {
        "W1": rng.normal(0, features**-0.5, (features, hidden)),
        "b1": np.zeros(hidden),
        "W2": rng.normal(0, hidden**-0.5, (hidden, classes)),
        "b2": np.zeros(classes),
    }

    def loss(w: Mapping[str, Array], step: int) -> Array:
        scores = np.tanh(x[step % len(x)] @ w["W1"] + w["b1"]) @ w["W2"] + w["b2"]
        return cross_entropy(scores, labels[step % len(x)])

    batches = count()
    rule = Momentum(rate, delay=delay)
    path = descend(lambda w: grad(loss)(w, next(batches)), start, rule, steps)
    return np.array([loss(w, step) for step, w in enumerate(path[:-1])])


def final_losses(x: Array, labels: Array, rate: float, steps: int = 160) -> dict[str, float]:
    """Return the mean loss of the last 20 steps for each delay."""
    return {
        f"loss, delay {delay}": float(train_with_delay(x, labels, delay, rate, steps)[-20:].mean())
        for delay in TRAINING_DELAYS
    }


@page.figure("region", height=3.0, legend=3)
def plot_stability(figure: Figure) -> Plotted:
    """Gradient descent on a parabola with delayed gradients. Left: below the upper line it
    converges; the dots are computed from the roots of the characteristic polynomial. On the lower
    line it converges fastest. Right: even with the best learning rate each step of delay costs
    about {cost:.0f} steps.
    """
    optima = [optimal_product(delay) for delay in DELAYS]
    data = columns(
        delay=DELAYS,
        limit=[stability_limit(delay) for delay in DELAYS],
        limit_from_roots=[numeric_stability_limit(delay) for delay in DELAYS],
        fastest=[product for product, _ in optima],
        steps=[steps_to_a_millionth(contraction) for _, contraction in optima],
    )
    delays = data["delay"]
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    left.fill_between(delays, 0.01, data["limit"], color=PAIR_COLOURS[2], alpha=0.16, linewidth=0)
    left.plot(delays, data["limit"], "-", color=PAIR_COLOURS[3], label="limit: formula")
    roots: dict[str, Any] = {"color": PAIR_COLOURS[3], "markersize": 4, "label": "limit: roots"}
    left.plot(delays, data["limit_from_roots"], "o", **roots)
    best: dict[str, Any] = {"color": PAIR_COLOURS[0], "markersize": 3.5}
    left.plot(delays, data["fastest"], "s--", label="fastest", **best)
    left.set(yscale="log", ylim=(0.01, 4), ylabel="learning rate × curvature")
    left.annotate("diverges", (9, 1.2))
    left.annotate("converges", (0.6, 0.016))
    left.set_xlabel("delay, steps")
    right.plot(delays, data["steps"], "s--", **best)
    right.set(xlabel="delay, steps", title="steps to a millionth, at best")
    grid_axis(right, "y")
    return data, {"cost": data["steps"].iloc[-1] / 17}


@page.figure("delayed-descent", height=2.8)
def plot_delayed_descent(
    figure: Figure, product: float = 0.35, delay: int = 4, steps: int = 60
) -> Plotted:
    """A parabola with learning rate × curvature {product:g}. Left: its weight with current
    gradients and with gradients {delay} steps old. Right: the asymptotic contraction of each step,
    {contraction:.3f} here (dot); the limit for this delay is {limit:.3f} (dotted).
    """
    data = columns(step=range(steps + 1))
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    for value, dash, colour in ((0, "--", PAIR_COLOURS[0]), (delay, "-", PAIR_COLOURS[3])):
        path = data[f"weight, delay {value}"] = delayed_descent(product, value, steps)
        left.plot(np.clip(path, -4, 4), dash, color=colour, label=f"delay {value}")
    left.axhline(0, color=MUTED, linewidth=0.8)
    left.set(ylim=(-2.2, 2.2), xlabel="step", ylabel="weight")
    left.legend(loc="upper right")
    products = np.linspace(0.002, 1.2, 200)
    right.plot(products, [spectral_radius(p, delay) for p in products], "-", color=PAIR_COLOURS[3])
    contraction, limit = spectral_radius(product, delay), stability_limit(delay)
    right.plot(product, contraction, "o", color=FOREGROUND)
    right.axhline(1, color=MUTED, linestyle=":")
    right.axvline(limit, color=MUTED, linestyle=":")
    right.set(xlabel="learning rate × curvature", title="contraction of a step")
    return data, {"contraction": contraction, "limit": limit}


@page.figure("delayed-training", height=2.9, legend=4, grid="y")
def plot_delayed_training(
    figure: Figure, x: Array, labels: Array, source: str, *, rate: float = 0.2, steps: int = 160
) -> Plotted:
    """A network of 24 hidden neurons on {source}, in NumPy, learning rate {rate:g}, with gradients
    0, 1, 4 and 16 steps old. Mean loss of the last 20 of {steps} steps: {finals}.
    """
    data = columns(step=range(steps))
    axes = figure.subplots()
    for delay in TRAINING_DELAYS:
        losses = data[f"loss, delay {delay}"] = train_with_delay(x, labels, delay, rate, steps)
        smooth = np.minimum(np.convolve(losses, np.ones(8) / 8, mode="valid"), 4)
        axes.plot(np.arange(len(smooth)) + 8, smooth, label=f"delay {delay}")
    axes.set(ylim=(0, 3.2), xlabel="step", ylabel="loss, mean of 8 steps")
    finals = [f"{data[name].iloc[-20:].mean():.2f}" for name in data.columns[1:]]
    return data, {"finals": ", ".join(finals)}


def stability_table(below: Mapping[str, Array], above: Mapping[str, Array]) -> TableOutput:
    """Format the descent of each framework's optimizer on both sides of the limit."""

    def amplitude(path: Array, step: int) -> str:
        """Format the largest distance from 0 in the steps before, as the path oscillates."""
        return f"{np.abs(np.ravel(path)[step - 7 : step + 1]).max():.3f}"

    rows = [
        {
            "framework": framework_label(name),
            "0.594, after 30 steps": amplitude(below[name], 30),
            "after 60 steps": amplitude(below[name], 60),
            "0.656, after 30": amplitude(above[name], 30),
            "after 60": amplitude(above[name], 60),
        }
        for name in below
    ]
    return page.table(rows)

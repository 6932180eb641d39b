"""Chapter 8: gradient descent with delayed gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from horizont.reporting.labels import framework_label
from horizont.reporting.output import TableOutput
from horizont.reporting.style import FOREGROUND, MUTED, PAIR_COLOURS, grid_axis
from horizont.reporting.tables import text_table
from horizont_textbook import Array
from horizont_textbook.autodiff import gradients_by_hand
from horizont_textbook.descent import steps_to
from horizont_textbook.metrics import cross_entropy
from horizont_textbook.page import book_figure, columns

DELAYS = range(17)

#: Delays of the gradients in the training of a small network, with their line styles.
TRAINING_DELAYS = {0: "-", 1: "--", 4: "-.", 16: ":"}


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
    polynomial[0] = 1.0
    polynomial[1] -= 1.0
    polynomial[-1] += product
    return float(np.abs(np.roots(polynomial)).max())


def stability_limit(delay: int) -> float:
    """Return the product of learning rate and curvature from which delayed descent diverges.

    2 sin(pi / (2 (2 delay + 1))): Levin and May, A note on difference-delay equations,
    Theoretical Population Biology 9, 1976 (there as 2 cos(delay pi / (2 delay + 1))).
    """
    return float(2 * np.sin(np.pi / (2 * (2 * delay + 1))))


def numeric_stability_limit(delay: int, tolerance: float = 1e-12) -> float:
    """Find the same limit by bisection, from the roots alone."""
    low, high = 0.0, 4.0
    while high - low > tolerance:
        middle = (low + high) / 2
        low, high = (middle, high) if spectral_radius(middle, delay) < 1 else (low, middle)
    return (low + high) / 2


def optimal_product(delay: int) -> tuple[float, float]:
    """Return the product that converges fastest, and the contraction of each step.

    delay^delay / (delay+1)^(delay+1), where the two largest roots meet, at delay / (delay + 1).
    """
    return float(delay**delay / (delay + 1) ** (delay + 1)), delay / (delay + 1)


def train_with_delay(
    x: Array, labels: Array, delay: int, rate: float, steps: int, *, hidden: int = 24, seed: int = 8
) -> Array:
    """Train a network with one hidden layer by old gradients; return the loss of each step."""
    rng = np.random.default_rng(seed)
    features, classes = x.shape[-1], int(labels.max()) + 1
    weights = {
        "W1": rng.normal(0, features**-0.5, (features, hidden)),
        "b1": np.zeros(hidden),
        "W2": rng.normal(0, hidden**-0.5, (hidden, classes)),
        "b2": np.zeros(classes),
    }
    history, losses = [weights], []
    for step in range(steps):
        batch = {"x": x[step % len(x)], "labels": labels[step % len(x)]}
        w = history[-1]
        scores = np.tanh(batch["x"] @ w["W1"] + w["b1"]) @ w["W2"] + w["b2"]
        losses.append(float(cross_entropy(scores, batch["labels"])))
        gradients = gradients_by_hand(**batch, **history[0])
        history.append({name: w[name] - rate * gradients[name] for name in w})
        history = history[-(delay + 1) :]
    return np.array(losses)


def final_losses(x: Array, labels: Array, rate: float, steps: int = 160) -> dict[str, float]:
    """Return the mean loss of the last 20 steps for each delay."""
    return {
        f"loss, delay {delay}": float(train_with_delay(x, labels, delay, rate, steps)[-20:].mean())
        for delay in TRAINING_DELAYS
    }


@book_figure("region", height=3.0)
def plot_stability(figure: Figure) -> tuple[str, pd.DataFrame]:
    """Plot for each delay which products of learning rate and curvature converge."""
    data = columns(
        delay=DELAYS,
        limit=[stability_limit(delay) for delay in DELAYS],
        limit_from_roots=[numeric_stability_limit(delay, 1e-9) for delay in DELAYS],
        fastest=[optimal_product(delay)[0] for delay in DELAYS],
        steps=[steps_to(optimal_product(delay)[1]) for delay in DELAYS],
    )
    delays, limits = data["delay"], data["limit"]
    best: dict[str, Any] = {"color": PAIR_COLOURS[0], "markersize": 3.5}
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    left.fill_between(delays, 0.01, limits, color=PAIR_COLOURS[2], alpha=0.16, linewidth=0)
    left.plot(delays, limits, color=PAIR_COLOURS[3], label="limit: formula")
    roots: dict[str, Any] = {"color": PAIR_COLOURS[3], "markersize": 4, "label": "limit: roots"}
    left.plot(delays, data["limit_from_roots"], "o", **roots)
    left.plot(delays, data["fastest"], "s--", label="fastest", **best)
    left.set(yscale="log", ylim=(0.01, 4), ylabel="learning rate × curvature")
    left.annotate("diverges", (9, 1.2))
    left.annotate("converges", (0.6, 0.016))
    left.set_xlabel("delay, steps")
    right.plot(delays, data["steps"], "s--", **best)
    right.set(xlabel="delay, steps", title="steps to a millionth, at best")
    grid_axis(right, "y")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    caption = (
        "Gradient descent on a parabola with delayed gradients. Left: below the upper line it "
        "converges; the dots are computed from the roots of the characteristic polynomial. On "
        "the lower line it converges fastest. Right: even with the best learning rate each step "
        f"of delay costs about {data['steps'].iloc[-1] / 17:.0f} steps."
    )
    return caption, data


@book_figure("delayed-descent", height=2.8)
def plot_delayed_descent(
    figure: Figure, product: float = 0.35, delay: int = 4, steps: int = 60
) -> tuple[str, pd.DataFrame]:
    """Plot the weight after each step, with and without a delay, and the contraction."""
    data = columns(step=range(steps + 1))
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    for value, dash, colour in ((0, "--", PAIR_COLOURS[0]), (delay, "-", PAIR_COLOURS[3])):
        path = data[f"weight, delay {value}"] = delayed_descent(product, value, steps)
        left.plot(np.clip(path, -4, 4), dash, color=colour, label=f"delay {value}")
    left.axhline(0, color=MUTED, linewidth=0.8)
    left.set(ylim=(-2.2, 2.2), xlabel="step", ylabel="weight")
    left.legend(loc="upper right")
    products = np.linspace(0.002, 1.2, 200)
    right.plot(products, [spectral_radius(p, delay) for p in products], color=PAIR_COLOURS[3])
    contraction = spectral_radius(product, delay)
    right.plot(product, contraction, "o", color=FOREGROUND)
    right.axhline(1, color=MUTED, linestyle=":")
    right.axvline(stability_limit(delay), color=MUTED, linestyle=":")
    right.set(xlabel="learning rate × curvature", title="contraction of a step")
    caption = (
        f"A parabola with learning rate × curvature {product:g}. Left: its weight with current "
        f"gradients and with gradients {delay} steps old. Right: the asymptotic contraction of "
        f"each step, {contraction:.3f} here (dot); the limit for this delay is "
        f"{stability_limit(delay):.3f} (dotted)."
    )
    return caption, data


@book_figure("delayed-training", height=2.9)
def plot_delayed_training(
    figure: Figure, x: Array, labels: Array, source: str, *, rate: float = 0.2, steps: int = 160
) -> tuple[str, pd.DataFrame]:
    """Plot how a small network learns with each delay of the gradients."""
    data = columns(step=range(steps))
    axes = figure.subplots()
    for (delay, dash), colour in zip(TRAINING_DELAYS.items(), PAIR_COLOURS, strict=False):
        losses = data[f"loss, delay {delay}"] = train_with_delay(x, labels, delay, rate, steps)
        smooth = np.minimum(np.convolve(losses, np.ones(8) / 8, mode="valid"), 4)
        axes.plot(np.arange(len(smooth)) + 8, smooth, dash, color=colour, label=f"delay {delay}")
    axes.set(ylim=(0, 3.2), xlabel="step", ylabel="loss, mean of 8 steps")
    grid_axis(axes, "y")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    finals = ", ".join(f"{data[name].iloc[-20:].mean():.2f}" for name in data.columns[1:])
    caption = (
        f"A network of 24 hidden neurons on {source}, in NumPy, learning rate {rate:g}, with "
        f"gradients 0, 1, 4 and 16 steps old. Mean loss of the last 20 of {steps} steps: {finals}."
    )
    return caption, data


def stability_table(below: Mapping[str, Array], above: Mapping[str, Array]) -> TableOutput:
    """Format the descent of each framework's optimizer on both sides of the limit."""
    rows = [
        {
            "framework": framework_label(name),
            "0.594, after 30 steps": f"{_amplitude(below[name], 30):.3f}",
            "after 60 steps": f"{_amplitude(below[name], 60):.3f}",
            "0.656, after 30": f"{_amplitude(above[name], 30):.3f}",
            "after 60": f"{_amplitude(above[name], 60):.3f}",
        }
        for name in below
    ]
    frame = pd.DataFrame(rows)
    return text_table(frame, measured=False, numbers=list(frame.columns[1:]))


def _amplitude(path: Array, step: int) -> float:
    """Return the largest distance from 0 in the steps before, as the path oscillates."""
    return float(np.abs(np.ravel(path)[step - 7 : step + 1]).max())

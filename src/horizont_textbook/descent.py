"""Chapter 2: gradient descent; learning rate, momentum and mini-batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import autograd.numpy as np
from autograd import grad
from autograd.misc.flatten import flatten
from matplotlib.figure import Figure

from horizont.reporting.style import FOREGROUND, GRID, MUTED, PAIR_COLOURS, grid_axis
from horizont_textbook import Array, page
from horizont_textbook.page import Plotted, columns

#: The smallest and the largest curvature of the bowl.
CURVATURES = (1.0, 10.0)

#: Learning rates on a parabola of curvature 1, and how each behaves.
RATES = {0.1: "too small", 0.6: "good", 1.9: "too large", 2.05: "diverges"}


@dataclass(frozen=True)
class Momentum:
    """Gradient descent with momentum; 0 is plain descent.

    Attributes
    ----------
    nesterov
        Whether a step includes the momentum of the next one.
    delay
        Age of the gradients in steps: they are computed at the weights of so many steps before.
    """

    learning_rate: float
    momentum: float = 0.0
    nesterov: bool = False
    delay: int = 0


def descend(gradient: Callable[[Any], Any], start: Any, rule: Momentum, steps: int) -> list[Any]:
    """Run gradient descent by a function that computes gradients; return all points.

    A point is an array, or a dictionary of arrays; its gradient has the same form.
    """
    weights, unflatten = flatten(start)
    velocity, path = np.zeros_like(weights), [start]
    for step in range(steps):
        gradients, _ = flatten(gradient(path[max(0, step - rule.delay)]))
        scaled = rule.learning_rate * gradients
        velocity = rule.momentum * velocity - scaled
        weights = weights + (rule.momentum * velocity - scaled if rule.nesterov else velocity)
        path.append(unflatten(weights))
    return path


def parabola(point: Any) -> Any:
    """Return a loss of one weight with curvature 1."""
    return 0.5 * point[0] ** 2


def bowl(point: Any) -> Any:
    """Return a loss of two weights with curvatures 1 and 10."""
    return 0.5 * point[0] ** 2 + 5.0 * point[1] ** 2


def waves(point: Any) -> Any:
    """Return a loss of one weight with several local minima."""
    return 0.0625 * point[0] ** 2 + np.sin(point[0])


def trajectory(
    loss: Callable[[Any], Any], start: tuple[float, ...], rule: Momentum, steps: int
) -> Array:
    """Return the points of gradient descent on a loss, (steps + 1, weights)."""
    return np.array(descend(grad(loss), np.array(start), rule, steps))


def optimal_rate(low: float, high: float) -> tuple[float, float]:
    """Return the best learning rate between two curvatures, and the contraction of each step.

    2 / (low + high), which contracts by (k - 1) / (k + 1) for k = high / low.
    """
    ratio = high / low
    return 2 / (low + high), (ratio - 1) / (ratio + 1)


def optimal_momentum(low: float, high: float) -> tuple[Momentum, float]:
    """Return the best rule with momentum, and its asymptotic contraction of each step.

    (sqrt(k) - 1) / (sqrt(k) + 1), whose square is the momentum (Polyak, 1964).
    """
    contraction = (np.sqrt(high / low) - 1) / (np.sqrt(high / low) + 1)
    rate = (2 / (np.sqrt(low) + np.sqrt(high))) ** 2
    return Momentum(float(rate), float(contraction**2)), float(contraction)


def steps_to_a_millionth(contraction: float) -> int:
    """Return the number of steps after which a millionth of the distance is left."""
    return 1 if contraction == 0 else int(np.ceil(np.log(1e-6) / np.log(contraction)))


def line_examples(count: int = 256) -> tuple[Array, Array]:
    """Draw examples around the line y = 1.5 x - 0.5, with noise, (count, 1) each."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(count, 1))
    return x, 1.5 * x - 0.5 + 0.5 * rng.normal(size=(count, 1))


def fit_line(batch: int, epochs: int, rate: float) -> Array:
    """Fit a line by stochastic gradient descent; return all points, (steps + 1, 2)."""
    x, t = line_examples()
    rng = np.random.default_rng(4)
    gradient = grad(lambda w, rows: np.mean((x[rows] * w[0] + w[1] - t[rows]) ** 2))
    path = [np.array([-0.5, 1.0])]
    for _ in range(epochs):
        for rows in np.split(rng.permutation(len(x)), len(x) // batch):
            path.append(path[-1] - rate * gradient(path[-1], rows))
    return np.array(path)


def descent_values() -> dict[str, float]:
    """Return how much momentum shortens the descent on the bowl."""
    rate, plain = optimal_rate(*CURVATURES)
    rule, contraction = optimal_momentum(*CURVATURES)
    return {
        "largest_stable_learning_rate": 2 / CURVATURES[1],
        "best_plain_learning_rate": rate,
        "steps_to_a_millionth,_plain": steps_to_a_millionth(plain),
        "best_learning_rate_with_momentum": rule.learning_rate,
        "best_momentum": rule.momentum,
        "steps_to_a_millionth,_momentum": steps_to_a_millionth(contraction),
    }


@page.figure("rates", height=2.4)
def plot_rates(figure: Figure, steps: int = 12) -> Plotted:
    """{steps} steps from the same start on a parabola of curvature 1, for four learning rates. Each
    step leaves |1 − rate| of the distance: nearly all of it with 0.1, little with 0.6; 1.9
    overshoots to the other side each time, and beyond 2 each step ends higher.
    """
    x = np.linspace(-5, 5, 121)
    data = columns(step=np.arange(steps + 1))
    panels = figure.subplots(1, len(RATES), sharey=True)
    for axes, (rate, behaviour) in zip(panels, RATES.items(), strict=True):
        path = trajectory(parabola, (3.5,), Momentum(rate), steps)[:, 0]
        data[f"weight, rate {rate:g}"] = path
        axes.plot(x, parabola([x]), "-", color=MUTED, linewidth=1)
        axes.plot(path, parabola([path]), "o-", markersize=3.5, linewidth=1)
        axes.set_title(f"{rate:g}: {behaviour}", fontsize=9)
        axes.set(ylim=(-0.5, 12), xlim=(-5, 5), xlabel="weight")
    panels[0].set_ylabel("loss")
    return data


@page.figure("trajectories", height=3.4, legend=3)
def plot_trajectories(
    figure: Figure, learning_rate: float = 0.125, momentum: float = 0.7, steps: int = 30
) -> Plotted:
    """A bowl with curvatures 1 and 10, learning rate {learning_rate:g} and momentum {momentum:g}.
    Above: the trajectories; below: the loss. Plain descent oscillates along the steep axis and
    advances slowly along the other. With momentum the oscillations cancel and the progress adds up;
    Nesterov's form oscillates less.
    """
    rules = {
        "plain": Momentum(learning_rate),
        "momentum": Momentum(learning_rate, momentum),
        "Nesterov": Momentum(learning_rate, momentum, nesterov=True),
    }
    x, y = np.meshgrid(np.linspace(-5, 5, 101), np.linspace(-1.6, 1.6, 81))
    data = columns(step=np.arange(steps + 1))
    above, below = figure.subplots(2, 1, height_ratios=[3, 2])
    above.contour(x, y, bowl([x, y]), np.geomspace(0.05, 25, 9), colors=[GRID], linewidths=0.8)
    for name, rule in rules.items():
        path = trajectory(bowl, (-4.5, 1.2), rule, steps).T
        data[f"{name}: x"], data[f"{name}: y"] = path
        data[f"{name}: loss"] = np.maximum(bowl(path), 1e-9)
        above.plot(*path, marker="o", markersize=2.5, linewidth=1)
        below.plot(data[f"{name}: loss"], label=name)
    above.set(xlim=(-5, 5), ylim=(-1.6, 1.6))
    above.set(xlabel="direction of curvature 1", ylabel="of curvature 10")
    below.set(yscale="log", xlabel="step", ylabel="loss")
    grid_axis(below, "y")
    return data


@page.figure("local-minima", height=2.6)
def plot_local_minima(
    figure: Figure, learning_rate: float = 0.3, momentum: float = 0.85
) -> Plotted:
    """Three starts on a loss with local minima, 60 steps each; a ring marks the start, a square the
    end. Learning rate {learning_rate:g}. Plain descent ends in the nearest minimum; momentum may
    pass over a maximum, into a lower or a higher minimum.
    """
    x = np.linspace(-9, 9, 361)
    data = columns(step=np.arange(61))
    panels = figure.subplots(1, 2, sharey=True)
    for axes, value in zip(panels, (0.0, momentum), strict=True):
        title = f"momentum {value:g}" if value else "plain"
        axes.plot(x, waves([x]), "-", color=MUTED, linewidth=1)
        for start, colour in zip((-8.0, 2.5, 8.0), PAIR_COLOURS, strict=False):
            path = trajectory(waves, (start,), Momentum(learning_rate, value), 60)[:, 0]
            data[f"{title}, start {start:g}"] = path
            losses = waves([path])
            axes.plot(path, losses, ".-", color=colour, linewidth=1, markersize=3)
            axes.plot(path[0], losses[0], "o", color=colour, markerfacecolor="none", markersize=8)
            axes.plot(path[-1], losses[-1], "s", color=colour, markersize=7)
        axes.set(title=title, xlabel="weight", ylim=(-1.4, 5.5))
    panels[0].set_ylabel("loss")
    return data


@page.figure("batches", height=3.0, legend=3)
def plot_batches(figure: Figure, rate: float = 0.1, epochs: int = 4) -> Plotted:
    """A line fitted to 256 noisy points in {epochs} epochs: left its two weights (a cross marks
    those that the points were drawn with), right the error. Full batches make {epochs} exact steps;
    single examples make {noisy:,} noisy ones, with a quarter of the learning rate, and never
    converge.
    """
    x, t = line_examples()
    series: dict[str, Array] = {}
    left, right = figure.subplots(1, 2)
    for batch in (256, 32, 1):
        slope, offset = fit_line(batch, epochs, rate if batch > 1 else rate / 4).T
        error = np.mean((x * slope + offset - t) ** 2, axis=0)
        found = {"slope": slope, "offset": offset, "error": error}
        series |= {f"batch {batch}: {name}": values for name, values in found.items()}
        left.plot(slope, offset, label=f"batch size {batch}", linewidth=1.2)
        right.plot(np.arange(len(error)) * batch / len(x), error, linewidth=1.2)
    left.plot(1.5, -0.5, "+", color=FOREGROUND, markersize=11, zorder=5)
    left.set(xlabel="slope of the line", ylabel="offset")
    right.set(xlabel="epochs", ylabel="mean squared error", ylim=(0, None))
    return columns(**series), {"noisy": 256 * epochs}

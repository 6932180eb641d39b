"""Chapter 6: an associative memory, recurrent layers, and how far back gradients reach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import autograd.numpy as np
import pandas as pd
from autograd import grad
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from horizont.reporting.style import BACKGROUND, FOREGROUND, PAIR_COLOURS, grid_axis
from horizont_textbook import Array
from horizont_textbook.neuron import sigmoid
from horizont_textbook.page import book_figure, columns

#: The patterns of the memory, 8 by 8.
LETTERS = {
    "A": "...##... ..####.. .##..##. .##..##. .######. .######. .##..##. .##..##.",
    "T": "######## ######## ...##... ...##... ...##... ...##... ...##... ...##...",
    "O": ".######. ######## ##....## ##....## ##....## ##....## ######## .######.",
}

#: Inputs and outputs of each use of a recurrent network at five time steps: 1 where there is one.
USES = {
    "sequence to sequence": ((1, 1, 1, 1, 1), (1, 1, 1, 1, 1)),
    "sequence to vector": ((1, 1, 1, 1, 1), (0, 0, 0, 0, 1)),
    "vector to sequence": ((1, 0, 0, 0, 0), (1, 1, 1, 1, 1)),
    "delayed sequence": ((1, 1, 1, 0, 0), (0, 0, 1, 1, 1)),
}


def letters() -> Array:
    """Return the letters as rows of -1 and 1."""
    rows = ["".join(text.split()) for text in LETTERS.values()]
    return np.array([[1.0 if mark == "#" else -1.0 for mark in row] for row in rows])


def hebbian_weights(patterns: Array) -> Array:
    """Return the weights of a Hopfield network that stores patterns (Hebb's rule)."""
    weights = patterns.T @ patterns / patterns.shape[1]
    np.fill_diagonal(weights, 0.0)
    return weights


def energy(weights: Array, states: Array) -> Array:
    """Return the energy of each state; no update increases it."""
    return -0.5 * np.einsum("ni,ij,nj->n", states, weights, states)


def recall(weights: Array, state: Array, sweeps: int = 3, seed: int = 0) -> Array:
    """Update all neurons in random order; return the states before and after each sweep."""
    rng, state = np.random.default_rng(seed), state.copy()
    states = [state.copy()]
    for _ in range(sweeps):
        for neuron in rng.permutation(len(state)):
            state[neuron] = 1.0 if weights[neuron] @ state >= 0 else -1.0
        states.append(state.copy())
    return np.array(states)


def corrupt(pattern: Array, fraction: float, seed: int = 0) -> Array:
    """Return a pattern with the sign of a fraction of its elements flipped."""
    flipped = np.random.default_rng(seed).permutation(len(pattern))
    corrupted = pattern.copy()
    corrupted[flipped[: round(fraction * len(pattern))]] *= -1
    return corrupted


def recall_energies(fraction: float, letter: int = 0) -> Array:
    """Return the energy of a corrupted letter, and after each sweep."""
    weights = hebbian_weights(letters())
    return energy(weights, recall(weights, corrupt(letters()[letter], fraction)))


def bit_errors(fraction: float, letter: int = 0) -> int:
    """Return how many elements of a corrupted letter are wrong after the last sweep."""
    pattern = letters()[letter]
    recalled = recall(hebbian_weights(letters()), corrupt(pattern, fraction))[-1]
    return int(np.sum(recalled != pattern))


def recurrent(x: Array, input_weight: Array, hidden_weight: Array, bias: Array) -> Array:
    """Return the hidden states of a recurrent layer, (examples, time steps, units).

    Parameters
    ----------
    x
        (examples, time steps, features).
    input_weight, hidden_weight
        (units, features) and (units, units).
    """
    h = np.zeros((len(x), len(bias)))
    states = []
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ input_weight.T + h @ hidden_weight.T + bias)
        states.append(h)
    return np.stack(states, axis=1)


def lstm(x: Array, input_weight: Array, hidden_weight: Array, bias: Array) -> Array:
    """Return the hidden states of an LSTM layer.

    Parameters
    ----------
    input_weight, hidden_weight, bias
        The rows of the four gates in the order input, forget, candidate, output.
    """
    units = len(bias) // 4
    h, cell = np.zeros((len(x), units)), np.zeros((len(x), units))
    states = []
    for t in range(x.shape[1]):
        sums = x[:, t] @ input_weight.T + h @ hidden_weight.T + bias
        input_, forget, candidate, output = (
            sums[:, gate * units : (gate + 1) * units] for gate in range(4)
        )
        cell = sigmoid(forget) * cell + sigmoid(input_) * np.tanh(candidate)
        h = sigmoid(output) * np.tanh(cell)
        states.append(h)
    return np.stack(states, axis=1)


LAYERS: dict[str, Callable[..., Array]] = {"recurrent": recurrent, "lstm": lstm}


def gradient_reach(
    kind: str, steps: int, forget_bias: float = 1.0, units: int = 32, seed: int = 2
) -> Array:
    """Compute the norm of the gradient of the last state by each input, from the last back."""
    rng = np.random.default_rng(seed)
    rows = units * (4 if kind == "lstm" else 1)
    x = rng.normal(size=(8, steps, units))
    weights = [rng.normal(0, units**-0.5, (rows, units)) * 0.7 for _ in range(2)]
    bias = np.zeros(rows)
    if kind == "lstm":
        bias[units : 2 * units] = forget_bias
    direction = rng.normal(size=(8, units))
    layer = LAYERS[kind]
    gradient = grad(lambda inputs: np.sum(layer(inputs, *weights, bias)[:, -1] * direction))(x)
    norms = np.linalg.norm(gradient, axis=(0, 2))[::-1]
    return norms / norms[0]


@book_figure("memory", height=4.2)
def plot_memory(figure: Figure, corrupted_fraction: float = 0.2) -> tuple[str, pd.DataFrame]:
    """Plot how a Hopfield network recalls three letters."""
    patterns = letters()
    weights = hebbian_weights(patterns)
    data = columns(sweep=range(4))
    panels = figure.subplots(3, 5, width_ratios=[1, 1, 1, 1, 2.2])
    titles = ("learned", "corrupted", "1 sweep", "2 sweeps")
    for row, (letter, pattern) in enumerate(zip(LETTERS, patterns, strict=True)):
        states = recall(weights, corrupt(pattern, corrupted_fraction, seed=row))
        for axes, state, title in zip(panels[row, :4], (pattern, *states[:3]), titles, strict=True):
            axes.imshow(state.reshape(8, 8), cmap="cividis_r", vmin=-1, vmax=1)
            axes.set(xticks=[], yticks=[])
            axes.grid(visible=False)
            if row == 0:
                axes.set_title(title, fontsize=9)
        data[f"energy of {letter}"] = energy(weights, states)
        _plot_energies(panels[row, 4], data[f"energy of {letter}"], row)
    caption = (
        "A Hopfield network of 64 neurons that has stored three letters, presented with "
        f"{corrupted_fraction:.0%} of their elements flipped. The neurons are updated one after "
        "the other, in random order. Right: the energy, which no update increases."
    )
    return caption, data


def _plot_energies(axes: Axes, energies: Any, row: int) -> None:
    axes.plot(energies, "o-", color=PAIR_COLOURS[0], markersize=4)
    axes.set_xticks(range(len(energies)))
    axes.yaxis.tick_right()
    grid_axis(axes, "y")
    if row == 0:
        axes.set_title("energy", fontsize=9)
    if row == 2:
        axes.set_xlabel("sweeps")


@book_figure("uses", height=3.6)
def plot_uses(figure: Figure) -> tuple[str, pd.DataFrame]:
    """Plot four uses of a recurrent network."""
    rows = []
    for axes, (name, (inputs, outputs)) in zip(
        figure.subplots(2, 2).flat, USES.items(), strict=True
    ):
        axes.axis("off")
        axes.set(xlim=(-0.6, 4.6), ylim=(-1.5, 1.7))
        axes.set_title(name, fontsize=9.5)
        for t in range(5):
            _plot_time_step(axes, t, bool(inputs[t]), bool(outputs[t]))
            rows.append({"use": name, "time": t, "input": inputs[t], "output": outputs[t]})
    caption = (
        "Four uses of a recurrent network, unrolled over five time steps: below the inputs, above "
        "the outputs. This study's LSTM is of the first kind: after each word it predicts the "
        "next one. Translation is of the last kind: the output begins when the input has ended."
    )
    return caption, pd.DataFrame(rows)


def _plot_time_step(axes: Axes, t: int, has_input: bool, has_output: bool) -> None:
    arrow = {"arrowstyle": "-|>", "color": FOREGROUND, "linewidth": 0.9, "shrinkA": 8, "shrinkB": 8}
    if t:
        axes.annotate("", (t, 0), (t - 1, 0), arrowprops=arrow)
    if has_input:
        axes.annotate("", (t, 0), (t, -1.1), arrowprops=arrow)
        axes.plot(t, -1.1, "s", color=PAIR_COLOURS[2], markersize=9)
    if has_output:
        axes.annotate("", (t, 1.1), (t, 0), arrowprops=arrow)
        axes.plot(t, 1.1, "D", color=PAIR_COLOURS[3], markersize=8)
    axes.plot(t, 0, "o", color=BACKGROUND, markeredgecolor=FOREGROUND, markersize=14)


@book_figure("span", height=2.9)
def plot_memory_span(figure: Figure, steps: int = 40) -> tuple[str, pd.DataFrame]:
    """Plot how strongly the last state depends on earlier inputs."""
    lines = {
        "recurrent (tanh)": ("--", PAIR_COLOURS[1], gradient_reach("recurrent", steps)),
        "LSTM, forget bias 0": ("-.", PAIR_COLOURS[2], gradient_reach("lstm", steps, 0.0)),
        "LSTM, forget bias 1": (":", PAIR_COLOURS[3], gradient_reach("lstm", steps, 1.0)),
        "LSTM, forget bias 3": ("-", PAIR_COLOURS[0], gradient_reach("lstm", steps, 3.0)),
    }
    axes = figure.subplots()
    grid_axis(axes, "y")
    for label, (dash, colour, norms) in lines.items():
        axes.plot(norms, dash, color=colour, label=label)
    axes.set(yscale="log", xlabel="time steps back", ylabel="gradient by the input")
    figure.legend(loc="outside lower center", ncols=2)
    caption = (
        f"How strongly the state after {steps} steps depends on each input, relative to the last "
        "one, in untrained layers of 32 units with weights of the same size. A plain recurrent "
        "layer forgets an input within about ten steps. The cell of an LSTM keeps its content as "
        "long as the forget gate stays open, which depends on the initial bias of the gate."
    )
    norms_by_label = {label: norms for label, (_, _, norms) in lines.items()}
    return caption, columns(steps_back=range(steps), **norms_by_label)

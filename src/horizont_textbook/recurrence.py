"""Chapter 6: an associative memory, recurrent layers, and how far back gradients reach."""

from __future__ import annotations

from collections.abc import Callable

import autograd.numpy as np
import pandas as pd
from autograd import grad
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from horizont.reporting.style import BACKGROUND, FOREGROUND, PAIR_COLOURS, grid_axis
from horizont_textbook import Array, page
from horizont_textbook.neuron import sigmoid
from horizont_textbook.page import Plotted, columns

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


def recall_values(fraction: float) -> dict[str, float]:
    """Return how the first letter is recalled, of which a fraction of the elements is flipped."""
    weights, pattern = hebbian_weights(letters()), letters()[0]
    states = recall(weights, corrupt(pattern, fraction))
    energies = energy(weights, states)
    return {
        "energy_of_a_corrupted_letter": energies[0],
        "energy_after_a_sweep": energies[1],
        "wrong_elements_at_the_end": np.sum(states[-1] != pattern),
    }


def recurrent(x: Array, input_weight: Array, hidden_weight: Array, bias: Array) -> Array:
    """Return the hidden states of a recurrent layer, (examples, time steps, units).

    Inputs are (examples, time steps, features), weights (units, features) and (units, units).
    """
    h = np.zeros((len(x), len(bias)))
    states = []
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ input_weight.T + h @ hidden_weight.T + bias)
        states.append(h)
    return np.stack(states, axis=1)


def lstm(x: Array, input_weight: Array, hidden_weight: Array, bias: Array) -> Array:
    """Return the hidden states of an LSTM layer.

    The rows of weights and bias are those of the gates: input, forget, candidate, output.
    """
    units = len(bias) // 4
    h, cell = np.zeros((len(x), units)), np.zeros((len(x), units))
    states = []
    for t in range(x.shape[1]):
        sums = x[:, t] @ input_weight.T + h @ hidden_weight.T + bias
        input_, forget, candidate, output = np.split(sums, 4, axis=1)
        cell = sigmoid(forget) * cell + sigmoid(input_) * np.tanh(candidate)
        h = sigmoid(output) * np.tanh(cell)
        states.append(h)
    return np.stack(states, axis=1)


LAYERS: dict[str, Callable[..., Array]] = {"recurrent": recurrent, "lstm": lstm}


def gradient_reach(kind: str, steps: int, forget_bias: float = 1.0) -> Array:
    """Compute the norm of the gradient of the last state by each input, from the last back."""
    rng, units = np.random.default_rng(2), 32
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


@page.figure("memory", height=4.2)
def plot_memory(figure: Figure, corrupted_fraction: float = 0.2) -> Plotted:
    """A Hopfield network of 64 neurons that has stored three letters, presented with
    {corrupted_fraction:.0%} of their elements flipped. The neurons are updated one after the other,
    in random order. Right: the energy, which no update increases.
    """
    patterns = letters()
    weights = hebbian_weights(patterns)
    data = columns(sweep=range(4))
    panels = figure.subplots(3, 5, width_ratios=[1, 1, 1, 1, 2.2])
    for row, (letter, pattern) in enumerate(zip(LETTERS, patterns, strict=True)):
        states = recall(weights, corrupt(pattern, corrupted_fraction, seed=row))
        for axes, state in zip(panels[row], (pattern, *states[:3]), strict=False):
            axes.imshow(state.reshape(8, 8), cmap="cividis_r", vmin=-1, vmax=1)
            axes.set(xticks=[], yticks=[])
            axes.grid(visible=False)
        data[f"energy of {letter}"] = energy(weights, states)
        axes = panels[row, 4]
        axes.plot(data[f"energy of {letter}"], "o-", markersize=4)
        axes.set_xticks(data["sweep"])
        axes.yaxis.tick_right()
        grid_axis(axes, "y")
    titles = ("learned", "corrupted", "1 sweep", "2 sweeps", "energy")
    for axes, title in zip(panels[0], titles, strict=True):
        axes.set_title(title, fontsize=9)
    panels[2, 4].set_xlabel("sweeps")
    return data


@page.figure("uses", height=3.6)
def plot_uses(figure: Figure) -> Plotted:
    """Four uses of a recurrent network, unrolled over five time steps: below the inputs, above the
    outputs. This study's LSTM is of the first kind: after each word it predicts the next one.
    Translation is of the last kind: the output begins when the input has ended.
    """
    rows = []
    panels = figure.subplots(2, 2).flat
    for axes, (name, (inputs, outputs)) in zip(panels, USES.items(), strict=True):
        axes.axis("off")
        axes.set(xlim=(-0.6, 4.6), ylim=(-1.5, 1.7))
        axes.set_title(name, fontsize=9.5)
        for t in range(5):
            _plot_time_step(axes, t, bool(inputs[t]), bool(outputs[t]))
            rows.append({"use": name, "time": t, "input": inputs[t], "output": outputs[t]})
    return pd.DataFrame(rows)


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


@page.figure("span", height=2.9, legend=2, grid="y")
def plot_memory_span(figure: Figure, steps: int = 40) -> Plotted:
    """How strongly the state after {steps} steps depends on each input, relative to the last one,
    in untrained layers of 32 units with weights of the same size. A plain recurrent layer forgets
    an input within about ten steps. The cell of an LSTM keeps its content as long as the forget
    gate stays open, which depends on the initial bias of the gate.
    """
    data = columns(steps_back=range(steps))
    data["recurrent (tanh)"] = gradient_reach("recurrent", steps)
    for bias in (0, 1, 3):
        data[f"LSTM, forget bias {bias}"] = gradient_reach("lstm", steps, bias)
    axes = figure.subplots()
    axes.plot(data.drop(columns="steps_back"), label=list(data.columns[1:]))
    axes.set(yscale="log", xlabel="time steps back", ylabel="gradient by the input")
    return data

"""Chapter 6: an associative memory, and how far back a recurrent layer remembers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.theory.questions import Question
from horizont.theory.sequences import lstm, lstm_backward, recurrent, recurrent_backward

Array = NDArray[Any]

#: Letters to be remembered, 8 by 8.
LETTERS = {
    "A": "...##... ..####.. .##..##. .##..##. .######. .######. .##..##. .##..##.",
    "T": "######## ######## ...##... ...##... ...##... ...##... ...##... ...##...",
    "O": ".######. ######## ##....## ##....## ##....## ##....## ######## .######.",
}


def letters() -> Array:
    """Write the letters as rows of -1 and 1."""
    rows = ["".join(text.split()) for text in LETTERS.values()]
    return np.array([[1.0 if mark == "#" else -1.0 for mark in row] for row in rows])


def remembered(patterns: Array) -> Array:
    """Make the weights of a Hopfield network: neurons that agree are tied (Hebb's rule)."""
    weights = patterns.T @ patterns / patterns.shape[1]
    np.fill_diagonal(weights, 0.0)
    return np.asarray(weights)


def energy(weights: Array, states: Array) -> Array:
    """Tell how far each state is from being remembered; no update ever raises it."""
    return np.asarray(-0.5 * np.einsum("ni,ij,nj->n", states, weights, states))


def recall(weights: Array, state: Array, sweeps: int = 3, seed: int = 0) -> Array:
    """Let one neuron after the other follow the sum of its inputs, in random order.

    Returns
    -------
    Array
        The state at the beginning and after each sweep over all neurons.
    """
    random, state = np.random.default_rng(seed), state.copy()
    seen = [state.copy()]
    for _ in range(sweeps):
        for place in random.permutation(len(state)):
            state[place] = 1.0 if weights[place] @ state >= 0 else -1.0
        seen.append(state.copy())
    return np.array(seen)


def spoiled(pattern: Array, share: float, seed: int = 0) -> Array:
    """Turn a share of the marks of a pattern round."""
    random = np.random.default_rng(seed)
    turned = random.permutation(len(pattern))[: round(share * len(pattern))]
    found = pattern.copy()
    found[turned] *= -1
    return found


def energies(share: float, letter: int = 0) -> Array:
    """Tell the energy of a spoiled letter, and after each sweep."""
    weights = remembered(letters())
    return energy(weights, recall(weights, spoiled(letters()[letter], share)))


def wrong_marks(share: float, letter: int = 0) -> int:
    """Tell how many marks of a spoiled letter are wrong after the last sweep."""
    pattern = letters()[letter]
    found = recall(remembered(letters()), spoiled(pattern, share))[-1]
    return int(np.sum(found != pattern))


def reach(kind: str, steps: int, forget_bias: float = 1.0, units: int = 32, seed: int = 2) -> Array:
    """Tell how much the last state depends on each input before it.

    Parameters
    ----------
    kind
        `recurrent` or `lstm`.

    Returns
    -------
    Array
        The size of the gradient by each input, from the last to the first, the last being 1.
    """
    random = np.random.default_rng(seed)
    rows = units * (4 if kind == "lstm" else 1)
    x = random.normal(size=(8, steps, units))
    inputs, hidden = (random.normal(0, units**-0.5, (rows, units)) * 0.7 for _ in range(2))
    bias = np.zeros(rows)
    if kind == "lstm":
        bias[units : 2 * units] = forget_bias
    layer, back = (lstm, lstm_backward) if kind == "lstm" else (recurrent, recurrent_backward)
    output = layer(x, inputs, hidden, bias)
    gradient = np.zeros_like(output)
    gradient[:, -1] = random.normal(size=output[:, -1].shape)
    sizes = np.linalg.norm(back(gradient, output, x, inputs, hidden, bias)[0], axis=(0, 2))[::-1]
    return np.asarray(sizes / sizes[0])


def unrolled(steps: int) -> str:
    """Write a recurrent layer as a formula: a line for each time step, all with the same weights.

    The result is the sum of the last state.
    """
    lines = ["h1 = tanh(x1 @ w + b)"]
    lines += [f"h{t} = tanh(x{t} @ w + h{t - 1} @ v + b)" for t in range(2, steps + 1)]
    return "\n".join([*lines, f"y = sum(h{steps})"])


def questions(steps: int = 5) -> list[Question]:
    """Ask for the memory's energy, a layer unrolled by hand, and the frameworks' own layers."""
    random = np.random.default_rng(41)
    draw, units, features = random.normal, 3, 4
    x = draw(size=(2, steps, features))
    w, v, b = draw(size=(features, units)), draw(size=(units, units)), draw(size=units)
    inputs = {f"x{t + 1}": x[:, t] for t in range(steps)} | {"w": w, "v": v, "b": b}
    gates = {"w": draw(size=(4 * units, features)), "v": draw(size=(4 * units, units))}
    gates |= {"b": draw(size=4 * units)}
    patterns = letters()
    noisy = np.array([spoiled(pattern, 0.2) for pattern in patterns])
    known = {"s": noisy, "w": remembered(patterns)}
    several = ("x", "w", "v", "b")
    own = {"x": x, "w": w.T, "v": v.T, "b": b}
    squared = "\nz = sum(y * y * y)"
    return [
        Question("energy of a memory", "e = -0.5 * sum((s @ w) * s)", known, by=("s",)),
        Question(f"unrolled, {steps} steps", unrolled(steps), inputs, by=tuple(inputs)),
        Question("recurrent layer", f"y = recurrent(x, w, v, b){squared}", own, by=several),
        Question("LSTM layer", f"y = lstm(x, w, v, b){squared}", {"x": x, **gates}, by=several),
    ]

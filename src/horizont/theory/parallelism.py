"""Chapter 7: one network on two processes, cut between its layers, within them, or not at all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from horizont.theory.backpropagation import NETWORK, WEIGHTS, by_hand
from horizont.theory.cuts import WAYS, Arrays, Sizes
from horizont.theory.questions import Question
from horizont.theory.together.peers import Peers

SMALL = Sizes(examples=12, inputs=8, hidden=6, classes=4)

STEPS, RATE = 3, 0.5


def start(sizes: Sizes = SMALL, seed: int = 71) -> Arrays:
    """Make inputs, labels and initial weights."""
    draw = np.random.default_rng(seed)
    s = sizes
    return {
        "x": draw.normal(size=(s.examples, s.inputs)),
        "labels": draw.integers(0, s.classes, s.examples),
        "W1": draw.normal(0, s.inputs**-0.5, (s.inputs, s.hidden)),
        "b1": np.zeros(s.hidden),
        "W2": draw.normal(0, s.hidden**-0.5, (s.hidden, s.classes)),
        "b2": np.zeros(s.classes),
    }


def trained(gradients: Callable[[Arrays], Arrays], weights: Arrays) -> tuple[Arrays, Arrays]:
    """Go some steps down the gradients; return the first of them, and the weights in the end."""
    first: Arrays = {}
    for _ in range(STEPS):
        found = gradients(weights)
        first = first or found
        weights = {name: weights[name] - RATE * found[name] for name in weights}
    return first, weights


def trained_together(name: str, peers: Peers) -> tuple[Arrays, Arrays]:
    """Take part in training in one of the ways."""
    way, given = WAYS[name], start()
    x, labels = way.batch(given, peers.rank)
    own = way.own({key: given[key] for key in WEIGHTS}, peers.rank)
    return trained(lambda weights: way.gradients(weights, x, labels, peers), own)


def trained_alone() -> tuple[Arrays, Arrays]:
    """Train the same network in one process."""
    given = start()
    x, labels = given["x"], given["labels"]
    own = {key: given[key] for key in WEIGHTS}
    return trained(lambda weights: by_hand(x=x, labels=labels, **weights), own)


def idle_share(stages: int, pieces: int) -> float:
    """Tell how long the processes of a pipeline wait, if all stages take equally long.

    (p - 1) / (m + p - 1) for p stages and a batch cut into m pieces; Huang et al., "GPipe:
    efficient training of giant neural networks using pipeline parallelism", 2019.
    """
    return (stages - 1) / (pieces + stages - 1)


def questions() -> list[Question]:
    """Ask for the network whole, cut within its layers, and with its batch in two halves."""
    given = start()
    cut = {"x": given["x"], "labels": given["labels"], "b2": given["b2"]}
    for place, name in enumerate(("l", "r")):
        way = WAYS["within layers, columns and rows"]
        cut |= {f"{key}{name}": part for key, part in way.own(given, place).items()
                if key in ("W1", "b1", "W2")}  # fmt: skip
    halves = {key: given[key] for key in WEIGHTS}
    for key in ("x", "labels"):
        halves[f"{key}l"], halves[f"{key}r"] = np.split(given[key], 2)
    within = (
        "hl = tanh(x @ W1l + b1l)\nhr = tanh(x @ W1r + b1r)\n"
        "z = hl @ W2l + hr @ W2r + b2\nloss = cross_entropy(z, labels)"
    )
    by_halves = (
        "pl = cross_entropy(tanh(xl @ W1 + b1) @ W2 + b2, labelsl)\n"
        "pr = cross_entropy(tanh(xr @ W1 + b1) @ W2 + b2, labelsr)\nloss = (pl + pr) / 2"
    )
    parts = tuple(name for name in cut if name not in ("x", "labels"))
    return [
        Question("two layers, one process", NETWORK, given, WEIGHTS, ("h", "z", "loss")),
        Question("cut within the layers", within, cut, parts, ("z", "loss")),
        Question("two halves of the batch", by_halves, halves, WEIGHTS, ("loss",)),
    ]

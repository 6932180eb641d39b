"""The expressions of all chapters that are cross-checked in the frameworks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from horizont_textbook.autodiff import WEIGHTS, network_inputs
from horizont_textbook.descent import Momentum, line_examples
from horizont_textbook.framework_operators import Case
from horizont_textbook.neuron import ACTIVATIONS
from horizont_textbook.recurrence import corrupt, hebbian_weights, letters
from horizont_textbook.strategies import STRATEGIES, initial_state
from horizont_textbook.tutorial import CLASSES, FEATURES, examples

NETWORK = "h = tanh(x @ W1 + b1)\nz = h @ W2 + b2\nloss = cross_entropy(z, labels)"
BOWL = "f = 0.5 * x * x + 5.0 * y * y"


def neuron() -> list[Case]:
    """Return each activation function, and a layer of neurons with it."""
    rng = np.random.default_rng(11)
    x = {"x": np.linspace(-8, 8, 33)}
    layer = {"x": rng.normal(size=(5, 3)), "w": rng.normal(size=(3, 4)), "b": rng.normal(size=4)}
    single = [Case(f"{name}(x)", f"y = {name}(x)", x, ("x",)) for name in ACTIVATIONS]
    layers = [f"{name}(x @ w + b)" for name in ACTIVATIONS]
    return [*single, *(Case(each, f"y = {each}", layer, ("x", "w", "b")) for each in layers)]


def descent() -> list[Case]:
    """Return three rules on three losses, with settings that are exact in float32."""
    x, t = line_examples(32)
    line = {"x": x, "t": t, "w": np.zeros((1, 1)), "b": np.zeros(1)}
    bowl = {"x": np.array(4.0), "y": np.array(1.0)}
    waves = "f = 0.0625 * x * x + sin(x)"
    fit = "f = mean((x @ w + b - t) * (x @ w + b - t))"
    cases = []
    for name, rule in {
        "plain": Momentum(0.125),
        "momentum": Momentum(0.125, 0.75),
        "Nesterov": Momentum(0.125, 0.75, nesterov=True),
    }.items():
        cases += [
            Case(f"bowl, {name}", BOWL, bowl, ("x", "y"), asdict(rule), 20),
            Case(f"waves, {name}", waves, {"x": np.array(7.0)}, ("x",), asdict(rule), 20),
            Case(f"line, {name}", fit, line, ("w", "b"), asdict(rule), 20),
        ]
    return cases


def autodiff() -> list[Case]:
    """Return the small graph, the network, and a value that is used four times."""
    graph = "c = a + b\nd = b + 1\ne = c * d"
    return [
        Case("(a + b) * (b + 1)", graph, {"a": np.array(2.0), "b": np.array(1.0)}, ("a", "b")),
        Case("small network", NETWORK, network_inputs(), WEIGHTS),
        Case("x * x * sin(x) + x", "y = x * x * sin(x) + x", {"x": np.array([0.5, -1.0, 2.0])},
             ("x",)),
    ]  # fmt: skip


def convolution() -> list[Case]:
    """Return convolutions of several strides and paddings, poolings, and a chain of both."""
    rng = np.random.default_rng(21)
    both = {"x": rng.normal(size=(2, 3, 9, 9)), "w": rng.normal(size=(4, 3, 3, 3))}
    images = {"x": both["x"]}
    end = "\nz = sum(y * y)"
    return [
        *(
            Case(f"convolution, stride {s}, padding {p}",
                 f"y = convolution(x, w, stride={s}, padding={p}){end}", both, ("x", "w"))
            for s, p in ((1, 0), (1, 1), (2, 0), (2, 1), (3, 2))
        ),
        Case("max pooling", f"y = max_pool(x, 3, 2){end}", images, ("x",)),
        Case("average pooling", f"y = average_pool(x, 3, 2){end}", images, ("x",)),
        Case("convolution, relu and pooling",
             f"y = max_pool(relu(convolution(x, w, padding=1)), 3, 3){end}", both, ("x", "w")),
    ]  # fmt: skip


def normalisation() -> list[Case]:
    """Return batch norm, a residual block, and dropout."""
    rng = np.random.default_rng(31)
    norm = {"x": rng.normal(2.0, 3.0, (6, 4)), "g": rng.normal(size=4), "o": rng.normal(size=4)}
    block = norm | {"w1": rng.normal(size=(4, 4)), "w2": rng.normal(size=(4, 4))}
    epsilon = "epsilon=0.0009765625"
    residual = f"y = x + relu(batch_norm(x @ w1, g, o, {epsilon})) @ w2\nz = sum(y * y)"
    return [
        Case("batch norm", f"y = batch_norm(x, g, o, {epsilon})\nz = sum(y * y * y)", norm,
             tuple(norm)),
        Case("residual block", residual, block, tuple(block)),
        Case("dropout", "y = dropout(x, 0.25)", {"x": np.ones(10_000)}, ("x",), random=True),
    ]  # fmt: skip


def recurrence(steps: int = 5) -> list[Case]:
    """Return the energy of a memory, a layer unrolled, and the frameworks' own layers."""
    rng = np.random.default_rng(41)
    units, features = 3, 4
    x = rng.normal(size=(2, steps, features))
    w, v = rng.normal(size=(features, units)), rng.normal(size=(units, units))
    b = rng.normal(size=units)
    inputs = {f"x{t + 1}": x[:, t] for t in range(steps)} | {"w": w, "v": v, "b": b}
    gates = {"x": x, "w": rng.normal(size=(4 * units, features)),
             "v": rng.normal(size=(4 * units, units)), "b": rng.normal(size=4 * units)}  # fmt: skip
    states = np.array([corrupt(pattern, 0.2) for pattern in letters()])
    memory = {"s": states, "w": hebbian_weights(letters())}
    lines = [f"h{t} = tanh(x{t} @ w + h{t - 1} @ v + b)" for t in range(2, steps + 1)]
    unrolled = "\n".join(["h1 = tanh(x1 @ w + b)", *lines, f"y = sum(h{steps})"])
    own, end = {"x": x, "w": w.T, "v": v.T, "b": b}, "\nz = sum(y * y * y)"
    return [
        Case("energy of a Hopfield network", "e = -0.5 * sum((s @ w) * s)", memory, ("s",)),
        Case(f"unrolled, {steps} steps", unrolled, inputs, tuple(inputs)),
        Case("recurrent layer", f"y = recurrent(x, w, v, b){end}", own, tuple(own)),
        Case("LSTM layer", f"y = lstm(x, w, v, b){end}", gates, tuple(gates)),
    ]


def parallelism() -> list[Case]:
    """Return the network in one piece, split within its layers, and with its batch halved."""
    state = initial_state()
    split = {"x": state["x"], "labels": state["labels"], "b2": state["b2"]}
    halves = {name: state[name] for name in WEIGHTS}
    for rank, end in enumerate("lr"):
        for name in ("W1", "b1", "W2"):
            partition = STRATEGIES["within layers, columns and rows"].partition(name)
            split[f"{name}{end}"] = partition.part(state[name], rank)
        for name in ("x", "labels"):
            halves[f"{name}{end}"] = np.split(state[name], 2)[rank]
    within = (
        "hl = tanh(x @ W1l + b1l)\nhr = tanh(x @ W1r + b1r)\n"
        "z = hl @ W2l + hr @ W2r + b2\nloss = cross_entropy(z, labels)"
    )
    by_halves = (
        "pl = cross_entropy(tanh(xl @ W1 + b1) @ W2 + b2, labelsl)\n"
        "pr = cross_entropy(tanh(xr @ W1 + b1) @ W2 + b2, labelsr)\nloss = (pl + pr) / 2"
    )
    parts = tuple(name for name in split if name not in ("x", "labels"))
    return [
        Case("two layers, one process", NETWORK, state, WEIGHTS),
        Case("cut within the layers", within, split, parts),
        Case("two halves of the batch", by_halves, halves, WEIGHTS),
    ]


def staleness() -> list[Case]:
    """Return delayed descent on both sides of the limit, and of a small network."""
    bowl, one = {"x": np.array(4.0), "y": np.array(1.0)}, {"x": np.array(1.0)}
    late = {d: asdict(Momentum(0.015625, delay=d)) for d in (1, 4)}
    cases = [Case(f"bowl, delay {d}", BOWL, bowl, ("x", "y"), rule, 40) for d, rule in late.items()]
    for side, rate in (("below", 0.59375), ("above", 0.65625)):
        rule = asdict(Momentum(rate, delay=2))
        name = f"delay 2, {side} the limit"
        cases.append(Case(name, "f = 0.5 * x * x", one, ("x",), rule, 60))
    rng = np.random.default_rng(81)
    inputs = {
        "x": rng.normal(size=(16, 5)),
        "labels": rng.integers(0, 3, 16),
        "w": rng.normal(size=(5, 4)),
        "b": np.zeros(4),
        "v": rng.normal(size=(4, 3)),
        "c": np.zeros(3),
    }
    network = "f = cross_entropy(tanh(x @ w + b) @ v + c, labels)"
    rule = asdict(Momentum(0.25, 0.5, delay=3))
    return [*cases, Case("network, delay 3", network, inputs, ("w", "b", "v", "c"), rule, 20)]


def allreduce() -> list[Case]:
    """Return a sum in three orders, and the gradient of a batch as a mean over its parts."""
    rng = np.random.default_rng(92)
    a, b, c = rng.normal(size=(3, 5))
    orders = "l = (a + b) + c\nm = (b + c) + a\nr = (c + a) + b\ny = sum((l + m + r) / 3)"
    inputs: dict[str, Any] = {f"x{k}": rng.normal(size=(2, 3)) for k in range(3)}
    inputs |= {f"l{k}": rng.integers(0, 4, 2) for k in range(3)}
    inputs["W"] = rng.normal(size=(3, 4))
    losses = "\n".join(f"p{k} = cross_entropy(x{k} @ W, l{k})" for k in range(3))
    mean = f"{losses}\nloss = (p0 + p1 + p2) / 3"
    return [
        Case("sum in three orders", orders, {"a": a, "b": b, "c": c}, ("a",)),
        Case("mean of three workers' losses", mean, inputs, ("W",)),
    ]


def metrics() -> list[Case]:
    """Return probabilities, cross-entropy and perplexity."""
    rng = np.random.default_rng(51)
    inputs = {"z": 2 * rng.normal(size=(8, 5)), "labels": rng.integers(0, 5, 8)}
    return [
        Case("softmax", "p = softmax(z)\ny = sum(p * p)", {"z": inputs["z"]}, ("z",)),
        Case("cross-entropy", "l = cross_entropy(z, labels)", inputs, ("z",)),
        Case("perplexity", "q = exp(cross_entropy(z, labels))", inputs, ("z",)),
    ]


def tutorial() -> list[Case]:
    """Return the gradient of a batch, and the mean of those of its halves."""
    x, l = (array[0] for array in examples())  # noqa: E741
    rng = np.random.default_rng(111)
    weights = {"w": rng.normal(size=(FEATURES, CLASSES)), "b": rng.normal(size=CLASSES)}
    x = x.astype(np.float64)
    halves = {"x": x[::2], "l": l[::2], "u": x[1::2], "m": l[1::2]}
    mean = "f = 0.5 * cross_entropy(x @ w + b, l) + 0.5 * cross_entropy(u @ w + b, m)"
    whole = {"x": x, "l": l, **weights}
    return [
        Case("gradient of a batch", "f = cross_entropy(x @ w + b, l)", whole, ("w", "b")),
        Case("mean of its halves", mean, {**halves, **weights}, ("w", "b")),
    ]


#: By chapter.
CASES: dict[str, Callable[[], list[Case]]] = {
    "neuron": neuron,
    "descent": descent,
    "autodiff": autodiff,
    "convolution": convolution,
    "normalisation": normalisation,
    "recurrence": recurrence,
    "parallelism": parallelism,
    "staleness": staleness,
    "allreduce": allreduce,
    "metrics": metrics,
    "tutorial": tutorial,
}

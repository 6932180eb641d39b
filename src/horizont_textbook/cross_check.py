"""Compares the chapters' expressions and their gradients in NumPy with every framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import autograd.numpy as np
import pandas as pd
from autograd import grad

from horizont.config.system import FRAMEWORKS, installed_version
from horizont.reporting.labels import framework_label
from horizont.reporting.output import Message, Stack, Verdict
from horizont.reporting.tables import text_table
from horizont_textbook import Array
from horizont_textbook.autodiff import WEIGHTS, network_inputs
from horizont_textbook.convolution import average_pool, convolution, max_pool
from horizont_textbook.descent import Momentum, descend, line_examples
from horizont_textbook.expressions import Case, evaluate
from horizont_textbook.framework_operators import BACKENDS
from horizont_textbook.loss import cross_entropy, softmax
from horizont_textbook.neuron import ACTIVATIONS
from horizont_textbook.normalisation import batch_norm
from horizont_textbook.page import format_distance, relative_distance
from horizont_textbook.processes import call_in_frameworks
from horizont_textbook.recurrence import LAYERS, corrupt, hebbian_weights, letters
from horizont_textbook.strategies import STRATEGIES, initial_state, part_of
from horizont_textbook.tutorial import CLASSES, FEATURES, examples

#: Largest relative distance of two computations in float64: some thousand roundings.
BOUND = 1e-12

NETWORK = "h = tanh(x @ W1 + b1)\nz = h @ W2 + b2\nloss = cross_entropy(z, labels)"
BOWL = "f = 0.5 * x * x + 5.0 * y * y"
BOWL_START = {"x": np.array(4.0), "y": np.array(1.0)}

#: The operators of the expressions, as the chapters define them.
OPERATORS = {
    **{name: getattr(np, name) for name in ("sum", "mean", "exp", "sin")},
    **ACTIVATIONS,
    **LAYERS,
    "softmax": softmax,
    "cross_entropy": cross_entropy,
    "convolution": convolution,
    "max_pool": max_pool,
    "average_pool": average_pool,
    "batch_norm": batch_norm,
}


def reference(case: Case) -> dict[str, Array]:
    """Compute values and gradients of a case, or the paths of its optimizer, in NumPy."""

    def result(variables: Mapping[str, Any]) -> Any:
        values = evaluate(case.expression, OPERATORS, {**case.inputs, **variables})
        return np.sum(list(values.values())[-1])

    start = {name: case.inputs[name] for name in case.variables}
    if case.optimizer is not None:
        path = descend(grad(result), start, Momentum(**case.optimizer), case.steps)
        return {f"path of {name}": points for name, points in path.items()}
    values = evaluate(case.expression, OPERATORS, case.inputs)
    last = list(values)[-1]
    gradients = {f"d{last}/d{name}": value for name, value in grad(result)(start).items()}
    return {name: np.asarray(value) for name, value in (values | gradients).items()}


@dataclass(frozen=True)
class CrossCheck:
    """The arrays of a chapter by framework, case and name, and reasons of missing ones."""

    cases: Sequence[Case]
    results: Mapping[str, Mapping[str, Mapping[str, Array]]]
    missing: Mapping[str, str]

    def arrays(self, case: str, name: str) -> dict[str, Array]:
        """Return an array of a case by framework."""
        return {framework: cases[case][name] for framework, cases in self.results.items()}

    def compare(self) -> pd.DataFrame:
        """Return the number of compared values, and the largest distance of each framework."""
        rows = []
        for case in (case for case in self.cases if not case.random):
            expected = reference(case)
            row: dict[str, Any] = {"expression": case.name}
            row["values"] = sum(value.size for value in expected.values())
            for framework, arrays in self.results.items():
                row[framework] = max(
                    relative_distance(arrays[case.name][name].reshape(value.shape), value)
                    for name, value in expected.items()
                )
            rows.append(row)
        return pd.DataFrame(rows)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        distances = self.compare()
        ok = bool((distances[list(self.results)] <= BOUND).all(axis=None))
        cells = distances[["expression"]].assign(values=distances["values"].map("{:,}".format))
        for name in FRAMEWORKS:
            known = distances[name].map(format_distance) if name in self.results else "–"
            cells[framework_label(name)] = known
        table = text_table(cells, numbers=list(cells.columns[1:]), measured=False)
        reasons = [Message(f"{framework_label(n)}: {text}.") for n, text in self.missing.items()]
        text = f"values agree with NumPy within a relative distance of {BOUND:.0e}."
        verdict = Verdict(f"all {text}" if ok else f"not all {text}", ok)
        facts = {"ok": ok, "distances": distances.to_dict("records"), "missing": {**self.missing}}
        bundle = Stack((table, *reasons, verdict))._repr_mimebundle_()
        return bundle, {"horizont": {"cross_check": facts}}


def run(chapter: str) -> CrossCheck:
    """Run the cases of a chapter in every framework, or load their results.

    Starting a framework takes longer than all cases, so the first chapter runs those of all.
    """
    missing = {n: "no operators are defined for it" for n in FRAMEWORKS if n not in BACKENDS}
    missing |= {n: "not installed" for n in BACKENDS if installed_version(n) is None}
    names = [name for name in FRAMEWORKS if name not in missing]
    cases = [vars(case) for cases_of in CASES.values() for case in cases_of()]
    arguments = {name: {"framework": name, "cases": cases} for name in names}
    function = "horizont_textbook.framework_cases:run_cases"
    results = call_in_frameworks("cross-check", function, arguments)
    return CrossCheck(CASES[chapter](), results, missing)


def _neuron_cases() -> list[Case]:
    rng = np.random.default_rng(11)
    x = {"x": np.linspace(-8, 8, 33)}
    layer = {"x": rng.normal(size=(5, 3)), "w": rng.normal(size=(3, 4)), "b": rng.normal(size=4)}
    single = [Case(f"{name}(x)", f"y = {name}(x)", x) for name in ACTIVATIONS]
    layers = [f"{name}(x @ w + b)" for name in ACTIVATIONS]
    return [*single, *(Case(each, f"y = {each}", layer) for each in layers)]


def _descent_cases() -> list[Case]:
    x, t = line_examples(32)
    line = {"x": x, "t": t, "w": np.zeros((1, 1)), "b": np.zeros(1)}
    losses = {
        "bowl": (BOWL, BOWL_START, ()),
        "waves": ("f = 0.0625 * x * x + sin(x)", {"x": np.array(7.0)}, ()),
        "line": ("f = mean((x @ w + b - t) * (x @ w + b - t))", line, ("w", "b")),
    }
    rules = {  # with settings that are exact in float32
        "plain": Momentum(0.125),
        "momentum": Momentum(0.125, 0.75),
        "Nesterov": Momentum(0.125, 0.75, nesterov=True),
    }
    return [
        Case(f"{loss}, {name}", *losses[loss], asdict(rule), 20)
        for name, rule in rules.items()
        for loss in losses
    ]


def _autodiff_cases() -> list[Case]:
    graph = "c = a + b\nd = b + 1\ne = c * d"
    return [
        Case("(a + b) * (b + 1)", graph, {"a": np.array(2.0), "b": np.array(1.0)}),
        Case("small network", NETWORK, network_inputs(), WEIGHTS),
        Case("x * x * sin(x) + x", "y = x * x * sin(x) + x", {"x": np.array([0.5, -1.0, 2.0])}),
    ]


def _convolution_cases() -> list[Case]:
    rng = np.random.default_rng(21)
    both = {"x": rng.normal(size=(2, 3, 9, 9)), "w": rng.normal(size=(4, 3, 3, 3))}
    images = {"x": both["x"]}
    end = "\nz = sum(y * y)"
    return [
        *(
            Case(f"convolution, stride {s}, padding {p}",
                 f"y = convolution(x, w, stride={s}, padding={p}){end}", both)
            for s, p in ((1, 0), (1, 1), (2, 0), (2, 1), (3, 2))
        ),
        Case("max pooling", f"y = max_pool(x, 3, 2){end}", images),
        Case("average pooling", f"y = average_pool(x, 3, 2){end}", images),
        Case("convolution, relu and pooling",
             f"y = max_pool(relu(convolution(x, w, padding=1)), 3, 3){end}", both),
    ]  # fmt: skip


def _normalisation_cases() -> list[Case]:
    rng = np.random.default_rng(31)
    norm = {"x": rng.normal(2.0, 3.0, (6, 4)), "g": rng.normal(size=4), "o": rng.normal(size=4)}
    block = norm | {"w1": rng.normal(size=(4, 4)), "w2": rng.normal(size=(4, 4))}
    epsilon = "epsilon=0.0009765625"
    residual = f"y = x + relu(batch_norm(x @ w1, g, o, {epsilon})) @ w2\nz = sum(y * y)"
    return [
        Case("batch norm", f"y = batch_norm(x, g, o, {epsilon})\nz = sum(y * y * y)", norm),
        Case("residual block", residual, block),
        Case("dropout", "y = dropout(x, 0.25)", {"x": np.ones(10_000)}, random=True),
    ]


def _recurrence_cases() -> list[Case]:
    rng = np.random.default_rng(41)
    steps, units, features = 5, 3, 4
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
        Case(f"unrolled, {steps} steps", unrolled, inputs),
        Case("recurrent layer", f"y = recurrent(x, w, v, b){end}", own),
        Case("LSTM layer", f"y = lstm(x, w, v, b){end}", gates),
    ]


def _parallelism_cases() -> list[Case]:
    state = initial_state()
    split = {"x": state["x"], "labels": state["labels"], "b2": state["b2"]}
    halves = {name: state[name] for name in WEIGHTS}
    for rank, end in enumerate("lr"):
        for name, axis in STRATEGIES["within layers, columns and rows"].splits.items():
            split[f"{name}{end}"] = part_of(state[name], axis, rank)
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


def _staleness_cases() -> list[Case]:
    cases = []
    for delay in (1, 4):
        rule = asdict(Momentum(0.015625, delay=delay))
        cases.append(Case(f"bowl, delay {delay}", BOWL, BOWL_START, (), rule, 40))
    one, parabola = {"x": np.array(1.0)}, "f = 0.5 * x * x"
    for side, rate in (("below", 0.59375), ("above", 0.65625)):
        rule = asdict(Momentum(rate, delay=2))
        cases.append(Case(f"delay 2, {side} the limit", parabola, one, (), rule, 60))
    rng = np.random.default_rng(81)
    inputs = {"x": rng.normal(size=(16, 5)), "labels": rng.integers(0, 3, 16)}
    inputs |= {"w": rng.normal(size=(5, 4)), "b": np.zeros(4)}
    inputs |= {"v": rng.normal(size=(4, 3)), "c": np.zeros(3)}
    network = "f = cross_entropy(tanh(x @ w + b) @ v + c, labels)"
    rule = asdict(Momentum(0.25, 0.5, delay=3))
    return [*cases, Case("network, delay 3", network, inputs, ("w", "b", "v", "c"), rule, 20)]


def _allreduce_cases() -> list[Case]:
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


def _metrics_cases() -> list[Case]:
    rng = np.random.default_rng(51)
    inputs = {"z": 2 * rng.normal(size=(8, 5)), "labels": rng.integers(0, 5, 8)}
    return [
        Case("softmax", "p = softmax(z)\ny = sum(p * p)", {"z": inputs["z"]}),
        Case("cross-entropy", "l = cross_entropy(z, labels)", inputs),
        Case("perplexity", "q = exp(cross_entropy(z, labels))", inputs),
    ]


def _tutorial_cases() -> list[Case]:
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
    "neuron": _neuron_cases,
    "descent": _descent_cases,
    "autodiff": _autodiff_cases,
    "convolution": _convolution_cases,
    "normalisation": _normalisation_cases,
    "recurrence": _recurrence_cases,
    "parallelism": _parallelism_cases,
    "staleness": _staleness_cases,
    "allreduce": _allreduce_cases,
    "metrics": _metrics_cases,
    "tutorial": _tutorial_cases,
}

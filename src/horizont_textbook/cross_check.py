"""Compares the chapters' expressions and their gradients in NumPy with every framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
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
from horizont_textbook.expressions import Case
from horizont_textbook.framework_call import Results
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

#: The caption of the table of distances.
TITLE = "Relative distances of the frameworks from NumPy"

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

    def total(variables: Mapping[str, Any]) -> Any:
        return np.sum(case.evaluate(OPERATORS, {**case.inputs, **variables})[case.result])

    start = {name: case.inputs[name] for name in case.variables}
    if case.optimizer is not None:
        path = descend(grad(total), start, Momentum(**case.optimizer), case.steps)
        return {f"path of {name}": np.stack([each[name] for each in path]) for name in start}
    gradients = {f"d{case.result}/d{name}": value for name, value in grad(total)(start).items()}
    return case.evaluate(OPERATORS, case.inputs) | gradients


@dataclass(frozen=True)
class CrossCheck:
    """The arrays of a chapter by framework, and reasons of missing ones."""

    cases: Sequence[Case]
    results: Mapping[str, Results]
    missing: Mapping[str, str]

    def arrays(self, case: str, name: str) -> dict[str, Array]:
        """Return an array of a case by framework."""
        return {framework: arrays[f"{case}|{name}"] for framework, arrays in self.results.items()}

    def compare(self) -> pd.DataFrame:
        """Return the number of compared values, and the largest distance of each framework."""
        rows = []
        for case in (case for case in self.cases if not case.random):
            row: dict[str, Any] = {"expression": case.name, "values": 0}
            for name, value in reference(case).items():
                row["values"] += value.size
                for framework, found in self.arrays(case.name, name).items():
                    distance = relative_distance(found.reshape(value.shape), value)
                    row[framework] = max(row.get(framework, 0.0), distance)
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
        titled = replace(table, title=TITLE)  # not the heading, which may be of the frameworks
        reasons = [Message(f"{framework_label(n)}: {text}.") for n, text in self.missing.items()]
        text = f"values agree with NumPy within a relative distance of {BOUND:.0e}."
        verdict = Verdict(f"all {text}" if ok else f"not all {text}", ok)
        facts = {"ok": ok, "distances": distances.to_dict("records"), "missing": {**self.missing}}
        bundle = Stack((titled, *reasons, verdict))._repr_mimebundle_()
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
    function = "horizont_textbook.framework_operators:run_cases"
    results = call_in_frameworks("cross-check", function, arguments)
    return CrossCheck(CASES[chapter](), results, missing)


def _normal(rng: np.random.Generator, **shapes: Any) -> dict[str, Array]:
    """Draw arrays of normally distributed numbers by name."""
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def _neuron_cases() -> list[Case]:
    x = {"x": np.linspace(-8, 8, 33)}
    layer = _normal(np.random.default_rng(11), x=(5, 3), w=(3, 4), b=4)
    layers = [f"{name}(x @ w + b)" for name in ACTIVATIONS]
    return [
        *(Case(f"{name}(x)", f"y = {name}(x)", x) for name in ACTIVATIONS),
        *(Case(each, f"y = {each}", layer) for each in layers),
    ]


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
    both = _normal(np.random.default_rng(21), x=(2, 3, 9, 9), w=(4, 3, 3, 3))
    cases = {
        f"convolution, stride {s}, padding {p}": f"convolution(x, w, stride={s}, padding={p})"
        for s, p in ((1, 0), (1, 1), (2, 0), (2, 1), (3, 2))
    }
    cases["max pooling"] = "max_pool(x, 3, 2)"
    cases["average pooling"] = "average_pool(x, 3, 2)"
    cases["convolution, relu and pooling"] = "max_pool(relu(convolution(x, w, padding=1)), 3, 3)"
    inputs = {name: both if "(x, w" in y else {"x": both["x"]} for name, y in cases.items()}
    return [Case(name, f"y = {y}\nz = sum(y * y)", inputs[name]) for name, y in cases.items()]


def _normalisation_cases() -> list[Case]:
    rng = np.random.default_rng(31)
    norm = {"x": rng.normal(2.0, 3.0, (6, 4)), **_normal(rng, g=4, o=4)}
    block = norm | _normal(rng, w1=(4, 4), w2=(4, 4))
    epsilon = "epsilon=0.0009765625"
    residual = f"y = x + relu(batch_norm(x @ w1, g, o, {epsilon})) @ w2\nz = sum(y * y)"
    return [
        Case("batch norm", f"y = batch_norm(x, g, o, {epsilon})\nz = sum(y * y * y)", norm),
        Case("residual block", residual, block),
        Case("dropout", "y = dropout(x, 0.25)", {"x": np.ones(10_000)}, random=True),
    ]


def _recurrence_cases() -> list[Case]:
    rng, steps = np.random.default_rng(41), 5
    layer = _normal(rng, x=(2, steps, 4), w=(4, 3), v=(3, 3), b=3)
    gates = {"x": layer["x"], **_normal(rng, w=(12, 4), v=(12, 3), b=12)}
    transposed = layer | {"w": layer["w"].T, "v": layer["v"].T}
    inputs = {f"x{t + 1}": layer["x"][:, t] for t in range(steps)}
    inputs |= {name: layer[name] for name in "wvb"}
    lines = [f"h{t} = tanh(x{t} @ w + h{t - 1} @ v + b)" for t in range(2, steps + 1)]
    unrolled = "\n".join(["h1 = tanh(x1 @ w + b)", *lines, f"y = sum(h{steps})"])
    states = np.array([corrupt(pattern, 0.2) for pattern in letters()])
    memory = {"s": states, "w": hebbian_weights(letters())}
    return [
        Case("energy of a Hopfield network", "e = -0.5 * sum((s @ w) * s)", memory, ("s",)),
        Case(f"unrolled, {steps} steps", unrolled, inputs),
        Case("recurrent layer", "y = recurrent(x, w, v, b)\nz = sum(y * y * y)", transposed),
        Case("LSTM layer", "y = lstm(x, w, v, b)\nz = sum(y * y * y)", gates),
    ]


def _parallelism_cases() -> list[Case]:
    state = initial_state()
    weights, batch = ({n: state[n] for n in names} for names in (WEIGHTS, ("x", "labels")))
    columns_and_rows = STRATEGIES["within layers, columns and rows"]
    parts, halves = {"b2": state["b2"]}, {}
    for rank, end in enumerate("lr"):
        for name, axis in columns_and_rows.splits.items():
            parts[f"{name}{end}"] = part_of(state[name], axis, rank)
        for name, array in batch.items():
            halves[f"{name}{end}"] = part_of(array, "rows", rank)
    within = (
        "hl = tanh(x @ W1l + b1l)\nhr = tanh(x @ W1r + b1r)\n"
        "z = hl @ W2l + hr @ W2r + b2\nloss = cross_entropy(z, labels)"
    )
    by_halves = (
        "pl = cross_entropy(tanh(xl @ W1 + b1) @ W2 + b2, labelsl)\n"
        "pr = cross_entropy(tanh(xr @ W1 + b1) @ W2 + b2, labelsr)\nloss = (pl + pr) / 2"
    )
    return [
        Case("two layers, one process", NETWORK, state, WEIGHTS),
        Case("cut within the layers", within, batch | parts, tuple(parts)),
        Case("two halves of the batch", by_halves, weights | halves, WEIGHTS),
    ]


def _staleness_cases() -> list[Case]:
    rng = np.random.default_rng(81)
    batch = {"x": rng.normal(size=(16, 5)), "labels": rng.integers(0, 3, 16)}
    weights = {**_normal(rng, w=(5, 4), v=(4, 3)), "b": np.zeros(4), "c": np.zeros(3)}
    network = "f = cross_entropy(tanh(x @ w + b) @ v + c, labels)"
    one, parabola = {"x": np.array(1.0)}, "f = 0.5 * x * x"
    cases = [
        (Case("bowl, delay 1", BOWL, BOWL_START, steps=40), Momentum(0.015625, delay=1)),
        (Case("bowl, delay 4", BOWL, BOWL_START, steps=40), Momentum(0.015625, delay=4)),
        (Case("delay 2, below the limit", parabola, one, steps=60), Momentum(0.59375, delay=2)),
        (Case("delay 2, above the limit", parabola, one, steps=60), Momentum(0.65625, delay=2)),
        (
            Case("network, delay 3", network, batch | weights, tuple(weights), steps=20),
            Momentum(0.25, 0.5, delay=3),
        ),
    ]
    return [replace(case, optimizer=asdict(rule)) for case, rule in cases]


def _allreduce_cases() -> list[Case]:
    rng = np.random.default_rng(92)
    vectors = _normal(rng, a=5, b=5, c=5)
    orders = "l = (a + b) + c\nm = (b + c) + a\nr = (c + a) + b\ny = sum((l + m + r) / 3)"
    batches = _normal(rng, x0=(2, 3), x1=(2, 3), x2=(2, 3))
    batches |= {f"l{k}": rng.integers(0, 4, 2) for k in range(3)}
    losses = [f"p{k} = cross_entropy(x{k} @ W, l{k})" for k in range(3)]
    mean = "\n".join([*losses, "loss = (p0 + p1 + p2) / 3"])
    return [
        Case("sum in three orders", orders, vectors, ("a",)),
        Case("mean of three workers' losses", mean, batches | _normal(rng, W=(3, 4)), ("W",)),
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
    weights = _normal(np.random.default_rng(111), w=(FEATURES, CLASSES), b=CLASSES)
    x = x.astype(np.float64)
    halves = {"x": x[::2], "l": l[::2], "u": x[1::2], "m": l[1::2]} | weights
    whole, half = "cross_entropy(x @ w + b, l)", "cross_entropy(u @ w + b, m)"
    return [
        Case("gradient of a batch", f"f = {whole}", {"x": x, "l": l} | weights, ("w", "b")),
        Case("mean of its halves", f"f = 0.5 * {whole} + 0.5 * {half}", halves, ("w", "b")),
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

"""Chapter 3: backpropagation by a small engine, by hand, and by finite differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from autograd.misc.flatten import flatten
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from horizont.reporting.labels import framework_label
from horizont.reporting.output import TableOutput
from horizont.reporting.style import BACKGROUND, FOREGROUND, PAIR_COLOURS
from horizont_textbook import Array, page
from horizont_textbook.loss import cross_entropy, cross_entropy_gradient, gradients_by_hand
from horizont_textbook.page import Plotted, columns, relative_distance

WEIGHTS = ("W1", "b1", "W2", "b2")

#: Colours of values and of gradients.
FORWARD, BACKWARD = PAIR_COLOURS[0], PAIR_COLOURS[3]

#: Position and definition of each node of the small graph.
POSITIONS = {"a": (0.0, 1.0), "b": (0.0, 0.0), "c": (1.0, 1.0), "d": (1.0, 0.0), "e": (2.0, 0.5)}
DEFINITIONS = {"a": "a", "b": "b", "c": "c = a + b", "d": "d = b + 1", "e": "e = c · d"}

#: The local derivative along each edge of the small graph: 1, or the value of a node.
EDGES = {("a", "c"): "1", ("b", "c"): "1", ("b", "d"): "1", ("c", "e"): "d", ("d", "e"): "c"}


class Node:
    """A value in a computation graph.

    Attributes
    ----------
    operands
        Each operand with its local rule: from the gradient of this node to its share of the
        gradient of the operand.
    """

    def __init__(self, value: Any, operands: Sequence[tuple[Node, Callable[..., Any]]] = ()):
        self.value = np.asarray(value, dtype=np.float64)
        self.operands = operands
        self.gradient: Array = np.zeros_like(self.value)

    def __add__(self, other: Node) -> Node:
        return Node(self.value + other.value, [(self, lambda g: g), (other, lambda g: g)])

    def __mul__(self, other: Node) -> Node:
        rules = [(self, lambda g: g * other.value), (other, lambda g: g * self.value)]
        return Node(self.value * other.value, rules)

    def __matmul__(self, other: Node) -> Node:
        rules = [(self, lambda g: g @ other.value.T), (other, lambda g: self.value.T @ g)]
        return Node(self.value @ other.value, rules)

    def tanh(self) -> Node:
        """Return the hyperbolic tangent."""
        y = np.tanh(self.value)
        return Node(y, [(self, lambda g: g * (1 - y**2))])

    def cross_entropy(self, labels: Array) -> Node:
        """Return the mean cross-entropy of scores, (examples, classes)."""
        by_scores = cross_entropy_gradient(self.value, labels)
        return Node(cross_entropy(self.value, labels), [(self, lambda g: g * by_scores)])

    def backward(self) -> None:
        """Compute the gradient of this value with respect to every node that it depends on.

        Nodes are visited in reverse topological order, so that the gradient of a node is
        complete before it is passed on to the operands (the chain rule). Where a value is used
        twice, its two gradients add up.
        """
        self.gradient = np.ones_like(self.value)
        for node in reversed(_topological_order(self, {})):
            for operand, rule in node.operands:
                gradient = unbroadcast(rule(node.gradient), operand.value.shape)
                operand.gradient = operand.gradient + gradient


def _topological_order(node: Node, order: dict[Node, None]) -> dict[Node, None]:
    """Append a node to an order, after the nodes that it depends on."""
    if node not in order:
        for operand, _ in node.operands:
            _topological_order(operand, order)
        order[node] = None
    return order


def unbroadcast(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Sum a gradient over the axes along which an operand of a smaller shape was broadcast."""
    gradient = np.asarray(gradient).sum(axis=tuple(range(np.ndim(gradient) - len(shape))))
    repeated = tuple(axis for axis, size in enumerate(shape) if size != gradient.shape[axis])
    return np.asarray(gradient.sum(axis=repeated, keepdims=True))


def small_graph(a: float = 2.0, b: float = 1.0) -> dict[str, Node]:
    """Compute (a + b) * (b + 1) and its gradients."""
    nodes = {"a": Node(a), "b": Node(b)}
    nodes["c"] = nodes["a"] + nodes["b"]
    nodes["d"] = nodes["b"] + Node(1.0)
    nodes["e"] = nodes["c"] * nodes["d"]
    nodes["e"].backward()
    return nodes


def network_inputs() -> dict[str, Array]:
    """Draw examples, labels and weights of a network with 2 inputs, 3 neurons and 2 classes."""
    rng = np.random.default_rng(5)
    return {
        "x": rng.normal(size=(4, 2)),
        "labels": np.array([0, 1, 1, 0]),
        "W1": rng.normal(size=(2, 3)),
        "b1": rng.normal(size=3),
        "W2": rng.normal(size=(3, 2)),
        "b2": rng.normal(size=2),
    }


def network_loss(inputs: Mapping[str, Any]) -> tuple[Node, dict[str, Node]]:
    """Build the graph of a network with one hidden layer; return its loss and its weights."""
    w = {name: Node(inputs[name]) for name in WEIGHTS}
    h = (Node(inputs["x"]) @ w["W1"] + w["b1"]).tanh()
    return (h @ w["W2"] + w["b2"]).cross_entropy(inputs["labels"]), w


def gradients_by_engine(inputs: Mapping[str, Any]) -> dict[str, Array]:
    """Compute the gradients of the network by backpropagation through its graph."""
    loss, weights = network_loss(inputs)
    loss.backward()
    return {name: node.gradient for name, node in weights.items()}


def finite_differences(inputs: Mapping[str, Array], name: str, step: float = 1e-6) -> Array:
    """Compute the gradient of the network by one weight array by central differences.

    The error is of the order of the squared step, plus rounding divided by the step.
    """

    def loss(change: Array) -> Array:
        return network_loss({**inputs, name: inputs[name] + change})[0].value

    shape = inputs[name].shape
    changes = step * np.eye(inputs[name].size).reshape(-1, *shape)
    return np.reshape([loss(each) - loss(-each) for each in changes], shape) / (2 * step)


def compare_methods() -> dict[str, float]:
    """Return the distances of the engine and of finite differences from gradients by hand."""
    inputs = network_inputs()
    hand, _ = flatten(gradients_by_hand(**inputs))
    engine, _ = flatten(gradients_by_engine(inputs))
    differences, _ = flatten({name: finite_differences(inputs, name) for name in WEIGHTS})
    return {
        "weights": float(hand.size),
        "by_the_algorithm,_relative_distance": relative_distance(engine, hand),
        "by_finite_differences": relative_distance(differences, hand),
        "passes_of_finite_differences": 2.0 * hand.size,
    }


@page.figure("graph", height=3.0)
def plot_graph(figure: Figure, a: float = 2.0, b: float = 1.0) -> Plotted:
    """The computation graph of (a + b) · (b + 1) for a = {a:g} and b = {b:g}. Blue: values,
    computed from left to right. Purple: the derivative of e with respect to each value, computed
    from right to left. Each edge multiplies by its local derivative; where two edges leave a value,
    as at b, the products add up: {total:g} = {first:g} + {second:g}.
    """
    nodes = small_graph(a, b)
    values = {name: float(node.value) for name, node in nodes.items()}
    gradients = {name: float(node.gradient) for name, node in nodes.items()}
    axes = figure.subplots()
    axes.axis("off")
    axes.set(xlim=(-0.35, 2.4), ylim=(-0.42, 1.42))
    centre: dict[str, Any] = {"ha": "center", "va": "center"}
    arrow = {"arrowstyle": "-|>", "color": FOREGROUND, "linewidth": 1, "shrinkA": 26, "shrinkB": 30}
    for (start, end), local in EDGES.items():
        axes.annotate("", POSITIONS[end], POSITIONS[start], arrowprops=arrow)
        x, y = np.mean([POSITIONS[start], POSITIONS[end]], axis=0)
        box = {"facecolor": BACKGROUND, "edgecolor": "none", "pad": 1.5}
        axes.text(x, y, f"× {values.get(local, 1.0):g}", color=BACKWARD, bbox=box, **centre)
    for name, (x, y) in POSITIONS.items():
        box = {"boxstyle": "round,pad=0.45", "facecolor": BACKGROUND, "edgecolor": FOREGROUND}
        axes.text(x, y, DEFINITIONS[name], bbox=box, fontsize=10, **centre)
        value, gradient = f"{values[name]:g}", f"∂e/∂{name} = {gradients[name]:g}"
        axes.text(x, y + 0.2, value, color=FORWARD, ha="center", va="bottom", weight="bold")
        axes.text(x, y - 0.2, gradient, color=BACKWARD, ha="center", va="top")
    data = columns(node=list(values), value=[*values.values()], gradient=[*gradients.values()])
    return data, {"total": gradients["b"], "first": values["d"], "second": values["c"]}


@page.figure("differences", height=2.7, grid="y")
def plot_difference_errors(figure: Figure) -> Plotted:
    """The error of finite differences on the small network, in float64. With a large step the
    curvature dominates, with a small one rounding; the best one, {best:.0e}, leaves {error:.0e}.
    Backpropagation has no step to choose, and is exact up to rounding.
    """
    steps = 10.0 ** np.arange(-13, 0.01, 0.5)
    inputs = network_inputs()
    exact = gradients_by_engine(inputs)["W1"]
    estimates = [finite_differences(inputs, "W1", float(step)) for step in steps]
    errors = np.array([relative_distance(each, exact) for each in estimates])
    axes = figure.subplots()
    axes.loglog(steps, errors, "o-", markersize=4)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_locator(NullLocator())
    axes.annotate("rounding", (1e-12, errors[2]), xytext=(12, 8), textcoords="offset points")
    axes.annotate("curvature", (1e-1, errors[-3]), xytext=(-62, 8), textcoords="offset points")
    axes.set(xlabel="step of the finite difference", ylabel="relative error")
    best = int(np.argmin(errors))
    data = columns(step=steps, relative_error=errors)
    return data, {"best": steps[best], "error": errors[best]}


def gradients_table(by_a: Mapping[str, Any], by_b: Mapping[str, Any]) -> TableOutput:
    """Format the gradients of the small graph as each framework computes them."""
    rows = [
        {
            "framework": framework_label(name),
            "∂e/∂a": f"{np.ravel(by_a[name])[0]:g}",
            "∂e/∂b": f"{np.ravel(by_b[name])[0]:g}",
        }
        for name in by_a
    ]
    return page.table(rows)

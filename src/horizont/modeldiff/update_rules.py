"""What optimizers compute, in NumPy: rules with settings in one vocabulary for all frameworks.

A rule is a mapping with its name, ``rule``, and settings, see `DEFAULTS`. Adam is that of Kingma
and Ba (2015), with the maximum of squares of Reddi et al. (2018); the decay of Loshchilov and
Hutter (2019) is added to the weight, others to the gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from horizont.equivalence.bounds import norm
from horizont.modeldiff.recording import Array

Rule = Mapping[str, Any]

ROOT, UNCORRECTED = "the root", "the root before its correction"
SQUARE = "the square"
GRADIENT, WEIGHT = "the gradient", "the weight"
BY_VALUE, BY_NORM, BY_GLOBAL_NORM = "by value", "by norm", "by global norm"

_OF_ALL: dict[str, Any] = {
    "learning rate": None,
    "weight decay": 0.0,
    "place of the weight decay": GRADIENT,
    "clipping": None,
    "maximize": False,
}
_OF_MOMENTUM: dict[str, Any] = {"momentum": 0.0, "dampening": 0.0, "Nesterov momentum": False}
_OF_ROOT: dict[str, Any] = {"epsilon": 1e-8, "place of the epsilon": ROOT}

#: The settings of each rule that can be simulated, with the values of those that are not given.
DEFAULTS: dict[str, dict[str, Any]] = {
    "none": {},
    "SGD": {**_OF_ALL, **_OF_MOMENTUM},
    "Adam": {
        **_OF_ALL, **_OF_ROOT, "beta 1": 0.9, "beta 2": 0.999, "bias correction": True,
        "maximum of squares": False,
    },
    "RMSprop": {
        **_OF_ALL, **_OF_MOMENTUM, **_OF_ROOT, "smoothing": 0.9, "centered": False,
        "initial accumulator": 0.0,
    },
    "Adagrad": {**_OF_ALL, **_OF_ROOT, "initial accumulator": 0.0},
}  # fmt: skip

#: What implementations of a rule define otherwise without a setting for it.
_VARIANTS: dict[str, dict[str, tuple[Any, ...]]] = {
    "SGD": {"Nesterov momentum": (False, True)},
    "Adam": {
        "place of the epsilon": (ROOT, UNCORRECTED, SQUARE),
        "bias correction": (True, False),
    },
    "RMSprop": {
        "place of the epsilon": (ROOT, SQUARE),
        "initial accumulator": (0.0, 1.0),
    },
    "Adagrad": {
        "place of the epsilon": (ROOT, SQUARE),
        "initial accumulator": (0.0, 0.1),
    },
}


@dataclass(frozen=True)
class Gradients:
    """The gradients of one step, of all tensors that an optimizer updates."""

    of: Mapping[str, Array]

    @cached_property
    def norm(self) -> float:
        """Their global norm, which is computed once for all rules that are tried."""
        return norm(np.array([norm(each) for each in self.of.values()]))


def variants(rule: Rule) -> Iterator[Rule]:
    """Yield a rule with all its settings, and those that implementations may mean by it."""
    rule = {**DEFAULTS[rule["rule"]], **rule}
    yield rule
    choices = dict(_VARIANTS.get(rule["rule"], {}))
    if rule.get("weight decay"):
        choices["place of the weight decay"] = (GRADIENT, WEIGHT)
        choices["weight decay"] = (rule["weight decay"], 0.0)
    for values in product(*choices.values()):
        yield {**rule, **dict(zip(choices, values, strict=True))}


def simulate(
    rules: Mapping[str, Rule], start: Mapping[str, Array], gradients: Sequence[Gradients]
) -> dict[str, Array]:
    """Return the weights after some updates in float64.

    Parameters
    ----------
    rules
        The rule of each tensor; one of an unknown name is a `KeyError`.
    start
        The weights before the first update.
    gradients
        Those of each step.
    """
    weights = {key: np.array(value, dtype=np.float64) for key, value in start.items()}
    states: dict[str, dict[str, Any]] = {key: {} for key in weights}
    for step, each in enumerate(gradients, 1):
        for key, rule in rules.items():
            if rule["rule"] == "none":
                continue
            gradient = _clipped(rule, np.asarray(each.of[key], dtype=np.float64), each)
            if rule["maximize"]:
                gradient = -gradient
            weights[key] = _updated(rule, weights[key], gradient, states[key], step)
    return weights


def _clipped(rule: Rule, gradient: Array, all_of_step: Gradients) -> Array:
    if rule["clipping"] is None:
        return gradient
    how, limit = rule["clipping"]
    if how == BY_VALUE:
        return np.asarray(np.clip(gradient, -limit, limit))
    size = all_of_step.norm if how == BY_GLOBAL_NORM else norm(gradient)
    return gradient * min(1.0, float(limit / size))


def _updated(rule: Rule, weight: Array, gradient: Array, state: dict[str, Any], step: int) -> Array:
    """Return a weight after one update, whose state is changed in place."""
    rate, decay = rule["learning rate"], rule["weight decay"]
    if decay and rule["place of the weight decay"] == GRADIENT:
        gradient = gradient + decay * weight
    elif decay:
        weight = weight - rate * decay * weight
    direction = _RULES[rule["rule"]](rule, gradient, state, step)
    if rule.get("momentum"):
        direction = _with_momentum(rule, direction, state)
    return np.asarray(weight - rate * direction)


def _with_momentum(rule: Rule, direction: Array, state: dict[str, Any]) -> Array:
    momentum = rule["momentum"]
    if "velocity" in state:
        undamped = 1.0 - rule["dampening"]
        state["velocity"] = momentum * state["velocity"] + undamped * direction
    else:
        state["velocity"] = direction
    if rule["Nesterov momentum"]:
        return np.asarray(direction + momentum * state["velocity"])
    return np.asarray(state["velocity"])


def _sgd(rule: Rule, gradient: Array, state: dict[str, Any], step: int) -> Array:
    del rule, state, step
    return gradient


def _adam(rule: Rule, gradient: Array, state: dict[str, Any], step: int) -> Array:
    beta_1, beta_2 = rule["beta 1"], rule["beta 2"]
    mean = state["mean"] = beta_1 * state.get("mean", 0.0) + (1 - beta_1) * gradient
    square = state["square"] = beta_2 * state.get("square", 0.0) + (1 - beta_2) * gradient**2
    if rule["maximum of squares"]:
        square = state["largest"] = np.maximum(state.get("largest", 0.0), square)
    correct_1 = correct_2 = 1.0
    if rule["bias correction"]:
        correct_1, correct_2 = 1 - beta_1**step, 1 - beta_2**step
    epsilon, place = rule["epsilon"], rule["place of the epsilon"]
    if place == UNCORRECTED:
        root = (np.sqrt(square) + epsilon) / np.sqrt(correct_2)
    elif place == SQUARE:
        root = np.sqrt(square / correct_2 + epsilon)
    else:
        root = np.sqrt(square / correct_2) + epsilon
    return np.asarray(mean / correct_1 / root)


def _rmsprop(rule: Rule, gradient: Array, state: dict[str, Any], step: int) -> Array:
    del step
    smoothing = rule["smoothing"]
    square = state.get("square", rule["initial accumulator"])
    square = state["square"] = smoothing * square + (1 - smoothing) * gradient**2
    if rule["centered"]:
        state["mean"] = smoothing * state.get("mean", 0.0) + (1 - smoothing) * gradient
        square = square - state["mean"] ** 2
    return np.asarray(gradient / _root(rule, square))


def _adagrad(rule: Rule, gradient: Array, state: dict[str, Any], step: int) -> Array:
    del step
    square = state["square"] = state.get("square", rule["initial accumulator"]) + gradient**2
    return np.asarray(gradient / _root(rule, square))


def _root(rule: Rule, square: Array) -> Array:
    if rule["place of the epsilon"] == SQUARE:
        return np.asarray(np.sqrt(square + rule["epsilon"]))
    return np.asarray(np.sqrt(square) + rule["epsilon"])


_RULES = {"SGD": _sgd, "Adam": _adam, "RMSprop": _rmsprop, "Adagrad": _adagrad}

"""What losses compute of a result and classes, in NumPy, and which rule a recorded loss follows.

A rule is a mapping of ``loss``, ``input``, ``label smoothing``, ``reduction``, ``ignored classes``
and ``separate means``, in how many parts of the batch the loss is reduced first. It is found from
the gradient with respect to the result, a row per example or step: that of a cross entropy is a sum
of two parts, of which the second is that of label smoothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from horizont.equivalence.bounds import norm
from horizont.modeldiff.recording import Array

Rule = Mapping[str, Any]

CROSS_ENTROPY, BINARY, SQUARED_ERROR = "cross entropy", "binary cross entropy", "squared error"
LOGITS, LOGARITHMS, PROBABILITIES = "logits", "logarithms of probabilities", "probabilities"
SOFTMAX, UNSCALED = "a softmax of logits", "probabilities that are not scaled to a sum of 1"

_KNOWN = (
    *((CROSS_ENTROPY, kind) for kind in (LOGITS, PROBABILITIES, UNSCALED, SOFTMAX, LOGARITHMS)),
    (BINARY, LOGITS),
    (SQUARED_ERROR, LOGITS),
)

#: In how many parts a batch is divided, each of which has a loss; their mean is the loss.
SEPARATE_MEANS = "separate means"

#: Of distances. Some losses round their settings to single precision.
BOUND = 1e-6


def loss_and_gradient(rule: Rule, result: Array, classes: Array) -> tuple[float, Array]:
    """Return a loss and its gradient with respect to the result.

    Parameters
    ----------
    result
        ``(examples, classes)`` or ``(examples, steps, classes)``; rows whose sum is 1, so that they
        may be taken for logits or for probabilities.
    classes
        Integers, of the shape of the result without its last axis.
    """
    if (number := rule[SEPARATE_MEANS]) > 1:
        whole = {**rule, SEPARATE_MEANS: 1}
        return mean_of_parts(partial(loss_and_gradient, whole), number, result, classes)
    rows, labels = result.reshape(-1, result.shape[-1]), classes.reshape(-1)
    factors = _factors(rule, result.shape, labels)
    smoothing = rule["label smoothing"]
    value, gradient = 0.0, np.zeros_like(rows)
    for part, weight in enumerate((1.0 - smoothing, smoothing)):
        if weight:
            values, gradients = _part(rule["loss"], rule["input"], rows, labels, part)
            value += weight * float((factors * values).sum())
            gradient = gradient + weight * factors[:, None] * gradients
    return value, gradient.reshape(result.shape)


def mean_of_parts(
    loss: Callable[[Array, Array], tuple[float, Array]], number: int, result: Array, classes: Array
) -> tuple[float, Array]:
    """Return the mean of the losses of some parts of a result, and its gradient."""
    parts = zip(np.array_split(result, number), np.array_split(classes, number), strict=True)
    losses, gradients = zip(*(loss(*each) for each in parts), strict=True)
    return sum(losses) / number, np.concatenate(gradients) / number


def _part(loss: str, kind: str, rows: Array, labels: Array, part: int) -> tuple[Array, Array]:
    """Return the loss of each row and its gradient, for its class or for all in equal shares."""
    count = rows.shape[-1]
    target = np.eye(count)[labels] if part == 0 else np.full(rows.shape, 1.0 / count)
    if loss == SQUARED_ERROR:
        return ((rows - target) ** 2).sum(axis=1), 2 * (rows - target)
    if loss == BINARY:
        values = (np.logaddexp(0.0, rows) - target * rows).sum(axis=1)
        return values, 1.0 / (1.0 + np.exp(-rows)) - target
    if kind == LOGARITHMS:
        return -(target * rows).sum(axis=1), -target
    if kind in (PROBABILITIES, UNSCALED):
        total = rows.sum(axis=1, keepdims=True)
        values = -(target * np.log(rows / total)).sum(axis=1)
        return values, (1.0 / total if kind == PROBABILITIES else 0.0) - target / rows
    if kind == SOFTMAX:
        inner = _softmax(rows)
        outer = _softmax(inner) - target
        gradients = inner * (outer - (outer * inner).sum(axis=1, keepdims=True))
        return -(target * np.log(_softmax(inner))).sum(axis=1), gradients
    return -(target * np.log(_softmax(rows))).sum(axis=1), _softmax(rows) - target


def _softmax(rows: Array) -> Array:
    powers = np.exp(rows - rows.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def reductions(shape: tuple[int, ...], counted: int) -> dict[str, float]:
    """Return the factors of known reductions of a result, of which some rows are counted."""
    rows, examples = int(np.prod(shape[:-1])), shape[0]
    found = {
        "mean": 1.0 / counted,
        "mean that counts ignored classes": 1.0 / rows,
        "sum of steps, mean of examples": 1.0 / examples,
        "mean of all elements": 1.0 / (rows * shape[-1]),
        "sum": 1.0,
    }
    return found | {f"half the {name}": factor / 2 for name, factor in found.items()}


def _factors(rule: Rule, shape: tuple[int, ...], labels: Array) -> Array:
    """Return the factor of each row."""
    is_counted = ~np.isin(labels, rule["ignored classes"])
    reduction = rule["reduction"]
    if isinstance(reduction, str):
        reduction = reductions(shape, int(is_counted.sum()))[reduction]
    return np.where(is_counted, reduction, 0.0)


def identified(result: Array, classes: Array, loss: float, gradient: Array) -> Rule | None:
    """Return the rule of a recorded loss and gradient; None if none is known that computes them."""
    rows, labels = result.reshape(-1, result.shape[-1]), classes.reshape(-1)
    recorded = gradient.reshape(rows.shape)
    is_counted = np.abs(recorded).max(axis=1) > 0
    if not (is_counted.any() and np.isfinite(recorded).all() and np.isfinite(loss)):
        return None
    for name, kind in _KNOWN:
        both = [_part(name, kind, rows, labels, part)[1] for part in (0, 1)]
        columns = np.stack([each[is_counted].ravel() for each in both], axis=1)
        found, *_ = np.linalg.lstsq(columns, recorded[is_counted].ravel(), rcond=None)
        factor = float(found.sum())
        smoothing = round(float(found[1]) / factor, 6) if factor else 0.0
        if factor <= 0 or not 0 <= smoothing < 1:
            continue
        rule = {
            "loss": name,
            "input": kind,
            "label smoothing": abs(smoothing),  # not -0.0
            "reduction": _reduction(factor, result.shape, int(is_counted.sum())),
            "ignored classes": sorted(set(labels[~is_counted].tolist())),
            SEPARATE_MEANS: 1,
        }
        value, own = loss_and_gradient(rule, result, classes)
        is_same = abs(value - loss) <= BOUND * max(abs(loss), abs(value))
        if is_same and norm(own - gradient) <= BOUND * norm(gradient):
            return rule
    return None


def _reduction(factor: float, shape: tuple[int, ...], counted: int) -> str | float:
    """Return the name of the reduction with a factor, or the factor."""
    for name, value in reductions(shape, counted).items():
        if abs(factor - value) <= BOUND * value:
            return name
    return factor

"""What losses compute of a result and classes, in NumPy, and which rule a recorded loss follows.

A rule is a mapping of ``loss``, ``input``, ``label smoothing``, ``class weights``, ``reduction``,
``ignored classes`` and ``separate means``, in how many parts of the batch the loss is reduced
first. It is found from the gradient with respect to the result, a row per example or step: that of
a cross entropy is a sum of two parts, of which the second is that of label smoothing.

A result of one number per example has zeros and ones in the place of classes: what is predicted,
or the two classes of a binary cross entropy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from horizont.equivalence.bounds import norm
from horizont.modeldiff.recording import Array

Rule = Mapping[str, Any]

CROSS_ENTROPY, BINARY = "cross entropy", "binary cross entropy"
SQUARED_ERROR, ABSOLUTE_ERROR = "squared error", "absolute error"
LOGITS, LOGARITHMS, PROBABILITIES = "logits", "logarithms of probabilities", "probabilities"
SOFTMAX, UNSCALED = "a softmax of logits", "probabilities that are not scaled to a sum of 1"

_KNOWN = (
    *((CROSS_ENTROPY, kind) for kind in (LOGITS, PROBABILITIES, UNSCALED, SOFTMAX, LOGARITHMS)),
    (BINARY, LOGITS),
    (BINARY, PROBABILITIES),
    (SQUARED_ERROR, LOGITS),
    (ABSOLUTE_ERROR, LOGITS),
)

#: In how many parts a batch is divided, each of which has a loss; their mean is the loss.
SEPARATE_MEANS = "separate means"

#: The weight of each class that was seen, or None.
CLASS_WEIGHTS = "class weights"

#: Of distances. Some losses round their settings to single precision.
BOUND = 1e-6


def loss_and_gradient(rule: Rule, result: Array, classes: Array) -> tuple[float, Array]:
    """Return a loss and its gradient with respect to the result.

    Parameters
    ----------
    result
        ``(examples, classes)`` or ``(examples, steps, classes)``; rows whose sum is 1, so that they
        may be taken for logits or for probabilities. Or ``(examples,)`` or ``(..., 1)``, between 0
        and 1.
    classes
        Integers, one for each row of the result.
    """
    if (number := rule[SEPARATE_MEANS]) > 1:
        whole = {**rule, SEPARATE_MEANS: 1}
        return mean_of_parts(partial(loss_and_gradient, whole), number, result, classes)
    rows, labels = as_rows(result), classes.reshape(-1)
    factors = _factors(rule, result.shape, labels)
    smoothing = rule["label smoothing"]
    value, gradient = 0.0, np.zeros_like(rows)
    for part, weight in enumerate((1.0 - smoothing, smoothing)):
        if weight:
            values, gradients = _part(rule["loss"], rule["input"], rows, labels, part)
            value += weight * float((factors * values).sum())
            gradient = gradient + weight * factors[:, None] * gradients
    return value, gradient.reshape(result.shape)


def as_rows(result: Array) -> Array:
    """Return a result with a row for each class that it predicts, or each number."""
    return result.reshape(-1, 1) if result.ndim == 1 else result.reshape(-1, result.shape[-1])


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
    target = np.eye(count)[labels] if count > 1 else labels[:, None].astype(float)
    if part == 1:
        target = np.full(rows.shape, 0.5 if count == 1 or loss == BINARY else 1.0 / count)
    if loss != CROSS_ENTROPY:
        return _of_numbers(loss, kind, rows, target)
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


def _of_numbers(loss: str, kind: str, rows: Array, target: Array) -> tuple[Array, Array]:
    """Return a loss that is a sum over the numbers of each row, and its gradient."""
    if loss == SQUARED_ERROR:
        return ((rows - target) ** 2).sum(axis=1), 2 * (rows - target)
    if loss == ABSOLUTE_ERROR:
        return np.abs(rows - target).sum(axis=1), np.sign(rows - target)
    if kind == PROBABILITIES:
        values = -(target * np.log(rows) + (1.0 - target) * np.log1p(-rows)).sum(axis=1)
        return values, (rows - target) / (rows * (1.0 - rows))
    values = (np.logaddexp(0.0, rows) - target * rows).sum(axis=1)
    return values, 1.0 / (1.0 + np.exp(-rows)) - target


def _softmax(rows: Array) -> Array:
    powers = np.exp(rows - rows.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def reductions(shape: tuple[int, ...], counted: int) -> dict[str, float]:
    """Return the factors of known reductions of a result, of which some rows are counted."""
    rows, examples = int(np.prod(shape[:-1])) if len(shape) > 1 else shape[0], shape[0]
    found = {
        "mean": 1.0 / counted,
        "mean that counts ignored classes": 1.0 / rows,
        "sum of steps, mean of examples": 1.0 / examples,
        "mean of all elements": 1.0 / float(np.prod(shape)),
        "sum": 1.0,
    }
    return found | {f"half the {name}": factor / 2 for name, factor in found.items()}


def _factors(rule: Rule, shape: tuple[int, ...], labels: Array) -> Array:
    """Return the factor of each row."""
    is_counted = ~np.isin(labels, rule["ignored classes"])
    reduction = rule["reduction"]
    if isinstance(reduction, str):
        reduction = reductions(shape, int(is_counted.sum()))[reduction]
    weights = np.ones(len(labels))
    if rule[CLASS_WEIGHTS] is not None:
        weights = np.array([rule[CLASS_WEIGHTS].get(int(label), 1.0) for label in labels])
    return np.where(is_counted, reduction * weights, 0.0)


def identified(result: Array, classes: Array, loss: float, gradient: Array) -> Rule | None:
    """Return the rule of a recorded loss and gradient; None if none is known that computes them."""
    rows, labels = as_rows(result), classes.reshape(-1)
    recorded = gradient.reshape(rows.shape)
    is_counted = np.abs(recorded).max(axis=1) > 0
    if not (is_counted.any() and np.isfinite(recorded).all() and np.isfinite(loss)):
        return None
    known = [each for each in _KNOWN if rows.shape[-1] > 1 or each[0] != CROSS_ENTROPY]
    for fit in (_with_smoothing, _with_class_weights):
        for name, kind in known:
            parts = [_part(name, kind, rows, labels, part)[1][is_counted] for part in (0, 1)]
            found = fit(parts, recorded[is_counted], labels[is_counted], result.shape)
            if found is None:
                continue
            rule: dict[str, Any] = {
                "loss": name,
                "input": kind,
                "label smoothing": 0.0,
                CLASS_WEIGHTS: None,
                "reduction": "mean",
                "ignored classes": sorted(set(labels[~is_counted].tolist())),
                SEPARATE_MEANS: 1,
                **found,
            }
            value, own = loss_and_gradient(rule, result, classes)
            is_same = abs(value - loss) <= BOUND * max(abs(loss), abs(value))
            if is_same and norm(own - gradient) <= BOUND * norm(gradient):
                return rule
    return None


def _with_smoothing(
    parts: Sequence[Array], recorded: Array, labels: Array, shape: tuple[int, ...]
) -> Rule | None:
    """Return the smoothing and the reduction that give a gradient from its two parts."""
    columns = np.stack([each.ravel() for each in parts], axis=1)
    found, *_ = np.linalg.lstsq(columns, recorded.ravel(), rcond=None)
    factor = float(found.sum())
    smoothing = round(float(found[1]) / factor, 6) if factor else 0.0
    if factor <= 0 or not 0 <= smoothing < 1:
        return None
    return {
        "label smoothing": abs(smoothing),  # not -0.0
        "reduction": _reduction(factor, shape, len(labels)),
    }


def _with_class_weights(
    parts: Sequence[Array], recorded: Array, labels: Array, shape: tuple[int, ...]
) -> Rule | None:
    """Return the weights of classes that give a gradient, in units of their mean over the rows.

    The mean over weighted rows, divided by the sum of their weights, is the only one that shows no
    unit; for others it is the one that makes a reduction known.
    """
    own = parts[0]
    factors = (own * recorded).sum(axis=1) / (own * own).sum(axis=1)
    if not (factors > 0).all():
        return None
    of_class = {int(label): float(factors[labels == label].mean()) for label in np.unique(labels)}
    count = len(labels)
    known = reductions(shape, count)
    name = "mean"
    if abs(factors.sum() - 1.0) > BOUND:
        center = float(np.log(list(of_class.values())).mean())
        name = min(known, key=lambda each: abs(float(np.log(known[each])) - center))
    weights = {label: round(factor / known[name], 6) for label, factor in of_class.items()}
    return {CLASS_WEIGHTS: weights, "reduction": name}


def _reduction(factor: float, shape: tuple[int, ...], counted: int) -> str | float:
    """Return the name of the reduction with a factor, or the factor."""
    for name, value in reductions(shape, counted).items():
        if abs(factor - value) <= BOUND * value:
            return name
    return factor

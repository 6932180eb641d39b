"""Functions of single elements by name, written with the operations of any framework.

A namespace ``m`` has `exp`, `log1p`, `tanh`, `erf`, `maximum`, `minimum` and `abs`, and its tensors
have the operators of Python, so the same line computes in NumPy and inside a model, where
gradients flow through it. The names are those of the documentation of the frameworks.

Some libraries round the constants of GELU to single precision, also for tensors in double
precision: the functions whose name ends so. They differ from the others by 5e-9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[[Any, Any], Any]


def _single(value: float) -> float:
    """Return a number rounded to single precision."""
    return float(np.float32(value))


def _clip(m: Any, x: Any, low: float, high: float) -> Any:
    return m.minimum(m.maximum(x, low), high)


def _sigmoid(m: Any, x: Any) -> Any:
    return 0.5 * (1.0 + m.tanh(0.5 * x))


def _softplus(m: Any, x: Any) -> Any:
    return m.maximum(x, 0.0) + m.log1p(m.exp(-m.abs(x)))


def _elu(m: Any, x: Any, alpha: float, scale: float = 1.0) -> Any:
    return scale * (m.maximum(x, 0.0) + alpha * (m.exp(m.minimum(x, 0.0)) - 1.0))


def _gelu_erf(m: Any, x: Any, factor: float) -> Any:
    return 0.5 * x * (1.0 + m.erf(x * factor))


def _gelu_tanh(m: Any, x: Any, cubic: float) -> Any:
    return 0.5 * x * (1.0 + m.tanh(0.7978845608028654 * (x + cubic * x * x * x)))


#: The root of one half.
_HALF = 0.7071067811865476

#: The end of names of functions that a framework computes less precisely.
SINGLE = ", constants in single"

FUNCTIONS: dict[str, Function] = {
    "none": lambda m, x: x,
    "ReLU": lambda m, x: m.maximum(x, 0.0),
    "ReLU6": lambda m, x: _clip(m, x, 0.0, 6.0),
    "leaky ReLU, slope 0.01": lambda m, x: m.maximum(x, 0.0) + 0.01 * m.minimum(x, 0.0),
    "leaky ReLU, slope 0.1": lambda m, x: m.maximum(x, 0.0) + 0.1 * m.minimum(x, 0.0),
    "leaky ReLU, slope 0.2": lambda m, x: m.maximum(x, 0.0) + 0.2 * m.minimum(x, 0.0),
    "leaky ReLU, slope 0.3": lambda m, x: m.maximum(x, 0.0) + 0.3 * m.minimum(x, 0.0),
    "GELU by erf": lambda m, x: _gelu_erf(m, x, _HALF),
    "GELU by tanh": lambda m, x: _gelu_tanh(m, x, 0.044715),
    "GELU by erf, constants in single": lambda m, x: _gelu_erf(m, x, _single(_HALF)),
    "GELU by tanh, constants in single": lambda m, x: _gelu_tanh(m, x, _single(0.044715)),
    "GELU by sigmoid": lambda m, x: x * _sigmoid(m, 1.702 * x),
    "SiLU": lambda m, x: x * _sigmoid(m, x),
    "hard swish": lambda m, x: x * _clip(m, x + 3.0, 0.0, 6.0) / 6.0,
    "hard sigmoid, slope 1/6": lambda m, x: _clip(m, x / 6.0 + 0.5, 0.0, 1.0),
    "hard sigmoid, slope 1/5": lambda m, x: _clip(m, x * 0.2 + 0.5, 0.0, 1.0),
    "sigmoid": _sigmoid,
    "tanh": lambda m, x: m.tanh(x),
    "softplus": _softplus,
    "mish": lambda m, x: x * m.tanh(_softplus(m, x)),
    "ELU": lambda m, x: _elu(m, x, 1.0),
    "SELU": lambda m, x: _elu(m, x, 1.6732632423543772, 1.0507009873554805),
    "softsign": lambda m, x: x / (1.0 + m.abs(x)),
    "square of ReLU": lambda m, x: m.maximum(x, 0.0) * m.maximum(x, 0.0),
}

#: Functions of the last axis, which a model may apply to its output or leave to the loss.
RESULTS: dict[str, Function] = {
    "none": lambda m, x: x,
    "softmax": lambda m, x: m.softmax(x),
    "log softmax": lambda m, x: m.log_softmax(x),
    "sigmoid": _sigmoid,
}


def repaired(m: Any, value: Any, change: dict[str, Any], live: dict[str, Any]) -> Any:
    """Return a tensor as another model computes it, inside the model.

    Parameters
    ----------
    change
        In this order: ``from``, the layer whose output it is computed from, by default the tensor
        itself; ``function``, a name of `FUNCTIONS` or `RESULTS`; ``pool``, ``max`` or ``mean``,
        over windows of a ``size``, 0 for all of an image; ``flatten``, whether channels are
        ``first`` or ``last``; ``order``, a permutation of an ``axis``; ``scale`` and ``shift``.
    live
        Outputs of layers by name, as the model has them.
    """
    value = live.get(change.get("from", ""), value)
    if name := change.get("function"):
        value = {**RESULTS, **FUNCTIONS}[name](m, value)
    if kind := change.get("pool"):
        value = m.pool(value, kind, change["size"])
    if layout := change.get("flatten"):
        value = m.flatten(value, layout)
    if order := change.get("order"):
        value = m.take(value, order, change["axis"])
    return value * change.get("scale", 1.0) + change.get("shift", 0.0)


class NumPyNamespace:
    """The operations for arrays of NumPy, which has no error function."""

    exp, log1p, tanh, maximum = np.exp, np.log1p, np.tanh, np.maximum
    minimum, abs, take = np.minimum, np.abs, np.take
    erf = staticmethod(np.vectorize(math.erf, otypes=[np.float64]))

    @staticmethod
    def pool(x: Any, kind: str, size: int) -> Any:
        """Reduce windows of an image, ``NCHW``, that do not overlap; all of it if size is 0."""
        reduce = np.max if kind == "max" else np.mean
        if not size:
            return reduce(x, axis=tuple(range(2, x.ndim)))
        height, width = (each // size for each in x.shape[2:])
        cut = x[:, :, : height * size, : width * size]
        windows = cut.reshape(*x.shape[:2], height, size, width, size)
        return reduce(windows, axis=(3, 5))

    @staticmethod
    def flatten(x: Any, layout: str) -> Any:
        """Flatten images, ``NCHW``, with channels first or last."""
        return (np.moveaxis(x, 1, -1) if layout == "last" else x).reshape(len(x), -1)

    @staticmethod
    def softmax(x: Any) -> Any:
        """Return the exponentials over the last axis, divided by their sum."""
        powers = np.exp(x - x.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    @staticmethod
    def log_softmax(x: Any) -> Any:
        """Return the logarithm of `softmax`."""
        return np.log(NumPyNamespace.softmax(x))


def chains(shape: tuple[int, ...], target: tuple[int, ...]) -> list[dict[str, Any]]:
    """List what may turn an output of a shape into an input of another one, see `repaired`."""
    found: list[dict[str, Any]] = [{}] if shape == target else []
    if len(shape) < 3:
        return found
    kinds = ("max", "mean")
    if target == shape[:2]:
        return found + [{"pool": kind, "size": 0} for kind in kinds]
    if len(target) == 2 and target[1] == np.prod(shape[1:]):
        found += [{"flatten": layout} for layout in ("first", "last")]
    for size in (2, 3, 4) if len(shape) == 4 else ():
        height, width = (each // size for each in shape[2:])
        pooled = [{"pool": kind, "size": size} for kind in kinds]
        if target == (*shape[:2], height, width):
            found += pooled
        elif len(target) == 2 and target[1] == shape[1] * height * width > 0:
            layouts = ("first", "last") if height * width > 1 else ("first",)
            found += [{**each, "flatten": layout} for each in pooled for layout in layouts]
    return found


#: How many elements show that a function is another one.
_SAMPLE = 4096


def _distance(x: Any, y: Any, change: dict[str, Any]) -> float:
    """Return the largest difference between a changed array and another one."""
    with np.errstate(all="ignore"):
        return float(np.max(np.abs(repaired(NumPyNamespace, x, change, {}) - y)))


def identify(
    x: Any, y: Any, bound: float, functions: dict[str, Function] = FUNCTIONS
) -> dict[str, Any] | None:
    """Find the function, with what may follow it, that maps one array to another.

    Parameters
    ----------
    bound
        On the largest difference, relative to the largest element of the result.

    Returns
    -------
    dict or None
        A change for `repaired`, the closest one.
    """
    scale = max(float(np.max(np.abs(y), initial=0.0)), 1e-300)
    found: list[tuple[float, int, dict[str, Any]]] = []
    for chain in chains(x.shape, y.shape):
        names = [*functions]
        if not chain:  # a few elements exclude most functions
            step = max(x.size // _SAMPLE, 1)
            few_x, few_y = x.reshape(-1)[::step], y.reshape(-1)[::step]
            names = [
                name
                for name in functions
                if name in RESULTS or _distance(few_x, few_y, {"function": name}) <= bound * scale
            ]
        for name in names:
            change = {"function": name, **chain}
            distance = _distance(x, y, change)
            if distance <= bound * scale:
                found.append((distance, len(found), change))
    return min(found)[2] if found else None

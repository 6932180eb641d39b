"""Functions of single elements by name, written with the operations of any framework.

A namespace ``m`` has `exp`, `log1p`, `tanh`, `erf`, `maximum`, `minimum` and `abs`, and its tensors
have the operators of Python, so the same line computes in NumPy and inside a model, where
gradients flow through it. The names are those of the documentation of the frameworks.

Some libraries round the constants of GELU to single precision, also for tensors in double
precision: the functions whose name ends so. They differ from the others by 5e-9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import isfinite, pi, sqrt
from typing import Any

import numpy as np

from .attended import attended, part_of
from .rows import (  # noqa: F401 - recorders get the others with these functions
    PARAMETER,
    parameters_alone,
    sequence_of,
)
from .running_statistics import (  # noqa: F401 - recorders get them with these functions
    add_statistics,
    change_momentum,
    without_update,
)

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


#: The end of names of functions that a framework computes less precisely.
SINGLE = ", constants in single"

#: The start of the names of leaky ReLUs, which the slope follows.
LEAKY = "leaky ReLU, slope "


def leaky_relu(name: str) -> Function:
    """Return the function with a name that has its slope."""
    slope = float(name.removeprefix(LEAKY).removesuffix(SINGLE))
    slope = _single(slope) if name.endswith(SINGLE) else slope
    return lambda m, x: m.maximum(x, 0.0) + slope * m.minimum(x, 0.0)


#: The root of one half.
_HALF = 0.7071067811865476

FUNCTIONS: dict[str, Function] = {
    "none": lambda m, x: x,
    "ReLU": lambda m, x: m.maximum(x, 0.0),
    "ReLU6": lambda m, x: _clip(m, x, 0.0, 6.0),
    **{
        name: leaky_relu(name)
        for slope in (0.01, 0.1, 0.2, 0.3)
        for name in (f"{LEAKY}{slope}", f"{LEAKY}{slope}{SINGLE}")
    },
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


#: Functions that round a number, which is then one of fewer bits.
ROUNDINGS: dict[str, Function] = {
    "rounded to float16": lambda m, x: m.rounded(x, "float16"),
    "rounded to bfloat16": lambda m, x: m.rounded(x, "bfloat16"),
}


def function_of(name: str) -> Function:
    """Return a function by its name; a leaky ReLU may have any slope."""
    every = {**RESULTS, **FUNCTIONS, **ROUNDINGS}
    return every[name] if name in every else leaky_relu(name)


#: Ways to enlarge an image; of pixels by their centres, if not by their corners.
RESIZED = ("nearest", "linear", "linear, corners aligned")


def repaired(m: Any, value: Any, change: dict[str, Any], live: dict[str, Any]) -> Any:
    """Return a tensor as another model computes it, inside the model.

    Parameters
    ----------
    change
        ``gradient``, which is stopped, and nothing else; ``zeros``, which remain before and after
        each axis of space, around all else; ``parts``, changes whose tensors are put side by side
        on an ``axis``, and nothing else. Or, in this order: ``from``, the tensor that it is
        computed from, by default itself; ``attention``, see `attended`, ``rows``, see
        `sequence_of`, or a ``product``, in the place of that tensor; ``plus``, another tensor,
        times ``factor``; ``constant``, of one example; ``function``, a name of `FUNCTIONS`,
        `RESULTS` or `ROUNDINGS`; ``times``, another tensor after the function ``gate``;
        ``step weights``, with which the steps of each sequence add up; ``pool``, ``max`` or
        ``mean``, over windows of a ``size``, 0 for all of an image, with a ``stride`` and
        ``padding`` before and after, whose zeros are ``counted`` in a mean or not; ``resize``, a
        name of `RESIZED`, by ``times larger``; ``unflatten``, whether the features of images of
        ``sizes``, ``CHW``, have channels ``first`` or ``last``; ``flatten``, likewise of images;
        ``steps``, a name of `STEPS`, by which the steps of a sequence become one; ``order``, a
        permutation of an ``axis``; ``scale`` and ``shift``, or ``scales`` and ``shifts`` of the
        channels on an ``axis``.
    live
        Outputs of layers by name, inputs as ``input|name``, and what belongs to no layer as
        ``parameter|name``, as the model has them.
    """
    if zeros := change.get("zeros"):
        rest = {key: each for key, each in change.items() if key != "zeros"}
        return _padded(m, repaired(m, _padded(m, value, zeros, -1), rest, live), zeros)
    if "gradient" in change:
        return m.stop(value)
    if parts := change.get("parts"):
        return _side_by_side(m, [repaired(m, value, each, live) for each in parts], change["axis"])
    value = _source(m, value, change, live)
    if other := change.get("plus"):
        value = value + change["factor"] * live[other]
    if constant := change.get("constant"):
        value = value + m.like(np.array([constant]), value)
    if name := change.get("function"):
        value = function_of(name)(m, value)
    if other := change.get("times"):
        value = value * function_of(change["gate"])(m, m.expand(live[other], value))
    if weights := change.get("step weights"):
        sums = m.matmul(m.like(np.array(weights)[:, None], value), value)
        value = m.reshape(sums, (value.shape[0], value.shape[2]))
    value = _reshaped(m, value, change)
    if order := change.get("order"):
        value = m.take(value, order, change["axis"])
    if scales := change.get("scales"):
        shape = [1] * len(value.shape)
        shape[change["axis"]] = len(scales)
        factors, summands = (np.reshape(change[key], shape) for key in ("scales", "shifts"))
        return value * m.like(factors, value) + m.like(summands, value)
    return value * change.get("scale", 1) + change.get("shift", 0)


def _source(m: Any, value: Any, change: dict[str, Any], live: dict[str, Any]) -> Any:
    """Return what a tensor is computed from."""
    value = live.get(change.get("from", ""), value)
    if attention := change.get("attention"):
        value = attended(m, attention, live)
    if rows := change.get("rows"):
        value = sequence_of(m, rows, live)
    if product := change.get("product"):
        argument, factor = (part_of(m, live, product[key]) for key in ("argument", "factor"))
        value = function_of(product["function"])(m, argument) * factor
    return value


def _padded(m: Any, value: Any, zeros: list[list[int]], sign: int = 1) -> Any:
    """Return an image with zeros before and after each axis of space; without them if negative."""
    for axis, (before, after) in zip(m.spatial(value), zeros, strict=True):
        size = value.shape[axis]
        matrix = np.eye(size, size + sign * (before + after), sign * before)
        value = m.linear(value, matrix, axis)
    return value


def _reshaped(m: Any, value: Any, change: dict[str, Any]) -> Any:
    """Return a tensor after the changes, in this order, that give it other axes or sizes."""
    if kind := change.get("pool"):
        value = m.pool(value, kind, Windows.of(change))
    if mode := change.get("resize"):
        for axis in m.spatial(value):
            matrix = resizing(mode, value.shape[axis], change["times larger"])
            value = m.linear(value, matrix, axis)
    if layout := change.get("unflatten"):
        value = m.unflatten(value, change["sizes"], layout)
    if layout := change.get("flatten"):
        value = m.flatten(value, layout)
    if reduction := change.get("steps"):
        value = _reduced_steps(m, value, reduction)
    return value


def _reduced_steps(m: Any, value: Any, reduction: str) -> Any:
    """Return sequences, (examples, steps, features), with one step in the place of all."""
    examples, steps, features = value.shape
    if reduction == "the maximum":
        while (count := value.shape[1]) > 1:
            half = (count + 1) // 2
            first = m.take(value, list(range(half)), 1)
            second = m.take(value, list(range(count - half, count)), 1)
            value = m.maximum(first, second)
        return m.reshape(value, (examples, features))
    weights = np.zeros((steps, 1))
    weights[STEPS[reduction]] = 1.0
    count = 1.0 if reduction == "the sum" else weights.sum()
    return m.reshape(m.linear(value, weights / count, 1), (examples, features))


#: How the steps of a sequence may become one, and of which steps it is the mean, maximum or sum.
STEPS: dict[str, slice] = {
    "the first": slice(0, 1),
    "the last": slice(-1, None),
    "the mean": slice(None),
    "the mean without the first": slice(1, None),
    "the maximum": slice(None),
    "the sum": slice(None),
}


def _side_by_side(m: Any, parts: list[Any], axis: int) -> Any:
    """Return tensors side by side, each multiplied by the columns of its places."""
    widths = [part.shape[axis] for part in parts]
    starts = np.cumsum([0, *widths])
    places = np.eye(int(starts[-1]))
    return sum(
        m.linear(part, places[start : start + width], axis)
        for part, start, width in zip(parts, starts, widths, strict=False)
    )


@dataclass(frozen=True)
class Windows:
    """The windows of pooling: zeros before and after each axis are counted in a mean or not."""

    size: int
    stride: int = 0
    padding: tuple[tuple[int, int], ...] = ((0, 0), (0, 0))
    counted: bool = True

    @classmethod
    def of(cls, change: dict[str, Any]) -> Windows:
        """Return the windows of a change."""
        padding = change.get("padding", ((0, 0), (0, 0)))
        stride, counted = change.get("stride", change["size"]), change.get("counted", True)
        return cls(change["size"], stride, tuple(map(tuple, padding)), counted)


def resizing(mode: str, size: int, factor: int) -> Any:
    """Return the matrix by which the pixels of an axis become those of a larger one."""
    pixels = np.arange(size * factor)
    at = {
        "nearest": pixels // factor,
        "linear": (pixels + 0.5) / factor - 0.5,
        "linear, corners aligned": pixels * ((size - 1) / max(size * factor - 1, 1)),
    }
    places = np.clip(at[mode], 0, size - 1)
    left = np.floor(places).astype(int)
    right = np.minimum(left + 1, size - 1)
    matrix = np.zeros((size, size * factor))
    np.add.at(matrix, (left, pixels), 1.0 - (places - left))
    np.add.at(matrix, (right, pixels), places - left)
    return matrix


#: The most digits of a decimal fraction that a program has as a constant.
_DIGITS = 6

#: The largest denominator of known fractions, which may be under roots, over or times pi.
_DENOMINATOR = 256

#: Forms of a number that has a fraction under roots, over or times pi: the fraction, and back.
_FORMS: tuple[tuple[Callable[[float], float], Callable[[float], float]], ...] = (
    (lambda x: x, lambda y: y),
    (lambda x: x * x, sqrt),
    (lambda x: x**4, lambda y: sqrt(sqrt(y))),
    (lambda x: x * x * pi, lambda y: sqrt(y / pi)),
    (lambda x: x * x / pi, lambda y: sqrt(y * pi)),
)


def exact(value: float) -> float:
    """Return the number that is rounded to one in single precision, if it is evident."""
    if not value or not isfinite(value):
        return value
    decimal = str(np.float32(value))
    if len(Decimal(decimal).normalize().as_tuple().digits) <= _DIGITS:
        return float(decimal)
    found = []
    for to_fraction, back in _FORMS:
        fraction = _nearest_fraction(to_fraction(abs(value)))
        number = back(float(fraction))
        if np.float32(number) == np.float32(abs(value)):
            found.append((fraction.numerator + fraction.denominator, number))
    simplest = min(found)[1] if found else abs(value)
    return simplest if value > 0 else -simplest


def _nearest_fraction(value: float) -> Fraction:
    """Return the nearest fraction that has, or whose inverse has, a small denominator."""
    near = Fraction(value).limit_denominator(_DENOMINATOR)
    inverse = Fraction(1.0 / value).limit_denominator(_DENOMINATOR)
    fractions = [near, 1 / inverse] if inverse else [near]
    return min(fractions, key=lambda each: abs(float(each) - value))


def converted(array: Any, dtype: str) -> Any:
    """Return a tensor in another type; one number, or many equal ones, as what it stands for."""
    found = array.astype(dtype)
    is_one_number = array.size and bool(np.all(array == array.flat[0]))
    if dtype == "float64" and array.dtype == np.float32 and is_one_number:
        found[...] = exact(float(array.flat[0]))
    return found

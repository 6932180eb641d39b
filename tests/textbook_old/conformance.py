"""A question for every operation, for NumPy and for the frameworks."""

from __future__ import annotations

from typing import Any

import numpy as np

from horizont.theory.questions import Question

_draw = np.random.default_rng(0).normal


def _ask(name: str, formula: str, **given: Any) -> Question:
    by = tuple(key for key, value in given.items() if np.asarray(value).dtype == np.float64)
    return Question(name, formula, {k: np.asarray(v) for k, v in given.items()}, by=by)


_UNITS = 3
_SEQUENCE = {"x": _draw(size=(2, 4, 5)), "b": _draw(size=_UNITS)}
_SEQUENCE |= {"w": _draw(size=(_UNITS, 5)), "v": _draw(size=(_UNITS, _UNITS))}
_GATED = {"x": _draw(size=(2, 4, 5)), "b": _draw(size=4 * _UNITS)}
_GATED |= {"w": _draw(size=(4 * _UNITS, 5)), "v": _draw(size=(4 * _UNITS, _UNITS))}

#: The last line squares or cubes, so that no two places have the same gradient.
CONFORMANCE = [
    *(
        _ask(f"c-{name}", f"y = {name}(x)\nz = sum(y * y)", x=_draw(size=(3, 4)))
        for name in (
            "sigmoid", "tanh", "relu", "leaky_relu", "elu", "softplus", "exp", "sin", "softmax",
        )
    ),
    _ask("c-log", "y = sum(log(x) / x - x)", x=0.5 + np.abs(_draw(size=(3, 4)))),
    _ask("c-layer", "y = mean(tanh(x @ w + b))", x=_draw(size=(3, 4)), w=_draw(size=(4, 2)),
         b=_draw(size=2)),
    _ask("c-scores", "y = cross_entropy(x, l)", x=_draw(size=(4, 3)), l=np.array([0, 2, 1, 1])),
    _ask("c-convolution", "y = convolution(x, w, stride=2, padding=1)\nz = sum(y * y)",
         x=_draw(size=(2, 3, 6, 6)), w=_draw(size=(4, 3, 3, 3))),
    _ask("c-max", "y = max_pool(x, size=3, stride=2)\nz = sum(y * y)",
         x=_draw(size=(2, 2, 7, 7))),
    _ask("c-average", "y = average_pool(x, size=3, stride=2)\nz = sum(y * y)",
         x=_draw(size=(2, 2, 7, 7))),
    _ask("c-norm", "y = batch_norm(x, g, o, epsilon=0.125)\nz = sum(y * y * y)",
         x=_draw(size=(5, 3)), g=_draw(size=3), o=_draw(size=3)),
    _ask("c-recurrent", "y = recurrent(x, w, v, b)\nz = sum(y * y * y)", **_SEQUENCE),
    _ask("c-lstm", "y = lstm(x, w, v, b)\nz = sum(y * y * y)", **_GATED),
]  # fmt: skip

"""What operators do, in words that hold for every framework.

A framework calls the same computation by its own names (``aten::convolution_backward``,
``Conv2DBackpropFilter``, ``_backward_Convolution``). These classes make them comparable.
"""

from __future__ import annotations

#: Classes whose operators exist in a forward and in a backward form.
TWO_WAY = (
    "convolution",
    "batch norm",
    "pooling",
    "fully connected",
    "activation",
    "recurrent",
    "word table",
    "dropout",
    "element-wise",
    "loss",
)

#: Classes without a direction. `compiled` is what a compiler merged beyond telling apart.
ONE_WAY = ("weight update", "communication", "copy/layout", "compiled", "other")

#: The classes in the order of tables and figures.
OPERATOR_CLASSES = (
    *(name for plain in TWO_WAY for name in (plain, f"{plain} backward")),
    *ONE_WAY,
)

#: What no profiler can place; more than a small share of it would hide something.
OTHER = "other"


def directed(plain: str, phase: str) -> str:
    """Tell the class of an operator that belongs to the backward pass, or does not."""
    return f"{plain} backward" if phase == "backward" and plain in TWO_WAY else plain

"""What operators do, in words that hold for every framework.

A framework calls the same computation by its own names (``aten::convolution_backward``,
``Conv2DBackpropFilter``, ``_backward_Convolution``). These classes make them comparable.
"""

from __future__ import annotations

#: Classes whose operators exist in a forward and in a backward form.
FORWARD_BACKWARD_CLASSES = (
    "convolution",
    "batch norm",
    "pooling",
    "fully connected",
    "activation",
    "recurrent",
    "embedding",
    "dropout",
    "element-wise",
    "loss",
)

#: Classes without a direction. `compiled` is what a compiler merged beyond telling apart.
UNDIRECTED_CLASSES = ("weight update", "communication", "copy/layout", "compiled", "other")

#: The classes in the order of tables and figures.
OPERATOR_CLASSES = (
    *(name for plain in FORWARD_BACKWARD_CLASSES for name in (plain, f"{plain} backward")),
    *UNDIRECTED_CLASSES,
)

#: What no profiler can place; more than a small share of it would hide something.
OTHER_CLASS = "other"


def directed_class(operator_class: str, phase: str) -> str:
    """Tell the class of an operator that belongs to the backward pass, or does not."""
    return (
        f"{operator_class} backward"
        if phase == "backward" and operator_class in FORWARD_BACKWARD_CLASSES
        else operator_class
    )

"""The vocabulary of the tables in a record: phases, kinds of steps, operator classes, columns.

A framework names the same computation in its own way (``aten::convolution_backward``,
``Conv2DBackpropFilter``, ``_backward_Convolution``). The operator classes make them comparable.
"""

from __future__ import annotations

#: The phases of a training step, in order; the rest of a step is "other".
PHASES = ("load", "forward", "backward", "waiting", "communication", "update")

#: The kinds of steps, in the order in which a worker runs them.
STEP_KINDS = ("warmup", "timed", "instrumented", "profiled")

#: The phases of a process's start-up, in order: the events that end them.
STARTUP_PHASES = ("interpreter", "framework", "data", "network", "input_batches", "first_step")

#: Columns of ``steps.parquet``. ``start_s`` and ``gradients_ready_s`` are times of the monotonic
#: clock, the others durations; NaN where a phase was not measured.
STEP_COLUMNS = (
    "step",
    "worker",
    "kind",
    "examples",
    "start_s",
    "step_s",
    *(f"{phase}_s" for phase in PHASES),
    "loss",
    "gradients_ready_s",
)

#: Columns of ``updates.parquet``, a row per update that a server applied, in their order.
#: ``sequence`` numbers the updates of a server; ``part`` is the tensor or slice of the weights;
#: ``worker`` and ``step`` name the gradient; ``version`` counts the updates of the part that the
#: worker's weights included, ``staleness`` those applied since.
UPDATE_COLUMNS = ("server", "sequence", "part", "worker", "step", "version", "staleness")

#: Operator classes that have a forward and a backward form.
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

#: Operator classes without a direction. `compiled` holds kernels that a compiler fused from
#: operators of several classes.
UNDIRECTED_CLASSES = ("weight update", "communication", "copy/layout", "compiled", "other")

#: All operator classes in the order of tables and figures.
OPERATOR_CLASSES = (
    *(name for forward in FORWARD_BACKWARD_CLASSES for name in (forward, f"{forward} backward")),
    *UNDIRECTED_CLASSES,
)

#: The class of operators that no rule matches; a large fraction of it would hide something.
OTHER_CLASS = "other"


def directed_class(operator_class: str, phase: str) -> str:
    """Return the operator class in a phase: its backward form, if it has one, in ``backward``.

    All operators of an update are one class; "" is a class that no rule matches.
    """
    if phase == "update":
        return "weight update"
    if phase == "backward" and operator_class in FORWARD_BACKWARD_CLASSES:
        return f"{operator_class} backward"
    return operator_class or OTHER_CLASS

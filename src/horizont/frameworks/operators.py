"""What the profilers of all frameworks are brought to: operations, and a table of them."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

#: The phases that a step must have, for a profile to be understood.
REQUIRED_PHASES = ("forward", "backward", "update")

#: Kinds of layers to classes of operators; see `horizont.records.schema`.
LAYER_CLASSES = {
    "Conv": "convolution",
    "Dense": "fully connected",
    "BatchNorm": "batch norm",
    "MaxPool": "pooling",
    "GlobalAveragePool": "pooling",
    "Activation": "activation",
    "Dropout": "dropout",
    "Embedding": "embedding",
    "LSTM": "recurrent",
    "Add": "element-wise",
    "Concat": "copy/layout",
    "Flatten": "copy/layout",
}


@dataclass(frozen=True)
class OperatorCall:
    """One call of an operator, as a profiler saw it.

    Attributes
    ----------
    name
        The framework's own name of the operator.
    operator_class
        One of `horizont.config.OPERATOR_CLASSES`.
    phase
        ``forward``, ``backward`` or ``update``.
    start_s, span_s
        When it began, on the profiler's clock, and how long it took with all that it called.
    self_s
        How long it took itself.
    node
        Where in the graph it stands, if the framework tells.
    shapes
        Of its inputs, if the framework tells.
    """

    name: str
    operator_class: str
    phase: str
    start_s: float
    total_s: float
    self_s: float
    thread: int = 0
    node: str = ""
    shapes: str = ""


class ProfileError(RuntimeError):
    """A profiler gave nothing, or nothing that tells where a step's time goes."""


def check_profile(calls: Sequence[OperatorCall]) -> None:
    """Refuse a profile that is empty or lacks a whole phase: it would show as a table of zeros.

    Operators that a compiler merged have no phase of their own.

    Raises
    ------
    ProfileNotUnderstood
        With what is missing.
    """
    if not calls:
        raise ProfileError("the profiler saw no operator")
    found = {operation.phase for operation in calls if operation.self_s > 0}
    merged = any(operation.operator_class == "compiled" for operation in calls)
    missing = [phase for phase in REQUIRED_PHASES if phase not in found]
    if missing and not merged:
        raise ProfileError(f"the profile has no operator of: {', '.join(missing)}")


def name_classifier(table: Sequence[tuple[str, str]]) -> Callable[[str], str]:
    """Make what tells the class of an operator by its name.

    Parameters
    ----------
    table
        Patterns and classes. The first pattern that is found in a name decides.

    Returns
    -------
    callable
        From a name to its class; nothing if no pattern fits.
    """
    compiled = [(re.compile(pattern), plain) for pattern, plain in table]

    def class_by_name(name: str) -> str:
        return next((plain for pattern, plain in compiled if pattern.search(name)), "")

    return class_by_name


def self_times(starts: Sequence[float], ends: Sequence[float]) -> list[float]:
    """Tell how long each of nested intervals took without those inside it.

    Parameters
    ----------
    starts, ends
        Of the calls of one thread, in any order.
    """
    order = sorted(range(len(starts)), key=lambda place: (starts[place], -ends[place]))
    own = [end - start for start, end in zip(starts, ends, strict=True)]
    open_calls: list[int] = []
    for place in order:
        while open_calls and ends[open_calls[-1]] <= starts[place]:
            open_calls.pop()
        if open_calls:
            own[open_calls[-1]] -= ends[place] - starts[place]
        open_calls.append(place)
    return own


def operator_table(calls: Sequence[OperatorCall], steps: int, worker: int = 0) -> pa.Table:
    """Sum up the operations: a row for each operator, class, phase, node and shapes.

    Returns
    -------
    pyarrow.Table
        ``worker, operator, operator_class, phase, node, shapes``, and, for one step, ``calls``
        and ``self_s`` in seconds; the most expensive first.
    """
    sums: dict[tuple[str, ...], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for each in calls:
        key = (each.name, each.operator_class, each.phase, each.node, each.shapes)
        sums[key][0] += 1 / steps
        sums[key][1] += each.self_s / steps
    ordered = sorted(sums.items(), key=lambda item: -item[1][1])
    names = ("operator", "operator_class", "phase", "node", "shapes")
    columns: dict[str, Any] = {"worker": np.full(len(ordered), worker, dtype=np.int64)}
    for place, name in enumerate(names):
        columns[name] = pa.array([key[place] for key, _ in ordered], pa.string())
    columns["calls"] = np.array([found[0] for _, found in ordered], dtype=np.float64)
    columns["self_s"] = np.array([found[1] for _, found in ordered], dtype=np.float64)
    return pa.table(columns)


def write_trace(calls: Sequence[OperatorCall], path: Path, metadata: Mapping[str, str]) -> None:
    """Write the operations in the Trace Event Format, which Perfetto and TensorBoard open.

    Parameters
    ----------
    names
        What the trace says about itself: ``process`` is shown beside the operations.
    """
    first_s = min((each.start_s for each in calls), default=0.0)
    head = {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": metadata["process"]}}
    events: list[dict[str, Any]] = [head]
    for each in calls:
        told = {"class": each.operator_class, "node": each.node, "shapes": each.shapes}
        events.append(
            {
                "ph": "X",
                "pid": 1,
                "tid": each.thread,
                "name": each.name,
                "cat": each.phase,
                "ts": round((each.start_s - first_s) * 1e6, 3),
                "dur": round(each.total_s * 1e6, 3),
                "args": {key: value for key, value in told.items() if value},
            }
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"traceEvents": events, "otherData": dict(metadata)})
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(text)

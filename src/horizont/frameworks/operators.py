"""Operator calls, the common form of all profiles, with their table and trace."""

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

from horizont.networks.network import Network

#: The phases that a valid profile has.
REQUIRED_PHASES = ("forward", "backward", "update")

#: Layer types to operator classes, for `layer_classes`; see `horizont.records.schema`.
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
    "Upsample": "copy/layout",
    "Flatten": "copy/layout",
}


#: Classes of layers to which all their operators belong, whatever these are.
LAYER_OWNED_CLASSES = ("recurrent", "batch norm", "embedding", "dropout", "pooling")


@dataclass(frozen=True)
class OperatorCall:
    """One call of an operator in a profile.

    Attributes
    ----------
    name
        The framework's own name of the operator.
    operator_class
        One of `horizont.records.schema.OPERATOR_CLASSES`, with its direction.
    phase
        ``forward``, ``backward`` or ``update``.
    start_s
        By the clock of the profiler.
    total_s, self_s
        Its duration with and without the calls that it made.
    node
        Its node in the graph, or its kernel on a GPU, if the profiler reports it.
    shapes
        Shapes of its inputs, if the profiler reports them.
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
    """A profile is missing, or does not cover the phases of a step."""


def check_profile(calls: Sequence[OperatorCall]) -> None:
    """Check that a profile has operators of all phases; it would otherwise be a table of zeros.

    Operators that a compiler fused have no phase of their own.
    """
    if not calls:
        raise ProfileError("the profile has no operator")
    phases = {call.phase for call in calls if call.self_s > 0}
    is_fused = any(call.operator_class == "compiled" for call in calls)
    missing = [phase for phase in REQUIRED_PHASES if phase not in phases]
    if missing and not is_fused:
        raise ProfileError(f"the profile has no operator of: {', '.join(missing)}")


def name_classifier(table: Sequence[tuple[str, str]]) -> Callable[[str], str]:
    """Return a function from the name of an operator to its class; "" if no pattern matches.

    The first pattern of the table that is found in a name decides.
    """
    compiled = [(re.compile(pattern), operator_class) for pattern, operator_class in table]

    def class_by_name(name: str) -> str:
        matches = (found for pattern, found in compiled if pattern.search(name))
        return next(matches, "")

    return class_by_name


def layer_classes(network: Network) -> dict[str, str]:
    """Return the operator class of each layer, by its name."""
    return {layer.name: LAYER_CLASSES[type(layer).__name__] for layer in network.layers}


def newest_xplane(folder: Path, framework: str) -> Path:
    """Return the newest file of XLA's profiler, with which some frameworks record."""
    files = sorted(folder.rglob("*.xplane.pb"))
    if not files:
        raise ProfileError(f"{framework}'s profiler wrote no file")
    return files[-1]


def self_times(intervals: Sequence[tuple[int, float, float]]) -> list[float]:
    """Return the duration of each interval without the intervals inside it.

    An interval is thread, start and end of a call, in any order; the calls of a thread are nested.
    """
    order = sorted(
        range(len(intervals)), key=lambda index: (*intervals[index][:2], -intervals[index][2])
    )
    durations = [end - start for _, start, end in intervals]
    open_calls: list[int] = []
    for index in order:
        thread, start, end = intervals[index]
        while open_calls and intervals[open_calls[-1]][::2] <= (thread, start):
            open_calls.pop()  # it ended before this one, or was of another thread
        if open_calls:
            durations[open_calls[-1]] -= end - start
        open_calls.append(index)
    return durations


def operator_table(calls: Sequence[OperatorCall], steps: int, worker: int = 0) -> pa.Table:
    """Return one row per operator, class, phase, node and shapes.

    Returns
    -------
    pyarrow.Table
        ``worker, operator, operator_class, phase, node, shapes``, and per step ``calls`` and
        ``self_s`` in seconds; the most expensive first.
    """
    sums: dict[tuple[str, ...], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for call in calls:
        key = (call.name, call.operator_class, call.phase, call.node, call.shapes)
        sums[key][0] += 1 / steps
        sums[key][1] += call.self_s / steps
    ordered = sorted(sums.items(), key=lambda item: -item[1][1])
    names = ("operator", "operator_class", "phase", "node", "shapes")
    columns: dict[str, Any] = {"worker": np.full(len(ordered), worker, dtype=np.int64)}
    for index, name in enumerate(names):
        columns[name] = pa.array([key[index] for key, _ in ordered], pa.string())
    columns["calls"] = np.array([calls for _, (calls, _) in ordered], dtype=np.float64)
    columns["self_s"] = np.array([self_s for _, (_, self_s) in ordered], dtype=np.float64)
    return pa.table(columns)


def write_trace(calls: Sequence[OperatorCall], path: Path, metadata: Mapping[str, str]) -> None:
    """Write the calls in the Trace Event Format, which Perfetto and TensorBoard open.

    Viewers show the ``process`` of the metadata next to the calls.
    """
    first_s = min((call.start_s for call in calls), default=0.0)
    head = {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": metadata["process"]}}
    events: list[dict[str, Any]] = [head]
    for call in calls:
        details = {"class": call.operator_class, "node": call.node, "shapes": call.shapes}
        events.append(
            {
                "ph": "X",
                "pid": 1,
                "tid": call.thread,
                "name": call.name,
                "cat": call.phase,
                "ts": round((call.start_s - first_s) * 1e6, 3),
                "dur": round(call.total_s * 1e6, 3),
                "args": {key: value for key, value in details.items() if value},
            }
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"traceEvents": events, "otherData": dict(metadata)})
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(text)

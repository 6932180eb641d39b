"""TensorFlow's profiler: events to `OperatorCall`s with operator classes and phases."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from horizont.frameworks.operators import (
    LAYER_OWNED_CLASSES,
    OperatorCall,
    layer_classes,
    name_classifier,
    newest_xplane,
    self_times,
)
from horizont.frameworks.tensorflow.model import GRADIENTS_SCOPE, LOSS_SCOPE, UPDATE_SCOPE
from horizont.networks.network import Network
from horizont.records.schema import directed_class

#: Patterns of operator types and their classes; the first match decides.
CLASSES = (
    (r"Xla|^__inference", "compiled"),
    (r"Collective|Send$|Recv$|RemoteCall", "communication"),
    (r"Conv2D", "convolution"),
    (r"BatchNorm", "batch norm"),
    (r"MaxPool|AvgPool", "pooling"),
    (r"UnsortedSegmentSum", "embedding"),
    (r"MatMul|Einsum", "fully connected"),
    (r"Relu|Tanh|Sigmoid", "activation"),
    (r"Softmax|CrossEntropy|Xent", "loss"),
    (r"Transpose|Reshape|Concat|Slice|Cast|Identity|Pack|Tile|Shape|Pad|Resize", "copy/layout"),
    (r"^_Retval|^_Arg|Const|ReadVariable|Broadcast|ExpandDims|Squeeze", "copy/layout"),
    (r"Gather|Split|Fill|ZerosLike|OnesLike|Range|Size|NoOp|Switch|Merge", "copy/layout"),
    (r"Enter|Exit|NextIteration|LoopCond|TensorList|Stack|While|If$|Call", "copy/layout"),
    (r"Add|Mul|Sub|Div|Neg|Sum|Mean|Prod|Max|Min|Sq|Sqrt|Less|Equal|Select", "element-wise"),
    (r"Reciprocal|Exp|Log|Floor|Greater|Logical|Bias|IsFinite|Assign", "element-wise"),
)

_class_by_type = name_classifier(CLASSES)

#: The prefix of operators that Python calls outside a graph.
_EAGER_PREFIX = "EagerLocalExecute: "

#: Classes of operators whose purpose is that of the layer to which they belong, if any.
_GENERIC_CLASSES = ("copy/layout", "element-wise", "fully connected", "activation", "")

#: The largest number of nodes fused to one operator: a product, its bias and its activation.
_MAX_FUSED_NODES = 3

#: Classes that an operator keeps inside a layer of another class: a product that is fused with the
#: operators after it has the name of the last one.
_OVERRIDING_CLASSES = {
    "element-wise": ("activation", "fully connected"),
    "activation": ("fully connected",),
}


def profile_operators(
    run_steps: Callable[[], None], folder: Path, network: Network, graph: Any
) -> list[OperatorCall]:
    """Run steps under TensorFlow's profiler and return the operator calls.

    TensorBoard's profile page reads the files that the profiler writes to the folder. The graph of
    the steps, if they have one, contains the shapes that the profiler lacks.
    """
    tf.profiler.experimental.start(str(folder))
    try:
        run_steps()
    finally:
        tf.profiler.experimental.stop()
    calls = list(_calls(folder))
    if any(call.node for call in calls):
        # Calls from Python are those of whole graphs: their time is already that of the nodes.
        calls = [call for call in calls if call.node]
        phases = [phase_of(call.node) for call in calls]
    else:
        phases = phases_in_order([call.kind for call in calls])
    kinds = layer_classes(network)
    nodes = {node.name: node for node in graph.get_operations()} if graph is not None else {}
    return [
        OperatorCall(
            name=call.kind,
            operator_class=directed_class(class_of(call.node, call.kind, kinds), phase),
            phase=phase,
            start_s=call.start_s,
            total_s=call.total_s,
            self_s=call.self_s,
            thread=call.thread,
            node=call.node,
            shapes=shapes_of(nodes.get(call.node), call.kind),
        )
        for call, phase in zip(calls, phases, strict=True)
    ]


def shapes_of(node: Any, kind: str) -> str:
    """Return the shapes of the inputs of an operator that ran as `node`; "" if unknown.

    A fused operator has the name of its last node, and its type contains that of its first: `Tanh`
    of `_FusedConv2D`. The batch size, which a graph does not fix, is a question mark.
    """
    for _ in range(_MAX_FUSED_NODES):
        if node is not None and node.type in kind:
            shapes = [tensor.shape for tensor in node.inputs]
            sizes = [[None] if shape.rank is None else shape.as_list() for shape in shapes]
            return str(sizes).replace("None", "?") if sizes else ""
        node = node.inputs[0].op if node is not None and node.inputs else None
    return ""


class Call(NamedTuple):
    """A call of an operator: by the executor of a graph, with its node, or from Python."""

    start_s: float
    total_s: float
    self_s: float
    thread: int
    node: str
    kind: str


def _calls(folder: Path) -> Iterator[Call]:
    """Read the calls of all threads, each thread in order of time."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    space.ParseFromString(newest_xplane(folder, "TensorFlow").read_bytes())
    for plane in space.planes:
        if plane.name == "/host:CPU":
            yield from _plane_calls(plane)


def _plane_calls(plane: Any) -> Iterator[Call]:
    names = {key: _split_name(value.name) for key, value in plane.event_metadata.items()}
    timed = [
        (thread, line.timestamp_ns / 1e9 + event.offset_ps / 1e12, event.duration_ps / 1e12, event)
        for thread, line in enumerate(plane.lines)
        for event in sorted(line.events, key=lambda event: event.offset_ps)
        if names[event.metadata_id]
    ]
    selves = self_times([(thread, start, start + total) for thread, start, total, _ in timed])
    for (thread, start, total_s, event), self_s in zip(timed, selves, strict=True):
        node, kind = names[event.metadata_id]
        yield Call(start, total_s, self_s, thread, node, kind)


def _split_name(name: str) -> tuple[str, ...]:
    """Split `node:Type` or `EagerLocalExecute: Type`; return () for other activities."""
    if name.startswith(_EAGER_PREFIX):
        return "", name.removeprefix(_EAGER_PREFIX)
    node, _, kind = name.rpartition(":")
    return (node, kind) if node and kind and "::" not in name and " " not in name else ()


def phases_in_order(kinds: Iterable[str]) -> list[str]:
    """Return the phases of operators that were called one after the other, without a graph.

    Forward until the first operator of a gradient, backward until the first assignment after it.
    Running statistics and recurrent states are assigned in the forward pass.
    """
    phase, phases = "forward", []
    for kind in kinds:
        if re.search(r"Backprop|Grad", kind):
            phase = "backward"
        elif phase == "backward" and kind.startswith(("Assign", "ResourceApply")):
            phase = "update"
        elif phase == "update" and re.search(r"Conv2D|MatMul|Gather", kind):
            phase = "forward"
        phases.append(phase)
    return phases


def phase_of(node: str) -> str:
    """Return the phase of an operator by its path in the graph."""
    parts = _path_parts(node)
    if UPDATE_SCOPE in parts:
        return "update"
    return "backward" if "gradient_tape" in parts or GRADIENTS_SCOPE in parts else "forward"


def class_of(node: str, kind: str, kinds: Mapping[str, str]) -> str:
    """Return the class of an operator by its path in the graph, and its type.

    Keras names a part of the path after the layer; `kinds` has the classes of the layers by name.
    """
    parts = _path_parts(node)
    by_type = _class_by_type(kind)
    layer = next((kinds[part] for part in parts if part in kinds), "")
    overrides = by_type == "copy/layout" or by_type in _OVERRIDING_CLASSES.get(layer, ())
    if layer in LAYER_OWNED_CLASSES or (layer and by_type in _GENERIC_CLASSES and not overrides):
        return layer
    if not layer and by_type in ("element-wise", "copy/layout", "") and LOSS_SCOPE in parts:
        return "loss"
    return by_type or layer


def _path_parts(node: str) -> list[str]:
    """Return the parts of a path, and layer names without Keras' suffix: `conv1` of `conv1_1`."""
    parts = [part for part in re.split(r"[/;]", node) if part]
    return [*parts, *(re.sub(r"_\d+$", "", part) for part in parts)]

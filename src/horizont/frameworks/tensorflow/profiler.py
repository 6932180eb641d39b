"""TensorFlow's own profiler, and its names brought to the house's classes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from horizont.frameworks.operators import (
    LAYER_CLASSES,
    OperatorCall,
    ProfileError,
    name_classifier,
    self_times,
)
from horizont.frameworks.tensorflow.model import GRADIENTS_SCOPE, LOSS_SCOPE, UPDATE_SCOPE
from horizont.networks.network import Network
from horizont.records.schema import directed_class

#: What the type of an operator says about the class, the first that fits.
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
    (r"Transpose|Reshape|Concat|Slice|Cast|Identity|Pack|Tile|Shape|Pad", "copy/layout"),
    (r"^_Retval|^_Arg|Const|ReadVariable|Broadcast|ExpandDims|Squeeze", "copy/layout"),
    (r"Gather|Split|Fill|ZerosLike|OnesLike|Range|Size|NoOp|Switch|Merge", "copy/layout"),
    (r"Enter|Exit|NextIteration|LoopCond|TensorList|Stack|While|If$|Call", "copy/layout"),
    (r"Add|Mul|Sub|Div|Neg|Sum|Mean|Prod|Max|Min|Sq|Sqrt|Less|Equal|Select", "element-wise"),
    (r"Reciprocal|Exp|Log|Floor|Greater|Logical|Bias|IsFinite|Assign", "element-wise"),
)

_class_by_type = name_classifier(CLASSES)

#: How the name of an operator begins that Python calls by itself.
_EAGER_PREFIX = "EagerLocalExecute: "

#: What an operator of these classes does is told by the layer that it stands in, if any.
_GENERIC_CLASSES = ("copy/layout", "element-wise", "fully connected", "activation", "")

#: How many nodes at most are one operator: a product, its bias and its activation.
_MAX_FUSED_NODES = 3

#: Of what class an operator may be in a layer of another: a product that is merged with what stands
#: behind it bears the name of the last.
_OVERRIDING_CLASSES = {
    "element-wise": ("activation", "fully connected"),
    "activation": ("fully connected",),
}

#: Layers whose operators belong to them whatever their type.
_LAYER_OWNED_CLASSES = ("recurrent", "batch norm", "embedding", "dropout", "pooling")


def profile_operators(
    run_steps: Callable[[], None], folder: Path, network: Network, graph: Any
) -> list[OperatorCall]:
    """Watch what TensorFlow's operators do while some work is done.

    Parameters
    ----------
    folder
        For the profiler's own files, which TensorBoard's profile page reads: they stay.
    graph
        Of what the work calls, which knows shapes; the profiler does not. None if there is none.
    """
    tf.profiler.experimental.start(str(folder))
    try:
        run_steps()
    finally:
        tf.profiler.experimental.stop()
    calls = list(_calls(folder))
    if any(call.node for call in calls):
        # Calls from Python are those of whole graphs: their time is that of the nodes.
        calls = [call for call in calls if call.node]
        phases = [phase_of(call.node) for call in calls]
    else:
        phases = phases_in_order([call.kind for call in calls])
    kinds = {layer.name: LAYER_CLASSES[type(layer).__name__] for layer in network.layers}
    nodes = {node.name: node for node in graph.get_operations()} if graph is not None else {}
    return [
        _operator_call(call, phase, kinds, shapes_of(nodes.get(call.node), call.kind))
        for call, phase in zip(calls, phases, strict=True)
    ]


def shapes_of(node: Any, kind: str) -> str:
    """Tell the shapes of the inputs of what ran under the name of a node; nothing if not known.

    A merged operator bears the name of its last node, and its type holds that of its first: `Tanh`
    of `_FusedConv2D`. The size of the batch, which a graph leaves open, is written as a question
    mark.
    """
    for _ in range(_MAX_FUSED_NODES):
        if node is not None and node.type in kind:
            shapes = [each.shape for each in node.inputs]
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
    """Read the calls of all threads, each thread in the order of time."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    files = sorted(folder.rglob("*.xplane.pb"))
    if not files:
        raise ProfileError("TensorFlow's profiler left no file")
    space = xplane_pb2.XSpace()
    space.ParseFromString(files[-1].read_bytes())
    for plane in space.planes:
        if plane.name == "/host:CPU":
            for thread, line in enumerate(plane.lines):
                yield from _line_calls(plane, line, thread)


def _line_calls(plane: Any, line: Any, thread: int) -> Iterator[Call]:
    named = {key: _split_name(value.name) for key, value in plane.event_metadata.items()}
    events = [event for event in line.events if named[event.metadata_id]]
    events.sort(key=lambda event: event.offset_ps)
    starts = [line.timestamp_ns / 1e9 + event.offset_ps / 1e12 for event in events]
    spans = [event.duration_ps / 1e12 for event in events]
    own = self_times(starts, [a + b for a, b in zip(starts, spans, strict=True)])
    for event, start, span, self_s in zip(events, starts, spans, own, strict=True):
        node, kind = named[event.metadata_id]
        yield Call(start, span, self_s, thread, node, kind)


def _split_name(name: str) -> tuple[str, ...]:
    """Take `node:Type` or `EagerLocalExecute: Type` apart; nothing for any other activity."""
    if name.startswith(_EAGER_PREFIX):
        return "", name.removeprefix(_EAGER_PREFIX)
    node, _, kind = name.rpartition(":")
    return (node, kind) if node and kind and "::" not in name and " " not in name else ()


def _operator_call(call: Call, phase: str, kinds: Mapping[str, str], shapes: str) -> OperatorCall:
    return OperatorCall(
        name=call.kind,
        operator_class=directed_class(class_of(call.node, call.kind, kinds, phase), phase),
        phase=phase,
        start_s=call.start_s,
        total_s=call.total_s,
        self_s=call.self_s,
        thread=call.thread,
        node=call.node,
        shapes=shapes,
    )


def phases_in_order(kinds: Iterable[str]) -> list[str]:
    """Tell the phases of operators that were called one after the other, without a graph.

    Forward until the first operator for a gradient, backward until the first assignment. Tracked
    statistics and carried states are assigned on the way forward.
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
    """Tell the phase of an operator by where it stands in the graph."""
    parts = _path_parts(node)
    if UPDATE_SCOPE in parts:
        return "update"
    return "backward" if "gradient_tape" in parts or GRADIENTS_SCOPE in parts else "forward"


def class_of(node: str, kind: str, kinds: Mapping[str, str], phase: str) -> str:
    """Name the class of an operator.

    Parameters
    ----------
    node
        Its path in the graph; Keras names a part of it after the layer.
    kind
        Its type.
    kinds
        Classes by the name of a layer.
    """
    parts = _path_parts(node)
    if phase == "update":
        return "weight update"
    by_type = _class_by_type(kind)
    layer = next((kinds[part] for part in parts if part in kinds), "")
    keeps = by_type == "copy/layout" or by_type in _OVERRIDING_CLASSES.get(layer, ())
    if layer in _LAYER_OWNED_CLASSES or (layer and by_type in _GENERIC_CLASSES and not keeps):
        return layer
    if not layer and by_type in ("element-wise", "copy/layout", "") and LOSS_SCOPE in parts:
        return "loss"
    return by_type or layer or "other"


def _path_parts(node: str) -> list[str]:
    """Take a path apart; `conv1_1` stands for the layer `conv1`."""
    parts = [part for part in re.split(r"[/;]", node) if part]
    return [*parts, *(re.sub(r"_\d+$", "", part) for part in parts)]

"""PyTorch's profiler: events to `OperatorCall`s with operator classes and phases."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch.profiler import ProfilerActivity, profile

from horizont.config.framework import Device
from horizont.frameworks.operators import OperatorCall, name_classifier
from horizont.records.schema import OTHER_CLASS, directed_class

#: Patterns of names and their classes; the first match decides. A call that matches none has the
#: class of its caller.
CLASSES = (
    (r"CompiledFunction|Torch-Compiled|CompiledFxGraph|cpp_fused|TorchDynamo", "compiled"),
    (r"^(gloo|c10d|nccl)|record_param_comms|DistributedDataParallel", "communication"),
    (r"^Optimizer\.", "weight update"),
    (r"lstm|mkldnn_rnn|Lstm|MkldnnRnn", "recurrent"),
    (r"embedding|Embedding", "embedding"),
    (r"convolution|conv2d|Convolution", "convolution"),
    (r"batch_norm|BatchNorm|lerp", "batch norm"),
    (r"pool2d|Pool2D|adaptive_avg|AdaptiveAvg|MeanBackward", "pooling"),
    (r"dropout|Dropout|bernoulli", "dropout"),
    (r"cross_entropy|nll_loss|log_softmax|NllLoss|LogSoftmax", "loss"),
    (r"addmm|Addmm|linear|Linear|matmul|::mm$|MmBackward|::bmm", "fully connected"),
    (r"relu|Relu|threshold|clamp_min|tanh|Tanh|sigmoid|Sigmoid", "activation"),
    (
        r"::cat$|CatBackward|copy_|_to_copy|clone|contiguous|permute|flatten|squeeze|[Uu]psample",
        "copy/layout",
    ),
    (r"view|View|reshape|Reshape|transpose|::t$|TBackward|detach", "copy/layout"),
    (r"AccumulateGrad|::split|::select|::slice|Unsafe|Unbind|Squeeze", "copy/layout"),
    (r"aten::(empty|zero|fill|resize|as_strided|expand|unbind|stack|ones)", "copy/layout"),
    (r"AddBackward|aten::(add|mul|div|sum|mean|sub)|MulBackward|DivBack", "element-wise"),
)

_class_by_name = name_classifier(CLASSES)

#: Classes of helper operators: inside an operator of another class they belong to that class.
_GENERIC_CLASSES = ("copy/layout", "element-wise")


#: The categories, in the file of a trace, of what PyTorch calls, and of what a GPU executes.
_OPERATOR_CATEGORIES = ("cpu_op", "user_annotation")
_KERNEL_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")

#: An event in the file of a trace: name, category, start and duration in microseconds, arguments.
TraceEvent = Mapping[str, Any]


def profile_operators(
    run_steps: Callable[[], None], folder: Path, device: Device = "cpu"
) -> list[OperatorCall]:
    """Run steps under PyTorch's profiler; return the operator calls, on a GPU their kernels."""
    activities = [ProfilerActivity.CPU]
    activities += [ProfilerActivity.CUDA] if device == "cuda" else []
    with profile(activities=activities, record_shapes=True) as profiler:
        run_steps()
    events: list[Any] = list(profiler.events() or [])
    events.sort(key=lambda event: event.time_range.start)
    if device == "cpu":
        return operator_calls(events)
    file = folder / "kineto.json"
    profiler.export_chrome_trace(str(file))
    trace = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    file.unlink()  # Horizont writes a trace of its own
    return kernel_calls(events, trace)


def kernel_calls(events: Sequence[Any], trace: Iterable[TraceEvent]) -> list[OperatorCall]:
    """Return the kernels, copies and fills of a GPU, each as a call of the operator that queued it.

    Unlike the events, their trace names the operator of a kernel in every version of PyTorch. The
    time between two kernels, in which the GPU waits for the program, belongs to none.
    """
    trace = [event for event in trace if "External id" in event.get("args", {})]
    queueing = {
        (event["args"]["External id"], event["name"])
        for event in trace
        if event.get("cat") in _OPERATOR_CATEGORIES
    }
    operators = [event for event in events if (event.id, event.name) in queueing]
    calls = operator_calls(operators)
    call_by_id = {event.id: call for event, call in zip(operators, calls, strict=True)}
    executed = (event for event in trace if event.get("cat") in _KERNEL_CATEGORIES)
    kernels: list[OperatorCall] = []
    for event in sorted(executed, key=lambda event: float(event["ts"])):
        elapsed_s = float(event["dur"]) / 1e6
        phase = kernels[-1].phase if kernels else "forward"  # of one without an operator
        unknown = OperatorCall(event["name"], OTHER_CLASS, phase, 0.0, 0.0, 0.0)
        call = call_by_id.get(event["args"]["External id"], unknown)
        kernels.append(
            replace(
                call,
                node=event["name"],
                start_s=float(event["ts"]) / 1e6,
                total_s=elapsed_s,
                self_s=elapsed_s,
                thread=int(event["args"].get("stream", 0)),
            )
        )
    return kernels


def operator_calls(events: Sequence[Any]) -> list[OperatorCall]:
    """Return a call for each event of the CPU, given in the order of their starts."""
    chains = [[caller.name for caller in _callers(event)] for event in events]
    phases = phases_of(chains)
    forward = {
        event.sequence_nr: chain
        for event, chain, phase in zip(events, chains, phases, strict=True)
        if event.sequence_nr >= 0 and phase == "forward"
    }
    calls = []
    for event, chain, phase in zip(events, chains, phases, strict=True):
        operator_class = class_of(chain)
        forward_chain = forward.get(_sequence_number(event), []) if phase == "backward" else []
        if class_of(forward_chain) == "recurrent":
            operator_class = "recurrent"  # as the whole backward pass of an LSTM
        calls.append(
            OperatorCall(
                name=event.name,
                operator_class=directed_class(operator_class, phase),
                phase=phase,
                start_s=event.time_range.start / 1e6,
                total_s=event.time_range.elapsed_us() / 1e6,
                self_s=event.self_cpu_time_total / 1e6,
                thread=int(event.thread),
                shapes=str(event.input_shapes) if event.input_shapes else "",
            )
        )
    return calls


def _is_backward(name: str) -> bool:
    return "evaluate_function" in name


def _callers(event: Any) -> Iterator[Any]:
    """Yield a call and its callers, from the inside out."""
    while event is not None:
        yield event
        event = event.cpu_parent


def phases_of(chains: Sequence[Sequence[str]]) -> list[str]:
    """Return the phases of calls in order of time, each given with the names of its callers.

    A step begins by zeroing the gradients. The calls of the autograd engine are backward, and what
    follows them, including clipping, belongs to the update.
    """
    phase, phases = "forward", []
    for chain in chains:
        if any(_is_backward(name) for name in chain):
            phase = "backward"
        elif any(name.startswith("Optimizer.zero_grad") for name in chain):
            phase = "forward"
        elif phase == "backward":
            phase = "update"
        phases.append(phase)
    return phases


def _sequence_number(event: Any) -> int:
    """Return the number that a backward call shares with its forward call; -1 without one."""
    numbers = (int(call.sequence_nr) for call in _callers(event) if _is_backward(call.name))
    return next(numbers, -1)


def class_of(chain: list[str]) -> str:
    """Return the class of a call by its own name and those of its callers, from the inside out.

    The nearest name with a class decides, but a copy or a sum inside a known operator belongs to
    that operator.
    """
    classes = [name for name in map(_class_by_name, chain) if name]
    if "recurrent" in classes:
        return "recurrent"
    specific = [name for name in classes if name not in _GENERIC_CLASSES]
    return (specific or classes or [""])[0]

"""PyTorch's own profiler, and its names brought to the house's classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch.profiler import ProfilerActivity, profile

from horizont.frameworks.operators import OperatorCall, name_classifier
from horizont.records.schema import directed_class

#: What a name says about the class, the first that fits; a call without one takes its caller's.
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
    (r"::cat$|CatBackward|copy_|_to_copy|clone|contiguous|permute|flatten|squeeze", "copy/layout"),
    (r"view|View|reshape|Reshape|transpose|::t$|TBackward|detach", "copy/layout"),
    (r"AccumulateGrad|::split|::select|::slice|Unsafe|Unbind|Squeeze", "copy/layout"),
    (r"aten::(empty|zero|fill|resize|as_strided|expand|unbind|stack|ones)", "copy/layout"),
    (r"AddBackward|aten::(add|mul|div|sum|mean|sub)|MulBackward|DivBack", "element-wise"),
)

_class_by_name = name_classifier(CLASSES)

#: Classes that a call does not pass on to what it calls only for its own sake.
_GENERIC_CLASSES = ("copy/layout", "element-wise")


def profile_operators(run_steps: Callable[[], None]) -> list[OperatorCall]:
    """Watch what PyTorch's operators do while some work is done."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        run_steps()
    events: list[Any] = list(profiler.events() or [])
    events.sort(key=lambda event: event.time_range.start)
    chains = [list(_callers(event)) for event in events]
    phases = phases_of(chains)
    forward = {
        event.sequence_nr: chain
        for event, chain, phase in zip(events, chains, phases, strict=True)
        if event.sequence_nr >= 0 and phase == "forward"
    }
    return [
        _operator_call(event, chain, phase, forward)
        for event, chain, phase in zip(events, chains, phases, strict=True)
    ]


def _is_backward(name: str) -> bool:
    return "evaluate_function" in name


def _callers(event: Any) -> Iterator[str]:
    """List the names of a call and of those that it came from, from the inside out."""
    while event is not None:
        yield event.name
        event = event.cpu_parent


def phases_of(chains: Sequence[Sequence[str]]) -> list[str]:
    """Tell the phases of calls in the order of time, each with the names of its callers.

    A step begins by forgetting the gradients. The engine's calls are backward, and what follows
    them, clipping among it, belongs to the update.
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


def _operator_call(
    event: Any, chain: list[str], phase: str, forward: dict[int, Any]
) -> OperatorCall:
    return OperatorCall(
        name=event.name,
        operator_class=directed_class(_operator_class(event, chain, phase, forward), phase),
        phase=phase,
        start_s=event.time_range.start / 1e6,
        total_s=event.time_range.elapsed_us() / 1e6,
        self_s=event.self_cpu_time_total / 1e6,
        thread=int(event.thread),
        shapes=str(event.input_shapes) if event.input_shapes else "",
    )


def _operator_class(event: Any, chain: list[str], phase: str, forward: dict[int, Any]) -> str:
    """Find the class of a call: what updates updates, and what undoes an LSTM belongs to it."""
    if phase == "update":
        return "weight update"
    if phase == "backward" and class_of(forward.get(_sequence_number(event), [])) == "recurrent":
        return "recurrent"
    return class_of(chain)


def _sequence_number(event: Any) -> int:
    """Tell the number that a backward call shares with the forward call it undoes."""
    while event is not None:
        if _is_backward(event.name):
            return int(event.sequence_nr)
        event = event.cpu_parent
    return -1


def class_of(chain: list[str]) -> str:
    """Name the class of a call by its own name and those of its callers, from the inside out.

    The nearest name that says something decides, but a copy or a sum inside a known operator
    belongs to that operator.
    """
    found = [plain for plain in map(_class_by_name, chain) if plain]
    if "recurrent" in found:
        return "recurrent"
    firm = [plain for plain in found if plain not in _GENERIC_CLASSES]
    return (firm or found or ["other"])[0]

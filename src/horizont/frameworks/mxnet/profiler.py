"""MXNet's own profiler, and its names brought to the house's classes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import mxnet as mx

from horizont.frameworks.mxnet.model import HYBRIDIZE_OPTIONS
from horizont.frameworks.mxnet.train import LocalTrainer
from horizont.frameworks.operators import OperatorCall, ProfileError, name_classifier, self_times
from horizont.records.schema import directed_class

#: Hybridized blocks hand many operators to the engine as one piece, unless told otherwise before
#: they are first called: a profile needs a trainer of its own.
NO_BULKING = {"forward_bulk_size": 0, "backward_bulk_size": 0}

#: Activities of the engine itself, which wait or count and compute nothing.
_ENGINE_ACTIVITIES = frozenset(
    {"WaitForVar", "DeleteVariable", "DeleteOperator", "SetValueNDArray"}
)

#: What a name says about the class, the first that fits.
CLASSES = (
    (r"sgd|adam|_mom_|nag_|multi_all_finite|lamb", "weight update"),
    (r"KVStore|kvstore|Reduce", "communication"),
    (r"CachedOp|bulk", "compiled"),
    (r"RNN|rnn", "recurrent"),
    (r"Embedding", "embedding"),
    (r"Convolution", "convolution"),
    (r"BatchNorm", "batch norm"),
    (r"Pooling", "pooling"),
    (r"Dropout", "dropout"),
    (r"FullyConnected|dot", "fully connected"),
    (r"Activation|relu|tanh|sigmoid|LeakyReLU", "activation"),
    (r"softmax|pick|_mul_scalar|mean|negative|make_loss", "loss"),
    (r"elemwise|^sum|_plus|_Plus|add_n|_grad_add|broadcast_|norm|sqrt|_div|_mul", "element-wise"),
    (r"[Cc]oncat|Flatten|[Rr]eshape|transpose|copy|Copy|slice|Slice|SwapAxis", "copy/layout"),
    (r"zeros|ones|Delete|size_array|expand_dims|squeeze|split|stack|cast", "copy/layout"),
    (r"[Ss]et|Wait|Reorder", "copy/layout"),
)

_class_by_name = name_classifier(CLASSES)

#: How the name of a backward operator begins.
BACKWARD = "_backward_"

#: What clips gradients between the backward pass and the update.
_CLIPPING_OPERATORS = frozenset(
    {"Reshape", "batch_dot", "sum", "_rdiv_scalar", "_minimum_scalar", "broadcast_mul"}
)

#: What stands behind the update in a step: the receipts for the changed weights.
_COMPLETION_OPERATORS = ("size_array",)


def profile_operators(run_steps: Callable[[], None], folder: Path) -> list[OperatorCall]:
    """Watch what MXNet's operators do while some work is done.

    Parameters
    ----------
    folder
        For the profiler's own file.
    """
    raw = folder / "mxnet.json"
    mx.profiler.set_config(
        profile_imperative=True,
        profile_symbolic=True,
        profile_api=False,
        profile_memory=False,
        aggregate_stats=False,
        filename=str(raw),
    )
    mx.profiler.set_state("run")
    run_steps()
    mx.nd.waitall()
    mx.profiler.set_state("stop")
    mx.profiler.dump()
    try:
        events = json.loads(raw.read_text(encoding="utf-8"))["traceEvents"]
    except (OSError, ValueError, KeyError) as error:
        raise ProfileError(f"MXNet's profile cannot be read: {error}") from None
    raw.unlink()
    return operator_calls(events)


def disable_operator_bulking(trainer: LocalTrainer) -> None:
    """Have the operators of a trainer run one by one, and all that are not in blocks."""
    mx.engine.set_bulk_size(0)
    for block in (trainer.net, trainer.loss):
        block.hybridize(**HYBRIDIZE_OPTIONS[trainer.setup.variant], **NO_BULKING)


def operator_calls(events: Iterable[dict[str, Any]]) -> list[OperatorCall]:
    """Bring the begin and end events of the engine's threads to operations, by time."""
    calls = sorted(_calls(events))
    by_thread: dict[int, list[int]] = defaultdict(list)
    for place, (_, _, thread, _) in enumerate(calls):
        by_thread[thread].append(place)
    own = [0.0] * len(calls)
    for places in by_thread.values():
        times = self_times([calls[p][0] for p in places], [calls[p][1] for p in places])
        for place, self_s in zip(places, times, strict=True):
            own[place] = self_s
    phases = phases_of([name for _, _, _, name in calls])
    return [
        OperatorCall(
            name=name,
            operator_class="weight update"
            if phase == "update"
            else directed_class(class_of(name), phase),
            phase=phase,
            start_s=start,
            total_s=end - start,
            self_s=self_s,
            thread=thread,
        )
        for (start, end, thread, name), phase, self_s in zip(calls, phases, own, strict=True)
    ]


def _calls(events: Iterable[dict[str, Any]]) -> Iterable[tuple[float, float, int, str]]:
    """Pair the events: start and end in seconds, thread, name."""
    opened: dict[tuple[int, str], list[float]] = defaultdict(list)
    for event in events:
        if event.get("cat") != "operator" or event["name"] in _ENGINE_ACTIVITIES:
            continue
        thread, name, time_s = int(event["tid"]), str(event["name"]), event["ts"] / 1e6
        if event["ph"] == "B":
            opened[thread, name].append(time_s)
        elif event["ph"] == "E" and opened[thread, name]:
            yield opened[thread, name].pop(), time_s, thread, name


def phases_of(names: Iterable[str]) -> list[str]:
    """Tell the phase of each operator of steps that were made one after the other.

    The engine works in order of what depends on what: forward until the first backward operator
    of one that went forward in this step, backward until the first update. A backward operator
    that depends on nothing may come early and changes nothing.
    """
    phase, phases = "forward", []
    gone_forward: set[str] = set()
    for name in names:
        undone = name.removeprefix(BACKWARD)
        if undone != name:
            phase = "backward" if undone in gone_forward else phase
            phases.append("backward")
            continue
        if class_of(name) == "weight update":
            phase = "update"
        elif phase == "backward" and name in _CLIPPING_OPERATORS:
            phases.append("update")
            continue
        elif phase == "update" and name not in _COMPLETION_OPERATORS:
            phase = "forward"
            gone_forward.clear()
        gone_forward.add(name)
        phases.append(phase)
    return phases


def class_of(name: str) -> str:
    """Name the class of an operator."""
    return _class_by_name(name) or "other"

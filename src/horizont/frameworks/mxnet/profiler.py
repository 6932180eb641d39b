"""MXNet's profiler: events to `OperatorCall`s with operator classes and phases."""

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

#: Hybridized blocks queue many operators as one, unless this is set before their first call: a
#: profile needs a trainer of its own.
NO_BULKING = {"forward_bulk_size": 0, "backward_bulk_size": 0}

#: Activities of the engine itself, which compute nothing.
_ENGINE_ACTIVITIES = frozenset(
    {"WaitForVar", "DeleteVariable", "DeleteOperator", "SetValueNDArray"}
)

#: Patterns of names and their classes; the first match decides.
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
    (
        r"[Cc]oncat|Flatten|[Rr]eshape|transpose|copy|Copy|slice|Slice|SwapAxis|UpSampling",
        "copy/layout",
    ),
    (r"zeros|ones|Delete|size_array|expand_dims|squeeze|split|stack|cast", "copy/layout"),
    (r"[Ss]et|Wait|Reorder", "copy/layout"),
)

_class_by_name = name_classifier(CLASSES)

#: The prefix of backward operators.
BACKWARD = "_backward_"

#: Operators that clip gradients between the backward pass and the update.
_CLIPPING_OPERATORS = frozenset(
    {"Reshape", "batch_dot", "sum", "_rdiv_scalar", "_minimum_scalar", "broadcast_mul"}
)

#: Operators after the update in a step: the completion markers of the updated weights.
_COMPLETION_OPERATORS = ("size_array",)


def profile_operators(run_steps: Callable[[], None], folder: Path) -> list[OperatorCall]:
    """Run steps under MXNet's profiler, which writes to `folder`, and return the operator calls."""
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
    """Make the operators of a trainer run one by one, also those outside blocks."""
    mx.engine.set_bulk_size(0)
    for block in (trainer.net, trainer.loss):
        block.hybridize(**HYBRIDIZE_OPTIONS[trainer.setup.variant], **NO_BULKING)


def operator_calls(events: Iterable[dict[str, Any]]) -> list[OperatorCall]:
    """Convert the begin and end events of the engine's threads to operator calls, by time."""
    calls = sorted(_calls(events))
    selves = self_times([(thread, start, end) for start, end, thread, _ in calls])
    phases = phases_of([name for _, _, _, name in calls])
    return [
        OperatorCall(
            name=name,
            operator_class=directed_class(_class_by_name(name), phase),
            phase=phase,
            start_s=start,
            total_s=end - start,
            self_s=self_s,
            thread=thread,
        )
        for (start, end, thread, name), phase, self_s in zip(calls, phases, selves, strict=True)
    ]


def _calls(events: Iterable[dict[str, Any]]) -> Iterable[tuple[float, float, int, str]]:
    """Yield pairs of events: start and end in seconds, thread, name."""
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
    """Return the phase of each operator of steps that ran one after the other.

    The engine runs operators in order of their dependencies: forward until the first backward
    operator of one that ran forward in this step, backward until the first update. A backward
    operator without dependencies may run early and does not end the forward phase.
    """
    phase, phases = "forward", []
    run_forward: set[str] = set()
    for name in names:
        forward_name = name.removeprefix(BACKWARD)
        if forward_name != name:
            phase = "backward" if forward_name in run_forward else phase
            phases.append("backward")
            continue
        if _class_by_name(name) == "weight update":
            phase = "update"
        elif phase == "backward" and name in _CLIPPING_OPERATORS:
            phases.append("update")
            continue
        elif phase == "update" and name not in _COMPLETION_OPERATORS:
            phase = "forward"
            run_forward.clear()
        run_forward.add(name)
        phases.append(phase)
    return phases

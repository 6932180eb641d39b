"""JAX's profiler: events of compiled programs to `OperatorCall`s.

An event has the name of an instruction of the compiled program. The text of the program says from
which part of the source an instruction comes, as a path of scopes: ``jvp(conv1)`` is the forward
pass of a layer, ``transpose(jvp(conv1))`` its backward pass. The eager variant has a program for
each operator, without a path; its phases are regions of the thread that calls the operators.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax
from jax.profiler import ProfileData

from horizont.config.framework import Device
from horizont.frameworks.base import TrainingSetup
from horizont.frameworks.jax.input import Batch
from horizont.frameworks.jax.train import LOSS_SCOPE, PHASES, UPDATE_SCOPE, LocalTrainer
from horizont.frameworks.operators import (
    LAYER_OWNED_CLASSES,
    OperatorCall,
    ProfileError,
    layer_classes,
    name_classifier,
    newest_xplane,
    self_times,
)
from horizont.records.schema import directed_class

#: Patterns of the names of instructions, or of eager operators, and their classes; the first match
#: decides. A fused instruction is named after the operators in it.
CLASSES = (
    (r"all-reduce|all_reduce|psum", "communication"),
    (r"conv_general|convolution", "convolution"),
    (r"reduce.window|select.and.scatter", "pooling"),
    (r"scan|while", "recurrent"),
    (r"dot|gemm|matmul", "fully connected"),
    (r"softmax|logsumexp|log_", "loss"),
    (r"tanh|relu|logistic|sigmoid", "activation"),
    (r"copy|transpose|bitcast|reshape|pad|concatenate|slice|broadcast|iota", "copy/layout"),
    (r"gather|scatter|take|squeeze|split|convert|rev|constant|tuple", "copy/layout"),
    (r"add|mul|sub|div|neg|max|min|exp|log|sqrt|square|sum|mean|reduce|select", "element-wise"),
    (r"where|compare|eq|lt|gt|ge|le|pow|clip|sign|abs|isfinite|fusion", "element-wise"),
)

_class_by_name = name_classifier(CLASSES)

#: Classes that the name of an instruction decides, wherever it is.
_DECISIVE_CLASSES = ("communication", "convolution")


class ProfiledTrainer(LocalTrainer):
    """A trainer that compiles its step ahead and keeps the program.

    Attributes
    ----------
    compiled_step
        The program of a step; None before the first one, and for the eager variant.
    compiler_options
        Options of XLA for this program.
    """

    compiled_step: Any = None
    compiler_options: ClassVar[dict[str, str]] = {}

    def step(self, batch: Batch) -> jax.Array:
        """Run one training step; all batches are of one size."""
        if self.setup.variant == "eager":
            return super().step(batch)
        self._start_recurrent_state(len(batch[0]))
        if self.compiled_step is None:
            lowered = self.train_program.lower(self.state, batch, self.masks)
            self.compiled_step = lowered.compile(self.compiler_options)
        loss: jax.Array
        self.state, loss = self.compiled_step(self.state, batch, self.masks)
        return loss


class Instruction(NamedTuple):
    """An instruction of a compiled program.

    Attributes
    ----------
    path
        The scopes of the operator from which it was compiled; "" if the compiler added it.
    size
        The shape of its result; empty for a tuple.
    operands
        The instructions that it reads.
    """

    path: str
    size: list[int]
    operands: list[str]


_INSTRUCTION = re.compile(
    r"^\s*(?:ROOT )?%(?P<name>[\w.\-]+) = (?P<result>.*?) [\w\-]+\((?P<in>.*?)\)"
)
_PATH = re.compile(r'op_name="([^"]*/[^"]*)"')


def read_program(text: str) -> dict[str, Instruction]:
    """Read the instructions of a compiled program, all with a path.

    One without a path, which the compiler added or rewrote, has that of the nearest instruction
    that reads its result, or otherwise of the nearest one that it reads. A gradient is read by the
    update, but belongs to the backward pass.
    """
    program = {}
    for line in text.splitlines():
        if found := _INSTRUCTION.match(line):
            own_path = _PATH.search(line)
            size = re.match(r"\w+\[([\d,]*)\]", found["result"])
            numbers = [int(number) for number in size[1].split(",") if number] if size else []
            operands = re.findall(r"%([\w.\-]+)", found["in"])
            program[found["name"]] = Instruction(own_path[1] if own_path else "", numbers, operands)
    reads = {name: instruction.operands for name, instruction in program.items()}
    read_by: defaultdict[str, list[str]] = defaultdict(list)
    for name, operands in reads.items():
        for operand in operands:
            read_by[operand].append(name)

    def path_of(name: str) -> str:
        path = _nearest_path(name, program, read_by) or _nearest_path(name, program, reads)
        is_copy = _class_by_name(name) == "copy/layout"
        if not program[name].path and phase_of(path) == "update" and not is_copy:
            return _nearest_path(name, program, reads, "backward") or path
        return path

    return {name: each._replace(path=path_of(name)) for name, each in program.items()}


def _nearest_path(
    name: str,
    program: Mapping[str, Instruction],
    neighbours: Mapping[str, list[str]],
    phase: str = "",
) -> str:
    """Return the path of the nearest instruction in one direction, of a phase; "" without one."""
    seen, wave = {name}, [name]
    while wave:
        paths = (program[each].path for each in wave)
        if found := next((path for path in paths if path and phase in ("", phase_of(path))), ""):
            return found
        following = [n for each in wave for n in neighbours[each] if n in program]
        wave = [n for n in dict.fromkeys(following) if n not in seen]
        seen.update(wave)
    return ""


class Event(NamedTuple):
    """A call of an instruction, or a region of a thread that is a phase of eager steps.

    Attributes
    ----------
    kernel
        On a GPU the kernel, or the copy, that the call executed; one call may execute several.
    """

    start_s: float
    total_s: float
    thread: int
    name: str
    module: str
    kernel: str = ""


def profile_operators(
    run_steps: Callable[[], None], folder: Path, setup: TrainingSetup, compiled_step: Any
) -> list[OperatorCall]:
    """Run steps under JAX's profiler and return the operator calls.

    TensorBoard's profile page and XProf read the files that the profiler writes to the folder. The
    steps run the program `compiled_step`; those of the eager variant have none. On a GPU the calls
    are its kernels.
    """
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0  # it would record every call of a Python function
    with jax.profiler.trace(str(folder), profiler_options=options):
        run_steps()
    events = list(_events(folder, setup.device))
    regions = sorted(event for event in events if not event.module)
    calls = sorted(event for event in events if event.module)
    program = read_program(compiled_step.as_text()) if compiled_step is not None else {}
    kinds = layer_classes(setup.network)
    selves = [call.total_s for call in calls]  # a kernel calls none; two may overlap
    if setup.device == "cpu":
        selves = self_times(
            [(call.thread, call.start_s, call.start_s + call.total_s) for call in calls]
        )
    return [
        _operator_call(call, self_s, program, kinds, regions)
        for call, self_s in zip(calls, selves, strict=True)
    ]


def _events(folder: Path, device: Device) -> Iterator[Event]:
    """Read the events of all threads, or streams of a GPU, that are instructions or phases."""
    file = str(newest_xplane(folder, "JAX"))
    try:
        planes = list(ProfileData.from_file(file).planes)
        lines = [line for plane in planes for line in plane.lines if _is_read(plane, line, device)]
    except (RuntimeError, ValueError) as error:
        raise ProfileError(f"JAX's profile cannot be read: {error}") from error
    for thread, line in enumerate(lines):
        for event in line.events:
            stats = {name: value for name, value in event.stats if name in ("hlo_op", "hlo_module")}
            if stats or event.name in PHASES:
                yield Event(
                    event.start_ns / 1e9,
                    event.duration_ns / 1e9,
                    thread,
                    str(stats.get("hlo_op", event.name)),
                    str(stats.get("hlo_module", "")),
                    "" if device == "cpu" else event.name,
                )


def _is_read(plane: Any, line: Any, device: Device) -> bool:
    """Whether a line has the events of a device: on a GPU only those of its streams."""
    if device == "cpu":
        return True
    return plane.name.startswith("/device:GPU") and line.name.startswith("Stream")


def _operator_call(
    call: Event,
    self_s: float,
    program: Mapping[str, Instruction],
    kinds: Mapping[str, str],
    regions: list[Event],
) -> OperatorCall:
    instruction = program.get(call.name)
    path = instruction.path if instruction else ""
    if program:
        name, phase = re.sub(r"\.\d+$", "", call.name), phase_of(path)
    else:
        name, path = call.module.removeprefix("jit_"), call.name
        started = [region.name for region in regions if region.start_s <= call.start_s]
        phase = started[-1] if started else PHASES[0]
    sizes = [program[n].size for n in instruction.operands if n in program] if instruction else []
    return OperatorCall(
        name=name,
        operator_class=directed_class(class_of(path if program else "", name, kinds), phase),
        phase=phase,
        start_s=call.start_s,
        total_s=call.total_s,
        self_s=self_s,
        thread=call.thread,
        node=call.kernel or path,
        shapes=str(sizes) if any(sizes) else "",
    )


def phase_of(path: str) -> str:
    """Return the phase of an instruction by its path."""
    if UPDATE_SCOPE in _path_parts(path):
        return "update"
    return "backward" if "transpose(" in path else "forward"


def class_of(path: str, name: str, kinds: Mapping[str, str]) -> str:
    """Return the class of an instruction by its path and its name, after the operators in it.

    A part of the path is the name of the layer; `kinds` has the classes of the layers by name.
    """
    parts = _path_parts(path)
    by_name = _class_by_name(name)
    layer = next((kinds[part] for part in parts if part in kinds), "")
    if by_name in _DECISIVE_CLASSES:
        return by_name
    if layer and (layer in LAYER_OWNED_CLASSES or by_name != "copy/layout"):
        return layer
    return LOSS_SCOPE if LOSS_SCOPE in parts else by_name or layer


def _path_parts(path: str) -> list[str]:
    """Split a path at its scopes and transformations."""
    return [part for part in re.split(r"[/()]", path) if part]

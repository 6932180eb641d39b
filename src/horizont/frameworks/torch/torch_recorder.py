"""The recorder of PyTorch: builds a model, and records its layers, gradients and one update.

It imports nothing of Horizont, and runs wherever PyTorch does.
"""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from . import torch_changes as changes
from . import torch_ddp as ddp
from .torch_evaluation import Calls, no_dropout
from .torch_layers import Entry, entries_of, read_weights, tied_layers, to_array, write_weights
from .torch_parts import divided, divisions_of
from .torch_script import script_of_layer, script_of_tensor
from .torch_tensors import checked, direction_of, first_tensor, projected, tensors_in
from .torch_threads import all_threads, limit_threads  # noqa: F401 - the runner calls them
from .torch_training import Loss, Optimizer

#: The class of all layers.
LAYER_CLASS = nn.Module

#: Kinds of layers that can be recorded in parts.
DIVISIBLE = ("dense", "attention")

Arrays = dict[str, np.ndarray[Any, Any]]
_NOTHING: Mapping[str, Any] = {}


def versions() -> dict[str, str]:
    """Return the versions that the results depend on."""
    return {"python": platform.python_version(), "torch": torch.__version__}


def operators(execute: Callable[[], object]) -> list[tuple[str, int, float, float, float]]:
    """Return the calls of operators: name, thread, start, seconds with and without inner calls."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        execute()
    return [
        (
            event.name,
            int(event.thread),
            event.time_range.start / 1e6,
            event.time_range.elapsed_us() / 1e6,
            event.self_cpu_time_total / 1e6,
        )
        for event in profiler.events() or ()
        if event.name.startswith("aten::")
    ]


class Recorder:
    """A model in one floating-point type, and the runs of it."""

    def __init__(
        self,
        build: Callable[..., Any],
        arguments: dict[str, Any],
        batch: np.ndarray[Any, Any],
        dtype: str,
        functions: Any,
        *,
        divisions: dict[str, Any] | None = None,
        group: dict[str, Any] | None = None,
    ) -> None:
        torch.manual_seed(0)
        self.functions = functions
        self.dtype: torch.dtype = getattr(torch, dtype)
        if group:
            ddp.join(**group)
        with ddp.default_type(self.dtype) if group else contextlib.nullcontext():
            made = build(**arguments)
        outer, *others = made if isinstance(made, tuple) else (made,)
        model = checked(ddp.unwrapped(outer))
        #: The floating-point types of the model as it was built.
        self.types = sorted({str(each.dtype).partition(".")[2] for each in model.parameters()})
        given = ", ".join(f"{key}={each!r}" for key, each in arguments.items())
        #: The expression that builds the model.
        self.expression = f"build({given})" + ("[0]" if isinstance(made, tuple) else "")
        optimizers = [each for each in others if hasattr(each, "param_groups")]
        losses = [each for each in others if callable(each) and each not in optimizers]
        used = [*optimizers[:1], *losses[:1]]
        #: Kinds of what the callable also returned, as a schedule of the learning rate.
        self.unused = [type(each).__name__ for each in others if not any(each is u for u in used)]
        self.model = model.to(self.dtype)
        #: What is called in training.
        self.trained = ddp.wrapped(outer, self.model) if group else self.model
        tensor = torch.as_tensor(np.array(batch))
        self.batch = tensor.to(self.dtype) if tensor.is_floating_point() else tensor.long()
        self.divisions = divisions_of(self.model, divisions or {})
        self.entries = self._in_order(entries_of(self.model, self.divisions))
        self.optimizer = Optimizer(optimizers[0], self.entries) if optimizers else None
        self.loss = Loss(losses[0]) if losses else None

    def _in_order(self, entries: list[Entry]) -> list[Entry]:
        """Return the layers in the order of execution, and note the shapes of their inputs."""
        order: dict[str, int] = {}
        self.shapes: dict[str, tuple[Any, Any]] = {}
        hooks = []
        self.calls = Calls(self.model, entries, len(self.batch))
        for entry in entries:

            def hook(_: Any, inputs: Any, name: str = entry.name) -> None:
                self.calls.reach(name)
                order.setdefault(name, len(order))
                if inputs and isinstance(inputs[0], torch.Tensor):
                    self.shapes.setdefault(name, (tuple(inputs[0].shape), None))

            def note(_: Any, __: Any, output: Any, name: str = entry.name) -> None:
                if isinstance(output, torch.Tensor) and self.shapes.get(name, (0, 0))[1] is None:
                    self.shapes[name] = (self.shapes[name][0], tuple(output.shape))

            hooks.append(entry.module.register_forward_pre_hook(hook))
            hooks.append(entry.module.register_forward_hook(note))
        self.model.eval()
        with torch.no_grad(), changes.all_layers(), self.calls, divided(self.divisions):
            self.results = [path for path, _ in tensors_in(self.model(self.batch))]
        for each in hooks:
            each.remove()
        return sorted(entries, key=lambda entry: order.get(entry.name, len(order)))

    def layers(self) -> list[dict[str, Any]]:
        """Describe the layers in the order of execution."""
        in_evaluation = {entry.name: self.calls.settings(entry) for entry in self.entries}
        self.model.train()  # a norm may refuse that
        tied = tied_layers(self.entries)
        return [
            {
                "name": entry.name,
                "kind": entry.kind,
                "layer": entry.module,
                "roles": list(entry.tensors),
                "settings": entry.settings(self.shapes.get(entry.name, (None, None)))
                | {"tied": tied[entry.name]}
                | in_evaluation[entry.name],
                "fixed": changes.FIXED,
            }
            for entry in self.entries
        ]

    def facts(self) -> dict[str, Any]:
        """Return what a comparison leaves out: further results, dropout, types of parameters.

        And which norms multiply by their weight plus one.
        """
        plus_one = [entry.name for entry in self.entries if entry.offset]
        return {
            "results": self.results, "dropout": self.calls.rates, "types": self.types,
            "dropout in evaluation": self.calls.active, "plus one": plus_one,
            "unused": self.unused,
        }  # fmt: skip

    def weights(self) -> Arrays:
        """Return all weights by the name of their layer and their role."""
        return read_weights(self.entries)

    def run(
        self,
        *,
        weights: Arrays,
        feed: Arrays,
        projection: np.ndarray[Any, Any] | None,
        repairs: list[dict[str, Any]],
        training: bool,
        rate: float,
        seed: int,
        others: Mapping[str, Any] = _NOTHING,
    ) -> Arrays:
        """Run the model once, and return what was recorded; all changes are undone."""
        torch.manual_seed(seed)
        write_weights(self.entries, weights)
        recorded: Arrays = {}
        self._feed = feed
        self._live = changes.own_tensors(self.entries, self.functions.PARAMETER)
        self._outputs: dict[str, Any] = {}
        with contextlib.ExitStack() as stack:
            stack.enter_context(changes.all_layers())
            stack.enter_context(changes.Overrides())
            stack.enter_context(divided(self.divisions))
            for undo in no_dropout(self.model):
                stack.callback(undo)
            by_name = {entry.name: entry for entry in self.entries}
            inputs = {r["layer"]: r for r in repairs if r["key"] == "input"}
            for entry in self.entries:  # hooks of an entry run in the order of their registration
                self._hook_input(entry, inputs.get(entry.name), recorded, stack)
            for repair in repairs:
                if repair["key"] not in ("input", "result"):
                    entry = by_name[repair["layer"]]
                    key, value = repair["key"], repair["value"]
                    stack.callback(changes.change(entry, key, value, training))
            for entry in self.entries:
                self._hook_output(entry, recorded, stack)
            self.model.train(training)
            batch = self.batch
            if "batch" in weights:
                batch = torch.as_tensor(weights["batch"]).to(self.dtype)
            with torch.set_grad_enabled(projection is not None):
                called = self.model if projection is None else self.trained
                results = list(tensors_in(called(batch)))
                assert results, "the model returned no floating-point tensor"
                result = results.pop(0)[1]
                for repair in repairs:
                    if repair["key"] == "result":
                        result = self.functions.repaired(
                            changes.Namespace, result, repair["value"], self._live
                        )
                recorded["result"] = to_array(result)
                recorded.update({f"result|{path}": to_array(each) for path, each in results})
                if projection is not None:
                    losses = [projected(result, projection)]
                    losses += [
                        projected(value, others[path]) for path, value in results if path in others
                    ]
                    self._train(sum(losses), rate, recorded)
            if training:
                after = read_weights(self.entries)
                recorded.update({f"after|{name}": value for name, value in after.items()})
        return recorded

    def _train(self, loss: Any, rate: float, recorded: Arrays) -> None:
        """Compute gradients and one update with the optimizer of PyTorch."""
        self.model.zero_grad()
        loss.backward()
        recorded["loss"] = to_array(loss)
        for entry in self.entries:
            for role, value in entry.gradients().items():
                recorded[f"gradient|{entry.name}|{role}"] = value
        for name, tensor in self._outputs.items():
            if tensor.grad is not None:
                recorded[f"outer|{name}"] = to_array(torch.linalg.vector_norm(tensor.grad))
        parameters = [each for each in self.model.parameters() if each.requires_grad]
        torch.optim.SGD(parameters, lr=rate).step()

    def script(self, layer: str, weights: Arrays, value: Any) -> tuple[str, Arrays]:
        """Return code that repeats the output of a layer for a value, or what precedes the layer.

        Without a layer, it repeats the result.
        """
        write_weights(self.entries, weights)
        entry = next((each for each in self.entries if each.name == layer), None)
        if entry is not None and value is not None:
            return script_of_layer(entry, self.model, self.expression, value, len(self.batch))
        return script_of_tensor(entry, self.model, self.expression, self.batch)

    def part(self, name: str, rate: float) -> Callable[[], object]:
        """Return a part of the model as it is: ``evaluation``, ``forward`` or a training ``step``.

        The loss is the mean of the squared result; the update is one of SGD.
        """
        self.model.train(name != "evaluation")
        parameters = [each for each in self.model.parameters() if each.requires_grad]
        optimizer = torch.optim.SGD(parameters, lr=rate) if parameters else None

        def evaluate() -> None:
            with torch.inference_mode():
                self.model(self.batch)

        def forward() -> Any:
            result = first_tensor(self.model(self.batch))
            assert result is not None
            return result.square().mean()

        def step() -> None:
            if optimizer is not None:
                optimizer.zero_grad()
            forward().backward()
            if optimizer is not None:
                optimizer.step()

        return {"evaluation": evaluate, "forward": forward, "step": step}[name]

    def _hook_input(
        self, entry: Entry, repair: dict[str, Any] | None, recorded: Arrays, stack: Any
    ) -> None:
        """Record the input of a layer, repair it and feed another one."""

        def before(_: Any, inputs: Any) -> Any:
            key = f"input|{entry.name}"
            if not inputs or key in recorded or not isinstance(inputs[0], torch.Tensor):
                return None
            value = inputs[0]
            if repair is not None:
                value = self.functions.repaired(
                    changes.Namespace, value, repair["value"], self._live
                )
            axes = entry.axes_of(tuple(value.shape), len(self.batch))
            recorded[key] = to_array(value).transpose(axes)
            value = self._fed(key, value, axes)
            self._live[key] = value
            return (value, *inputs[1:])

        if entry.has_input and not entry.is_container:
            stack.callback(entry.module.register_forward_pre_hook(before).remove)

    def _fed(self, key: str, tensor: Any, axes: tuple[int, ...]) -> Any:
        """Return what a tensor is replaced by; itself if it is not."""
        fed = self._feed.get(key)
        if fed is None or fed.shape != tuple(tensor.shape[axis] for axis in axes):
            return tensor
        return torch.as_tensor(fed.transpose(np.argsort(axes))).to(tensor.dtype)

    def _hook_output(self, entry: Entry, recorded: Arrays, stack: Any) -> None:
        """Record the output of a layer, and feed another one to what follows.

        The output of a layer that contains its activation is what the activation is applied to.
        """
        key = f"output|{entry.name}"

        def pass_on(tensor: Any) -> Any:
            axes = entry.axes_of(tuple(tensor.shape), len(self.batch))
            recorded[key] = to_array(tensor).transpose(axes)
            tensor = self._fed(key, tensor, axes)
            if tensor.requires_grad:
                tensor.retain_grad()
                self._outputs[entry.name] = tensor
            self._live[entry.name] = tensor
            # What follows in place changes a copy, and gradients of this tensor remain right.
            return tensor.clone()

        def before_child(_: Any, inputs: Any) -> Any:
            is_output = key not in recorded and inputs and isinstance(inputs[0], torch.Tensor)
            return (pass_on(inputs[0]), *inputs[1:]) if is_output else None

        def after(_: Any, __: Any, output: Any) -> Any:
            tensor = first_tensor(output)
            if tensor is None or key in recorded:
                return None
            if getattr(entry.module, "bidirectional", False):
                if tensor.ndim < 3:  # packed sequences
                    return None
                is_reverse, axis = entry.part.endswith("_reverse"), 0 if entry.is_steps_first else 1
                half, replaced = direction_of(tensor, axis, is_reverse=is_reverse)
                passed = replaced(pass_on(half))
            else:
                passed = pass_on(tensor)
            if isinstance(output, tuple):
                return (passed, *output[1:])
            return passed if isinstance(output, torch.Tensor) else None

        if entry.has_output and not entry.is_container:
            for child in entry.followers:
                stack.callback(child.register_forward_pre_hook(before_child).remove)
            stack.callback(entry.module.register_forward_hook(after).remove)

"""The recorder of MXNet: builds a Gluon block, and records layers, gradients and one update.

It imports nothing of Horizont, and runs wherever MXNet does.
"""

from __future__ import annotations

import contextlib
import json
import platform
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd

from . import mxnet_changes as changes
from .mxnet_layers import Entry, entries_of, named_blocks, read_weights, write_weights
from .mxnet_training import Loss, Optimizer

#: The class of all layers.
LAYER_CLASS = gluon.Block

Arrays = dict[str, Any]


def versions() -> dict[str, str]:
    """Return the versions that the results depend on."""
    return {"python": platform.python_version(), "mxnet": mx.__version__}


def operators(execute: Callable[[], object]) -> list[tuple[str, int, float, float, float]]:
    """Return what the engine executed, an operator or a bulk of them.

    Each has its name, thread, start, and twice the seconds.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile.json"
        mx.profiler.set_config(
            profile_imperative=True, profile_symbolic=True, profile_api=False,
            profile_memory=False, aggregate_stats=False, filename=str(path),
        )  # fmt: skip
        mx.profiler.set_state("run")
        execute()
        nd.waitall()
        mx.profiler.set_state("stop")
        mx.profiler.dump()
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    starts: dict[tuple[int, str], list[float]] = {}
    found = []
    for event in events:
        if event.get("cat") != "operator":
            continue
        name, key = event["name"], (event["tid"], event["name"])
        if event["ph"] == "B":
            starts.setdefault(key, []).append(event["ts"])
        elif event["ph"] == "E" and starts.get(key):
            start_s = starts[key].pop() / 1e6
            seconds = event["ts"] / 1e6 - start_s
            found.append((name, int(event["tid"]), start_s, seconds, seconds))
    return found


def first_array(value: Any) -> Any:
    """Return the first floating-point array in what a block returned."""
    if isinstance(value, nd.NDArray):
        return value if np.issubdtype(value.dtype, np.floating) else None
    each = value if isinstance(value, (list, tuple)) else ()
    return next((found for found in map(first_array, each) if found is not None), None)


class Recorder:
    """A model in one floating-point type, and the runs of it."""

    def __init__(
        self,
        build: Callable[..., Any],
        arguments: dict[str, Any],
        batch: Any,
        dtype: str,
        functions: Any,
    ) -> None:
        mx.random.seed(0)
        np.random.seed(0)
        self.functions, self.dtype = functions, dtype
        made = build(**arguments)
        self.net, *others = made if isinstance(made, tuple) else (made,)
        trainers = [each for each in others if isinstance(each, gluon.Trainer)]
        losses = [each for each in others if callable(each)]
        if not isinstance(self.net, gluon.Block):
            raise TypeError(f"the callable returned {type(self.net).__name__}, not a Block")
        self.is_hybrid = True
        self._hybridize(False)
        self.net.cast(dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the model has initialized remains
            self.net.initialize()
        self.batch = self._array(batch)
        self.net(self.batch)  # infers what the layers are applied to
        self.entries = self._in_order(entries_of(self.net))
        self.optimizer = Optimizer(trainers[0], self.entries) if trainers else None
        self.loss = Loss(losses[0]) if losses else None

    def _array(self, batch: Any) -> Any:
        is_float = np.issubdtype(batch.dtype, np.floating)
        return nd.array(batch, dtype=self.dtype if is_float else "int32")

    def _hybridize(self, is_hybrid: bool) -> None:
        """Compile all blocks that can be, or none; compiled ones do not call the blocks in them."""
        if self.is_hybrid != is_hybrid:
            self.net.hybridize(is_hybrid)
            self.is_hybrid = is_hybrid

    def _in_order(self, entries: list[Entry]) -> list[Entry]:
        """Return the layers in the order of execution."""
        order: dict[str, int] = {}
        with contextlib.ExitStack() as stack:
            for entry in entries:

                def wrap(call: Any, name: str = entry.name) -> Any:
                    def recording_order(*args: Any, **kwargs: Any) -> Any:
                        order.setdefault(name, len(order))
                        return call(*args, **kwargs)

                    return recording_order

                stack.callback(changes.wrap_forward(entry.block, wrap))
            self.net(self.batch)
        return sorted(entries, key=lambda entry: order.get(entry.name, len(order)))

    def layers(self) -> list[dict[str, Any]]:
        """Describe the layers in the order of execution."""
        return [
            {
                "name": entry.name,
                "kind": entry.kind,
                "layer": entry.block,
                "roles": list(entry.parameters),
                "settings": entry.settings(),
                "fixed": changes.FIXED,
            }
            for entry in self.entries
        ]

    def weights(self) -> Arrays:
        """Return all weights by the name of their layer and their role."""
        return read_weights(self.entries)

    def run(
        self,
        *,
        weights: Arrays,
        feed: Arrays,
        projection: Any,
        repairs: list[dict[str, Any]],
        training: bool,
        rate: float,
        seed: int,
    ) -> Arrays:
        """Run the model once, and return what was recorded; all changes are undone."""
        mx.random.seed(seed)
        self._hybridize(False)
        write_weights(self.entries, weights)
        recorded: Arrays = {}
        self._feed = feed
        self._live: dict[str, Any] = {}
        self._moved: dict[str, Any] = {}
        batch = self._array(weights["batch"]) if "batch" in weights else self.batch
        with contextlib.ExitStack() as stack:
            self._change(repairs, recorded, stack)
            with autograd.record(train_mode=training):
                result = first_array(self.net(batch))
                for repair in repairs:
                    if repair["key"] == "result":
                        result = self.functions.repaired(
                            changes.Namespace, result, repair["value"], self._live
                        )
                # Without a loss, a backward pass still updates running statistics.
                factors = nd.zeros_like(result) if projection is None else self._array(projection)
                loss = (result * factors).sum() / len(result)
            recorded["result"] = result.asnumpy()
            before = {
                entry.name: {**entry.read(), "count": recorded[f"input|{entry.name}"][:, 0].size}
                for entry in self.entries
                if training and entry.kind == "batch norm" and f"input|{entry.name}" in recorded
            }
            if training or projection is not None:
                loss.backward()
            if projection is not None:
                recorded["loss"] = loss.asnumpy().reshape(())
                self._train(rate, recorded)
            if training:
                self._repair_statistics(repairs, before)
            if training:
                after = read_weights(self.entries)
                recorded.update({f"after|{name}": value for name, value in after.items()})
        return recorded

    def _change(self, repairs: list[dict[str, Any]], recorded: Arrays, stack: Any) -> None:
        """Change and record the layers, until a stack of functions that undo it is closed."""
        for undo in changes.no_dropout([block for _, block in named_blocks(self.net)]):
            stack.callback(undo)
        by_name = {entry.name: entry for entry in self.entries}
        inputs = {r["layer"]: r["value"] for r in repairs if r["key"] == "input"}
        for repair in repairs:
            if repair["key"] not in ("input", "result", *changes.OF_STATISTICS):
                entry = by_name[repair["layer"]]
                stack.callback(changes.change(entry, repair["key"], repair["value"]))
        for entry in self.entries:
            if not entry.is_container:
                self._hook(entry, inputs.get(entry.name), recorded, stack)

    def _train(self, rate: float, recorded: Arrays) -> None:
        """Record gradients, and compute one update with the optimizer of MXNet."""
        for entry in self.entries:
            for role, value in entry.gradients().items():
                recorded[f"gradient|{entry.name}|{role}"] = value
        for name, moved in self._moved.items():
            recorded[f"outer|{name}"] = moved.grad.norm().asnumpy().reshape(())
        owned = self.net.collect_params()
        trainer = gluon.Trainer(owned, "sgd", {"learning_rate": rate}, kvstore=None)
        trainer.step(1, ignore_stale_grad=True)

    def _repair_statistics(self, repairs: list[dict[str, Any]], before: Arrays) -> None:
        """Update running statistics with other settings, from what MXNet has updated.

        MXNet rounds the momentum to single precision, and divides by the number of elements.
        """
        for entry in self.entries:
            own = {r["key"]: r["value"] for r in repairs if r["layer"] == entry.name}
            if not own.keys() & set(changes.OF_STATISTICS):
                continue
            rest = float(np.float32(entry.block._kwargs["momentum"]))
            momentum = own.get("momentum", 1.0 - rest)
            count = before[entry.name]["count"] / (before[entry.name]["count"] - 1)
            for role in ("mean", "variance"):
                start = before[entry.name][role]
                batch = (entry.read()[role] - rest * start) / (1.0 - rest)
                if role == "variance" and own.get("variance correction") == 1:
                    batch = batch * count
                entry.write({role: (1.0 - momentum) * start + momentum * batch})

    def part(self, name: str, rate: float) -> Callable[[], object]:
        """Return a part of the model as it is: ``evaluation``, ``forward`` or a training ``step``.

        It is hybridized, if its blocks can be. The loss is the mean of the squared result; the
        update is one of SGD.
        """
        self._hybridize(True)
        trainer = gluon.Trainer(
            self.net.collect_params(), "sgd", {"learning_rate": rate}, kvstore=None
        )

        def forward() -> Any:
            with autograd.record():
                return first_array(self.net(self.batch)).square().mean()

        def step() -> None:
            forward().backward()
            trainer.step(1, ignore_stale_grad=True)
            nd.waitall()

        parts: dict[str, Callable[[], object]] = {
            "evaluation": lambda: first_array(self.net(self.batch)).wait_to_read(),
            "forward": lambda: forward().wait_to_read(),
            "step": step,
        }
        return parts[name]

    def _hook(self, entry: Entry, repair: Any, recorded: Arrays, stack: Any) -> None:
        """Record input and output of a layer, repair its input, and feed other ones.

        The output of a layer with an activation is what the activation is applied to.
        """

        def fed(key: str, value: Any) -> Any:
            other = self._feed.get(key)
            if other is not None and other.shape == value.shape:
                return nd.array(other, dtype=value.dtype)
            return value

        def note(output: Any) -> Any:
            key = f"output|{entry.name}"
            array = first_array(output)
            if array is None or key in recorded:
                return output
            recorded[key] = array.asnumpy()
            array = fed(key, array)
            with autograd.pause():
                moved = nd.zeros_like(array)
                moved.attach_grad()
            self._moved[entry.name] = moved
            array = array + moved  # the gradient with respect to it is that of the output
            self._live[entry.name] = array
            return (array, *output[1:]) if isinstance(output, tuple) else array

        def wrap(call: Any) -> Any:
            def hooked(*args: Any, **kwargs: Any) -> Any:
                key = f"input|{entry.name}"
                if entry.has_input and key not in recorded and isinstance(args[0], nd.NDArray):
                    value = args[0]
                    if repair is not None:
                        value = self.functions.repaired(
                            changes.Namespace, value, repair, self._live
                        )
                    recorded[key] = value.asnumpy()
                    self._live[key] = fed(key, value)
                    args = (self._live[key], *args[1:])
                output = call(*args, **kwargs)
                return note(output) if entry.has_output and activation is None else output

            return hooked

        activation = getattr(entry.block, "act", None)
        if activation is not None:
            around = changes.wrap_forward(activation, lambda call: lambda x: call(note(x)))
            stack.callback(around)
        stack.callback(changes.wrap_forward(entry.block, wrap))

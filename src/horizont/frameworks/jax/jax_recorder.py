"""The recorder of JAX: records the layers of a function, gradients, and one update.

What builds the model returns two functions, ``init(key)`` or ``init(key, batch)``, which returns
the parameters, and ``apply(parameters, batch)``, which returns the result; and, if they are
compared, too, a loss and an optimizer. It imports nothing of Horizont, and runs wherever JAX does.
"""

from __future__ import annotations

import inspect
import platform
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

from .jax_changes import Namespace
from .jax_layers import Constant, Entry, Operation, find_layers, inlined, leaf_names, read_weights
from .jax_training import Loss, Optimizer

jax.config.update("jax_enable_x64", True)
# Each operation is compiled alone, once for every shape.
jax.config.update("jax_disable_most_optimizations", True)

Arrays = dict[str, Any]

#: Results of a dictionary that are before all others, which are in the order of their names.
FIRST = ("['logits']", "['last_hidden_state']")


def versions() -> dict[str, str]:
    """Return the versions that the results depend on."""
    return {"python": platform.python_version(), "jax": jax.__version__}


def operators(execute: Callable[[], object]) -> list[tuple[str, int, float, float, float]]:
    """Return the instructions of the program: kind, thread, start, and twice the seconds."""
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    found = []
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, profiler_options=options):
            execute()
        for path in Path(folder).rglob("*.xplane.pb"):
            planes = jax.profiler.ProfileData.from_file(str(path)).planes
            lines = (line.events for plane in planes for line in plane.lines)
            for thread, event in ((n, each) for n, line in enumerate(lines) for each in line):
                name = dict(event.stats).get("hlo_op")
                if name is not None:
                    kind, seconds = str(name).partition(".")[0], event.duration_ns / 1e9
                    found.append((kind, thread, event.start_ns / 1e9, seconds, seconds))
    return found


def _moved(value: Any, axes: tuple[int, ...] | None) -> Any:
    """Return an array in the canonical layout."""
    return value if axes is None else value.transpose(axes)


def _back(value: Any, axes: tuple[int, ...] | None) -> Any:
    """Return an array in its own layout."""
    return value if axes is None else value.transpose(np.argsort(axes))


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
        self.dtype, self.functions = dtype, functions
        self.parts: dict[str, Any] = {}
        made = build(**arguments)
        if not (isinstance(made, tuple) and len(made) >= 2 and all(map(callable, made[:2]))):
            raise TypeError("the callable has to return two functions, init and apply")
        init, self.apply, *others = made
        self.is_image = batch.ndim == 4
        self.batch = self._own_layout(batch)
        key = jax.random.key(0)
        has_batch = len(inspect.signature(init).parameters) > 1
        parameters = init(key, self.batch) if has_batch else init(key)
        self.parameters = jax.tree.map(self._cast, parameters)
        self.tree = jax.tree.structure(self.parameters)
        trace = jax.make_jaxpr(self.apply, return_shape=True)
        traced, returned = trace(self.parameters, self.batch)
        self.operations, self.inputs, self.outputs = inlined(traced)
        numbers = {
            jax.tree_util.keystr(path): number
            for number, (path, each) in enumerate(jax.tree_util.tree_leaves_with_path(returned))
            if jnp.issubdtype(each.dtype, jnp.floating)
        }
        #: Numbers of the floating-point results by their places in what the model returns.
        self.results = {path: numbers[path] for path in FIRST if path in numbers} | numbers
        self.leaves = leaf_names(self.parameters)
        for name, leaf in self.leaves:
            if jnp.iscomplexobj(leaf):
                raise TypeError(f"{name} has complex numbers, which are not compared")
        self.entries = find_layers(self.operations, self.inputs, self.leaves)
        optimizers = [each for each in others if hasattr(each, "update")]
        losses = [each for each in others if callable(each)]
        self.optimizer = (
            Optimizer(optimizers[0], self.entries, self.parameters) if optimizers else None
        )
        self.loss = Loss(losses[0]) if losses else None

    def _cast(self, value: Any) -> Any:
        value = jnp.asarray(value)
        return value.astype(self.dtype) if jnp.issubdtype(value.dtype, jnp.floating) else value

    def _own_layout(self, batch: Any) -> Any:
        """Return a batch with the layout and type of the model: images with channels last."""
        return self._cast(np.moveaxis(batch, 1, -1) if self.is_image else batch)

    def layers(self) -> list[dict[str, Any]]:
        """Describe the layers in the order of execution."""
        return [
            {
                "name": entry.name,
                "kind": entry.kind,
                "roles": list(entry.leaves),
                "settings": {**entry.settings, "tied": self._tied(entry)},
            }
            for entry in self.entries
        ]

    def _tied(self, entry: Any) -> list[str]:
        """Return the names of other layers that use one of the parameters of a layer."""
        own = {number for number, _ in entry.leaves.values()}
        return sorted(
            each.name
            for each in self.entries
            if each is not entry and own & {number for number, _ in each.leaves.values()}
        )

    def facts(self) -> dict[str, Any]:
        """Return what a comparison may leave out: further results."""
        return {"results": list(self.results)}

    def weights(self) -> Arrays:
        """Return all weights by the name of their layer and their role."""
        return read_weights(self.entries, jax.tree.leaves(self.parameters))

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
        others: Arrays | None = None,
    ) -> Arrays:
        """Run the model once, and return what was recorded."""
        del seed  # a pure function has no state
        leaves = jax.tree.leaves(self.parameters)
        for entry in self.entries:
            for role, (number, axes) in entry.leaves.items():
                if (value := weights.get(f"{entry.name}|{role}")) is not None:
                    leaves[number] = self._cast(_back(value, axes))

        projections = {f"result|{path}": each for path, each in (others or {}).items()}
        projections |= {} if projection is None else {"result": projection}

        def loss_of(values: list[Any], moved: dict[str, Any]) -> tuple[Any, Arrays]:
            recorded: Arrays = {}
            results = self._evaluate(values, moved, feed=feed, repairs=repairs, recorded=recorded)
            recorded.update(results)
            loss = jnp.zeros(())
            for key, factors in projections.items():
                result = results[key]
                own = np.moveaxis(factors, 1, -1) if result.ndim == 4 else factors
                loss = loss + (result * self._cast(own)).sum() / len(result)
            return loss, recorded

        if projection is None:
            recorded = loss_of(leaves, {})[1]
        else:
            _, seen = jax.eval_shape(loss_of, leaves, {})
            moved = {
                key.partition("|")[2]: jnp.zeros(value.shape, value.dtype)
                for key, value in seen.items()
                if key.startswith("output|")
            }
            (loss, recorded), gradients = jax.value_and_grad(loss_of, (0, 1), has_aux=True)(
                leaves, moved
            )
            for key, value in read_weights(self.entries, gradients[0]).items():
                recorded[f"gradient|{key}"] = value
            for name, value in gradients[1].items():
                recorded[f"outer|{name}"] = jnp.linalg.norm(value)
            recorded["loss"] = loss
            leaves = [
                value - rate * each for value, each in zip(leaves, gradients[0], strict=False)
            ]
        for key, value in read_weights(self.entries, leaves).items() if training else ():
            recorded[f"after|{key}"] = value
        for key in [key for key in recorded if key.partition("|")[0] == "result"]:
            if recorded[key].ndim == 4:
                recorded[key] = jnp.moveaxis(recorded[key], -1, 1)
        return {key: np.asarray(value) for key, value in recorded.items()}

    def part(self, name: str, rate: float) -> Callable[[], object]:
        """Return a part of the model as it is: ``evaluation``, ``forward`` or a training ``step``.

        It is compiled. The loss is the mean of the squared result; the update is one of SGD.
        """
        if name not in self.parts:

            def loss(parameters: Any, batch: Any) -> Any:
                return jnp.square(self.apply(parameters, batch)).mean()

            def step(parameters: Any, batch: Any) -> Any:
                gradients = jax.grad(loss, allow_int=True)(parameters, batch)

                def updated(value: Any, gradient: Any) -> Any:
                    is_trained = jnp.issubdtype(value.dtype, jnp.floating)
                    return value - rate * gradient if is_trained else value

                return jax.tree.map(updated, parameters, gradients)

            parts = {"evaluation": self.apply, "forward": loss, "step": step}
            jax.config.update("jax_disable_most_optimizations", False)
            lowered = jax.jit(parts[name]).lower(self.parameters, self.batch)
            self.parts[name] = lowered.compile()
            jax.config.update("jax_disable_most_optimizations", True)
        program = self.parts[name]
        return lambda: jax.block_until_ready(program(self.parameters, self.batch))

    def _evaluate(
        self,
        leaves: list[Any],
        moved: dict[str, Any],
        *,
        feed: Arrays,
        repairs: list[dict[str, Any]],
        recorded: Arrays,
    ) -> Any:
        """Execute the operations one by one; record, change and feed what layers see."""
        values: dict[Any, Any] = dict(zip(self.inputs, [*leaves, self.batch], strict=False))
        starts = {entry.start: entry for entry in self.entries if entry.lhs is not None}
        ends = {entry.end: entry for entry in self.entries if entry.end >= 0}
        live: dict[str, Any] = {}

        def read(operand: Any) -> Any:
            if isinstance(operand, Literal):
                return operand.val
            return operand.value if isinstance(operand, Constant) else values[operand]

        for number, operation in enumerate(self.operations):
            operands = [read(each) for each in operation.operands]
            params: dict[str, Any] = {}
            if entry := starts.get(number):
                self._see_input(
                    entry, operands, feed=feed, repairs=repairs, live=live, recorded=recorded
                )
                params = _changed(entry, repairs)
            results = _execute(operation, operands, params)
            if entry := ends.get(number):
                output = (
                    results[0] + _back(moved[entry.name], entry.output_axes)
                    if moved
                    else results[0]
                )
                canonical = _moved(output, entry.output_axes)
                recorded[f"output|{entry.name}"] = canonical
                other = feed.get(f"output|{entry.name}")
                if other is not None and other.shape == canonical.shape:
                    output = _back(self._cast(other), entry.output_axes)
                live[entry.name] = output
                results = [output, *results[1:]]
            values.update(zip(operation.results, results, strict=False))
        (_, first), *further = self.results.items()
        result = read(self.outputs[first])
        for repair in repairs:
            if repair["key"] == "result":
                result = self.functions.repaired(Namespace, result, repair["value"], live)
        return {"result": result} | {
            f"result|{path}": read(self.outputs[number]) for path, number in further
        }

    def _see_input(
        self,
        entry: Entry,
        operands: list[Any],
        *,
        feed: Arrays,
        repairs: list[dict[str, Any]],
        live: dict[str, Any],
        recorded: Arrays,
    ) -> None:
        """Record the input of a layer, repair it and feed another one."""
        assert entry.lhs is not None
        value = operands[entry.lhs]
        for repair in repairs:
            if (repair["layer"], repair["key"]) == (entry.name, "input"):
                change = dict(repair["value"])
                if change.get("axis") == 1 and entry.input_axes is not None:
                    change["axis"] = entry.input_axes[1]
                value = self.functions.repaired(Namespace, value, change, live)
        canonical = _moved(value, entry.input_axes)
        recorded[f"input|{entry.name}"] = canonical
        other = feed.get(f"input|{entry.name}")
        if other is not None and other.shape == canonical.shape:
            value = _back(self._cast(other), entry.input_axes)
        live[f"input|{entry.name}"] = value
        operands[entry.lhs] = value


def _changed(entry: Entry, repairs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the parameters of a convolution that repairs change."""
    names = {"padding": "padding", "stride": "window_strides", "dilation": "rhs_dilation"}
    return {
        names[repair["key"]]: tuple(
            tuple(each) if isinstance(each, list) else each for each in repair["value"]
        )
        for repair in repairs
        if repair["layer"] == entry.name and repair["key"] in names
    }


def _execute(operation: Operation, operands: list[Any], params: dict[str, Any]) -> list[Any]:
    """Execute one operation."""
    primitive = operation.equation.primitive
    bound = primitive.get_bind_params(operation.equation.params)
    # Until JAX 0.9, functions among the parameters were returned beside them.
    functions, bound = bound if isinstance(bound, tuple) else ((), bound)
    results = primitive.bind(*functions, *operands, **{**bound, **params})
    return list(results) if primitive.multiple_results else [results]

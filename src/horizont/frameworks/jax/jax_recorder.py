"""The recorder of JAX: records the layers of a function, gradients, and one update.

What builds the model returns a module of Flax, or two functions: ``init(key)`` or
``init(key, batch)``, which returns the parameters, and ``apply(parameters, batch)``, which returns
the result; and, if they are compared, too, a loss and an optimizer. It imports nothing of Horizont,
and runs wherever JAX does.
"""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .jax_layers import find_layers
from .jax_models import opened, single_precision_as, without_dropout
from .jax_operations import (
    PARAMETERS,
    STATISTICS,
    Entry,
    Graph,
    inlined,
    leaf_names,
    read_weights,
    weights_of,
)
from .jax_run import Run
from .jax_training import Loss, Optimizer

jax.config.update("jax_enable_x64", True)
# Each operation is compiled alone, once for every shape.
jax.config.update("jax_disable_most_optimizations", True)

Arrays = dict[str, Any]

#: Results of a dictionary that are before all others, which are in the order of their names.
FIRST = ("['logits']", ".logits", "['last_hidden_state']", ".last_hidden_state")

#: Settings that a layer shows and that cannot be changed here.
_FIXED = ("groups", "padding mode", "variance correction", "statistics", "form of a norm")


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


def _traced(function: Any, dtype: str, *values: Any) -> tuple[Graph, Any, list[float]]:
    """Return the operations of a function, shapes of what it returns, and rates of dropout."""
    trace = jax.make_jaxpr(function, return_shape=True)
    try:
        with single_precision_as(dtype), without_dropout() as rates:
            traced, returned = trace(*values)
    except TypeError:  # an operation of a converted tensor and of one made in single precision
        with without_dropout() as rates:
            traced, returned = trace(*values)
    return inlined(traced), returned, rates


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
        self.is_image = batch.ndim == 4
        self.batch = self._own_layout(batch)
        self.model, others = opened(build(**arguments), self.batch)
        self.variables = jax.tree.map(self._cast, self.model.variables)
        self.tree = jax.tree.structure(self.variables)
        named = leaf_names(self.variables)
        for name, leaf in named:
            if jnp.iscomplexobj(leaf):
                raise TypeError(f"{name} has complex numbers, which are not compared")
        #: The rates of dropout, which is disabled.
        graph, returned, self.dropout = _traced(
            self.model.evaluate, dtype, self.variables, self.batch
        )
        self.graphs = [graph, graph]
        #: Variables that training updates by themselves, and their places in the results.
        self.updated: dict[int, int] = {}
        if self.model.train is not None:
            self._trace_training([name for name, _ in named])
        numbers = {
            jax.tree_util.keystr(path): number
            for number, (path, each) in enumerate(jax.tree_util.tree_leaves_with_path(returned))
            if jnp.issubdtype(each.dtype, jnp.floating)
        }
        #: Numbers of the floating-point results by their places in what the model returns.
        self.results = {path: numbers[path] for path in FIRST if path in numbers} | numbers
        self.entries = find_layers(graph, named)
        #: The layers where they are in evaluation and in training.
        self.placed = [self.entries, self._placed_in_training(named)]
        statistics = {
            entry.weights[role].number
            for entry in self.entries
            for role in STATISTICS
            if role in entry.weights
        }
        self.trained = [
            number
            for number, (_, leaf) in enumerate(named)
            if jnp.issubdtype(leaf.dtype, jnp.floating)
            and number not in {*statistics, *self.updated}
        ]
        if self.updated:
            functions.add_statistics(self.entries, self._after_training, functions.exact)
        leaves = jax.tree.leaves(self.variables)
        optimizers = [each for each in others if hasattr(each, "update")]
        losses = [each for each in others if callable(each)]
        self.optimizer = None
        if optimizers:
            tree = jax.tree.unflatten(self.tree, range(len(leaves)))
            own = tree[PARAMETERS] if self.updated and PARAMETERS in tree else tree
            self.optimizer = Optimizer(optimizers[0], self.entries, leaves, own)
        self.loss = Loss(losses[0]) if losses else None

    def _trace_training(self, names: list[str]) -> None:
        graph, (result, updated), _ = _traced(
            self.model.train, self.dtype, self.variables, self.batch
        )
        if any(operation.kind.startswith(("random", "threefry")) for operation in graph.operations):
            raise TypeError("the model draws random numbers in training, other than by dropout")
        before = len(jax.tree.leaves(result))
        places = {name: before + number for number, (name, _) in enumerate(leaf_names(updated))}
        self.updated = {n: places[name] for n, name in enumerate(names) if name in places}
        self.graphs[1] = graph

    def _placed_in_training(self, named: list[tuple[str, Any]]) -> list[Entry]:
        """Return the layers with the operations that they are in training."""
        if self.graphs[0] is self.graphs[1]:
            found = {entry.name: entry for entry in self.entries}
        else:
            found = {entry.name: entry for entry in find_layers(self.graphs[1], named)}
        placed = []
        for entry in self.entries:
            if entry.kind == "batch norm":
                is_running = found[entry.name].kind == "batch norm"
                entry.settings["statistics"] = "running" if is_running else "of the batch"
            placed.append(
                replace(
                    found[entry.name],
                    kind=entry.kind, weights=entry.weights, settings=entry.settings,
                    input_view=entry.input_view, output_view=entry.output_view,
                )
            )  # fmt: skip
        return placed

    def _after_training(self, numbers: set[int], start: float, is_twice: bool) -> dict[int, Any]:
        """Return the variables that a step updates by itself, some with equal elements before."""
        graph, batch = self.graphs[1], self.batch
        if is_twice:
            batch = jnp.concatenate([batch, batch])
            graph, _, _ = _traced(self.model.train, self.dtype, self.variables, batch)
        leaves = [
            jnp.full_like(each, start) if number in numbers else each
            for number, each in enumerate(jax.tree.leaves(self.variables))
        ]
        outputs = Run(graph, [], self.functions, {}, []).evaluate(leaves, batch, {})
        return {number: outputs[place] for number, place in self.updated.items()}

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
                "roles": list(entry.weights),
                "settings": {**entry.settings, "tied": self._tied(entry)},
                "fixed": _FIXED,
            }
            for entry in self.entries
        ]

    def _tied(self, entry: Entry) -> list[str]:
        """Return the names of other layers that use one of the parameters of a layer."""
        own = {weight.number for weight in entry.weights.values()}
        return sorted(
            each.name
            for each in self.entries
            if each is not entry and own & {weight.number for weight in each.weights.values()}
        )

    def facts(self) -> dict[str, Any]:
        """Return what a comparison may leave out: further results, and dropout of Flax."""
        rates = {"dropout": self.dropout} if self.dropout else {}
        return {"results": list(self.results), **rates}

    def weights(self) -> Arrays:
        """Return all weights by the name of their layer and their role."""
        return read_weights(self.entries, jax.tree.leaves(self.variables))

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
        leaves = jax.tree.leaves(self.variables)
        for key, weight in weights_of(self.entries):
            if (value := weights.get(key)) is not None:
                leaves[weight.number] = self._cast(weight.back(value))
        trained = [leaves[number] for number in self.trained]
        projections = {f"result|{path}": each for path, each in (others or {}).items()}
        projections |= {} if projection is None else {"result": projection}

        def loss_of(values: list[Any], moved: Arrays) -> tuple[Any, tuple[Arrays, Any]]:
            own = list(leaves)
            for number, value in zip(self.trained, values, strict=True):
                own[number] = value
            run = Run(self.graphs[training], self.placed[training], self.functions, feed, repairs)
            outputs = run.evaluate(own, self.batch, moved)
            for number, place in self.updated.items() if training else ():
                own[number] = outputs[place]
            results = self._named(outputs, run)
            loss = jnp.zeros(())
            for key, factors in projections.items():
                result = results[key]
                own_layout = np.moveaxis(factors, 1, -1) if result.ndim == 4 else factors
                loss = loss + (result * self._cast(own_layout)).sum() / len(result)
            return loss, ({**run.recorded, **results}, own)

        if projection is None:
            recorded, after = loss_of(trained, {})[1]
        else:
            recorded, after = self._train(loss_of, trained, rate)
        self.functions.change_momentum(self.entries, repairs, leaves, after)
        for key, value in read_weights(self.entries, after).items() if training else ():
            recorded[f"after|{key}"] = value
        for key in [key for key in recorded if key.partition("|")[0] == "result"]:
            if recorded[key].ndim == 4:
                recorded[key] = jnp.moveaxis(recorded[key], -1, 1)
        return {key: np.asarray(value) for key, value in recorded.items()}

    def _named(self, outputs: list[Any], run: Run) -> Arrays:
        """Return the results by their names, the first of them with its repairs."""
        (_, first), *further = self.results.items()
        named = {"result": run.repaired_result(outputs[first])}
        return named | {f"result|{path}": outputs[number] for path, number in further}

    def _train(self, loss_of: Any, trained: list[Any], rate: float) -> tuple[Arrays, list[Any]]:
        """Return what was recorded with its gradients, and the variables after one update."""
        _, (seen, _) = jax.eval_shape(loss_of, trained, {})
        moved = {
            key.partition("|")[2]: jnp.zeros(value.shape, value.dtype)
            for key, value in seen.items()
            if key.startswith("output|")
        }
        (loss, (recorded, after)), (own, outer) = jax.value_and_grad(loss_of, (0, 1), has_aux=True)(
            trained, moved
        )
        gradients: list[Any] = [None] * len(after)
        for number, value, gradient in zip(self.trained, trained, own, strict=True):
            gradients[number], after[number] = gradient, value - rate * gradient
        for key, value in read_weights(self.entries, gradients).items():
            recorded[f"gradient|{key}"] = value
        for name, value in outer.items():
            recorded[f"outer|{name}"] = jnp.linalg.norm(value)
        recorded["loss"] = loss
        return recorded, after

    def part(self, name: str, rate: float) -> Callable[[], object]:
        """Return a part of the model as it is: ``evaluation``, ``forward`` or a training ``step``.

        It is compiled. The loss is the mean of the squared result; the update is one of SGD.
        """
        if name not in self.parts:
            train = self.model.train or (lambda own, batch: (self.model.evaluate(own, batch), {}))

            def first(returned: Any) -> Any:
                return jax.tree.leaves(returned)[next(iter(self.results.values()))]

            def loss(variables: Any, batch: Any) -> Any:
                result, updated = train(variables, batch)
                return jnp.square(first(result)).mean(), updated

            def step(variables: Any, batch: Any) -> Any:
                gradients, updated = jax.grad(loss, allow_int=True, has_aux=True)(variables, batch)
                values = jax.tree.leaves(variables)
                for number in self.trained:
                    values[number] -= rate * jax.tree.leaves(gradients)[number]
                return values, updated

            parts = {"evaluation": self.model.evaluate, "forward": loss, "step": step}
            jax.config.update("jax_disable_most_optimizations", False)
            with without_dropout():
                lowered = jax.jit(parts[name]).lower(self.variables, self.batch)
            self.parts[name] = lowered.compile()
            jax.config.update("jax_disable_most_optimizations", True)
        program = self.parts[name]
        return lambda: jax.block_until_ready(program(self.variables, self.batch))

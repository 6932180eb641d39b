"""The side that trains in several processes, each of which has a part of the batch.

It is recorded as one model: inputs, outputs and results are joined, the loss is the mean of all
processes, and gradients, updates and running statistics are those of the first process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from horizont.errors import UserError
from horizont.modeldiff.loss_rules import mean_of_parts
from horizont.modeldiff.model_side import ModelSide
from horizont.modeldiff.process import Limits, RunFailed, SideFailed
from horizont.modeldiff.recording import (
    Array,
    Call,
    Division,
    Layer,
    Recording,
    Request,
    Snippet,
)
from horizont.modeldiff.repairs import OF_BATCH, PARTS
from horizont.modeldiff.sides import SideSpec, recorders

#: What the file of a framework that can train in several processes is called.
DDP = "_ddp.py"

#: A process with one example could not normalize it.
FEWEST_EXAMPLES = 2

#: Seconds within which others than the first process that fails may say why.
GRACE_S = 2.0

T = TypeVar("T")


def check_processes(spec: SideSpec, number: int, batch: Array) -> None:
    """Refuse what cannot be trained in a number of processes.

    Raises
    ------
    UserError
        If the framework, the number or the size of the batch does not allow it.
    """
    if number < 1:
        raise UserError("--ddp", number, "a number of processes, 1 or more")
    able = {
        path: name
        for name, (_, path) in recorders().items()
        if path.with_name(f"{name}{DDP}").exists()
    }
    if spec.recorder not in able:
        raise UserError(
            "--ddp",
            number,
            f"1 for side B {spec.text}; more for {', '.join(sorted(able.values()))}:",
        )
    if len(batch) % number or len(batch) < FEWEST_EXAMPLES * number:
        least = FEWEST_EXAMPLES * number
        sizes = f"a multiple of {number} examples, {least} or more, for {number} processes"
        raise UserError("--input", "x".join(map(str, batch.shape)), sizes)


class DistributedSide:
    """A model in several processes that average their gradients."""

    can_run = can_train = True
    divisible: Sequence[str] = ()

    def __init__(self, spec: SideSpec, folder: Path, limits: Limits, number: int) -> None:
        self.name = spec.label
        self.processes = number
        self._examples = 0
        self._sides: list[ModelSide] = []
        try:
            for rank in range(number):
                one = replace(spec, label=f"{spec.label}, process {rank}")
                self._sides.append(ModelSide(one, folder / str(rank), limits))
                path = str((folder / "group").resolve())
                self._sides[-1].group = {"rank": rank, "size": number, "path": path}
        except SideFailed:
            self.close()
            raise

    @property
    def peak_bytes(self) -> int:
        """The most memory that its processes have used."""
        return sum(each.peak_bytes for each in self._sides)

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of its Python and packages, and the number of processes."""
        return {**self._sides[0].versions, "processes": str(self.processes)}

    @property
    def facts(self) -> Mapping[str, Any]:
        """What a comparison leaves out."""
        return self._sides[0].facts

    @property
    def has_loss(self) -> bool:
        """Whether it has a loss of its own."""
        return self._sides[0].has_loss

    @property
    def has_optimizer(self) -> bool:
        """Whether it has an optimizer of its own."""
        return self._sides[0].has_optimizer

    def open(self, batch: Array, dtype: str) -> list[Layer]:
        """Build the model in all processes, and return its layers in the order of execution."""
        self._examples = len(batch)
        layers, *_ = self._each(lambda rank, side: side.open(self._part(rank, batch), dtype))
        return [
            replace(each, settings={**each.settings, PARTS: self.processes})
            if each.settings.get("statistics") == OF_BATCH
            else each
            for each in layers
        ]

    def divide(self, divisions: Mapping[str, Division]) -> None:
        """Record some layers in parts when the model is built again."""
        for side in self._sides:
            side.divide(divisions)

    def weights(self) -> dict[str, Array]:
        """Return its weights by layer and role."""
        return self._sides[0].weights()

    def run(self, request: Request) -> Recording:
        """Run it once in all processes, and join what they recorded."""

        def run(rank: int, side: ModelSide) -> Recording:
            weights: Mapping[str, Array] = request.weights
            if "batch" in weights:
                weights = {**weights, "batch": self._part(rank, weights["batch"])}
            feed = {key: self._part(rank, value) for key, value in request.feed.items()}
            projection = request.projection
            if projection is not None:
                projection = self._part(rank, projection)
            others = {key: self._part(rank, value) for key, value in request.others.items()}
            own = replace(request, weights=weights, feed=feed)
            return side.run(replace(own, projection=projection, others=others))

        recordings = self._each(run)
        return {key: self._joined(key, [each[key] for each in recordings]) for key in recordings[0]}

    def loss(self, result: Array, classes: Array) -> tuple[float, Array]:
        """Return the mean of its losses of the parts of a result, and the gradient."""
        return mean_of_parts(self._sides[0].loss, self.processes, result, classes)

    def rules(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what its optimizer does with each tensor, see `update_rules`."""
        return self._sides[0].rules()

    def update(
        self, weights: Mapping[str, Array], gradients: Sequence[Mapping[str, Array]]
    ) -> dict[str, Array]:
        """Return the weights after its optimizer has applied some gradients, one by one."""
        return self._sides[0].update(weights, gradients)

    def script(self, layer: str, weights: Mapping[str, Array], value: Array | None) -> Snippet:
        """Return no code: it would need all processes."""
        return Snippet()

    def time(self, part: str, seconds: float) -> float:
        """Refuse: what processes of one machine take is no time of a distributed training."""
        raise SideFailed(f"side {self.name} trains in several processes of this machine")

    def profile(self, part: str) -> list[Call]:
        """Refuse, likewise."""
        raise SideFailed(f"side {self.name} trains in several processes of this machine")

    def close(self) -> None:
        """Terminate its processes."""
        for side in self._sides:
            side.close()

    def _part(self, rank: int, array: Array) -> Array:
        """Return the part of a process of what has the examples as its first axis."""
        if not array.ndim or len(array) != self._examples:
            return array
        size = self._examples // self.processes
        return array[rank * size : (rank + 1) * size]

    def _joined(self, key: str, parts: Sequence[Array]) -> Array:
        """Return a tensor of the whole batch from those of all processes."""
        quantity = key.partition("|")[0]
        if quantity in ("gradient", "after"):
            return parts[0]
        if quantity == "loss":
            return np.asarray(np.mean(parts))
        if quantity == "outer":  # of a loss that is the mean of the losses
            return np.asarray(np.sqrt(np.sum(np.square(parts))) / self.processes)
        has_examples = parts[0].ndim and len(parts[0]) == self._examples // self.processes
        return np.concatenate(parts) if has_examples else parts[0]

    def _each(self, execute: Callable[[int, ModelSide], T]) -> list[T]:
        """Execute something in all processes at once; if one fails, terminate the others.

        The others would wait for it.
        """
        with ThreadPoolExecutor(len(self._sides)) as pool:
            futures = [pool.submit(execute, *each) for each in enumerate(self._sides)]
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            if all(each.exception() is None for each in done):
                return [each.result() for each in futures]
            done, _ = wait(futures, GRACE_S)
            self.close()
        errors = [error for each in futures if each in done and (error := each.exception())]
        # That the process of another one has ended is its error, and not that of those it leaves.
        errors.sort(key=lambda error: isinstance(error, RunFailed))
        if isinstance(errors[0], RunFailed):
            raise SideFailed(str(errors[0])) from errors[0]
        raise errors[0]

"""Replaying an asynchronous run alone: recorded gradients, in the order in which they were applied.

Nothing of the network is computed anew. From the initial weights and the gradients that the
workers sent, in the order that the servers told, the update rule in NumPy must come to the
weights that the servers had in the end, and to those that each gradient was computed on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.equivalence.bounds import float32_bound
from horizont.equivalence.distance import relative_distance
from horizont.equivalence.rules import Moving
from horizont.records import Record
from horizont.spec import Frozen, Optimizer

Weights = dict[str, NDArray[Any]]


class ReplayedTensor(Frozen):
    """How far a weight of the servers is from the replayed one.

    Attributes
    ----------
    distance
        Norm of the difference over the norm of all that the weight was moved by.
    bound
        What rounding explains: see :mod:`horizont.equivalence.bounds`. The noise is the distance
        between a replay in float32 and one in float64.
    """

    tensor: str
    distance: float
    bound: float

    @property
    def ok(self) -> bool:
        """Whether rounding explains the distance."""
        return self.distance <= self.bound


class Replay:
    """The weights of a run after each of its updates, in one precision.

    Parameters
    ----------
    record
        Of an asynchronous run whose gradients were recorded.
    initial
        The initial weights by their names, in the order of the network.
    """

    def __init__(self, record: Record, initial: Mapping[str, NDArray[Any]], dtype: str) -> None:
        self.shapes = {name: value.shape for name, value in initial.items()}
        # The servers began with float32, whatever they are replayed in.
        start = _vector(initial).astype("float32").astype(dtype)
        self.rows = record.updates().to_pylist()
        self.places = {row["part"]: _place(row["part"], initial) for row in self.rows}
        self.versions = {part: [start[place]] for part, place in self.places.items()}
        self._start = start
        self._apply(record, record.run.workload.optimizer, initial)

    def _apply(self, record: Record, rule: Optimizer, initial: Mapping[str, NDArray[Any]]) -> None:
        """Make all updates in their order."""
        decays = _vector(
            {
                name: np.full(value.shape, rule.weight_decay if value.ndim > 1 else 0.0)
                for name, value in initial.items()
            }
        )
        moving = {
            part: Moving(rule, self._start[place], decays[place])
            for part, place in self.places.items()
        }
        gradients = recorded_gradients(record)
        for row in self.rows:
            part = row["part"]
            gradient = gradients[row["worker"]][f"{row['step']}/{part}"]
            moving[part].update(gradient.ravel())
            self.versions[part].append(moving[part].weights)

    def final(self) -> Weights:
        """Tell the weights after the last update."""
        return self._named({part: len(told) - 1 for part, told in self.versions.items()})

    def computed_on(self, worker: int, step: int, later: int = 0) -> Weights:
        """Tell the weights that a worker's gradient of a step was computed on.

        Parameters
        ----------
        later
            Tell those after one more update instead: what they would be if the version were wrong.
        """
        own = [row for row in self.rows if (row["worker"], row["step"]) == (worker, step)]
        return self._named({row["part"]: row["version"] + later for row in own})

    def gradient(self, record: Record, worker: int, step: int) -> Weights:
        """Tell the gradient that a worker sent in a step."""
        sent = recorded_gradients(record)[worker]
        vector = np.empty_like(self._start)
        for part, place in self.places.items():
            vector[place] = sent[f"{step}/{part}"].ravel()
        return self._tensors(vector)

    def _named(self, chosen: Mapping[str, int]) -> Weights:
        """Put the chosen version of each part in its place."""
        vector = np.full_like(self._start, np.nan)
        for part, version in chosen.items():
            vector[self.places[part]] = self.versions[part][version]
        return self._tensors(vector)

    def _tensors(self, vector: NDArray[Any]) -> Weights:
        """Cut the vector of all weights into tensors."""
        ends = np.cumsum([np.prod(shape, dtype=int) for shape in self.shapes.values()])
        pieces = np.split(vector, ends[:-1])
        return {
            name: piece.reshape(shape)
            for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)
        }


def compare_replay(record: Record, initial: Mapping[str, NDArray[Any]]) -> list[ReplayedTensor]:
    """Compare the servers' last weights with the replayed ones, tensor by tensor."""
    exact, rounded = (Replay(record, initial, dtype).final() for dtype in ("float64", "float32"))
    served = np.load(record.folder / "gradients" / "served.npz")
    told = []
    for name, value in exact.items():
        moved = value - initial[name].astype("float32")
        noise = relative_distance(rounded[name], value, moved)
        told.append(
            ReplayedTensor(
                tensor=name,
                distance=relative_distance(served[name], value, moved),
                bound=float32_bound([noise], []),
            )
        )
    return told


def recorded_gradients(record: Record) -> list[Mapping[str, NDArray[Any]]]:
    """Open the gradients of each worker: ``<step>/<part>``."""
    folder = record.folder / "gradients"
    workers = range(record.run.topology.workers)
    return [np.load(folder / f"worker-{rank}.npz") for rank in workers]


def _vector(tensors: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Lay tensors one after the other."""
    return np.concatenate([value.ravel() for value in tensors.values()])


def _place(part: str, tensors: Mapping[str, NDArray[Any]]) -> slice:
    """Find a part in the vector of all weights: a tensor by its name, or ``first:behind``."""
    if part not in tensors:
        first, behind = map(int, part.split(":"))
        return slice(first, behind)
    begin = 0
    for name, value in tensors.items():
        if name == part:
            break
        begin += value.size
    return slice(begin, begin + tensors[part].size)

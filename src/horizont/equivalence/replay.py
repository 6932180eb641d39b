"""The update rules in NumPy, one number at a time: what every framework and server must do.

Written from the description in :class:`horizont.config.Optimizer` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.config.base import ConfigModel
from horizont.config.workload import OptimizerConfig
from horizont.equivalence.compare import float32_bound, relative_distance
from horizont.records.record import Record


class ReferenceOptimizer:
    """A vector of weights under an update rule.

    Parameters
    ----------
    weights
        The initial weights; their type is the precision of everything that follows.
    decay
        The weight decay of each of them.
    """

    def __init__(
        self, config: OptimizerConfig, weights: NDArray[Any], weight_decay: NDArray[Any]
    ) -> None:
        self.config = config
        self.weights = weights.copy()
        self.weight_decay = weight_decay.astype(weights.dtype)
        self.slots = {slot: np.zeros_like(weights) for slot in config.slots}
        self.updates = 0

    def update(self, gradient: NDArray[Any]) -> None:
        """Move against a gradient."""
        self.updates += 1
        decayed = gradient.astype(self.weights.dtype) + self.weight_decay * self.weights
        move = self._adam(decayed) if self.config.name == "adam" else self._sgd(decayed)
        self.weights = self.weights - self.config.learning_rate * move

    def _sgd(self, gradient: NDArray[Any]) -> NDArray[Any]:
        """Tell the velocity, or the gradient where there is no momentum."""
        if not self.config.momentum:
            return gradient
        velocity = self.config.momentum * self.slots["velocity"] + gradient
        self.slots["velocity"] = velocity
        move: NDArray[Any] = velocity
        if self.config.nesterov:
            move = gradient + self.config.momentum * velocity
        return move

    def _adam(self, gradient: NDArray[Any]) -> NDArray[Any]:
        """Tell the corrected first moment over the root of the corrected second one."""
        rule, kept = self.config, self.slots
        kept["first"] = rule.beta1 * kept["first"] + (1 - rule.beta1) * gradient
        kept["second"] = rule.beta2 * kept["second"] + (1 - rule.beta2) * gradient**2
        first = kept["first"] / (1 - rule.beta1**self.updates)
        second = kept["second"] / (1 - rule.beta2**self.updates)
        corrected: NDArray[Any] = first / (np.sqrt(second) + rule.epsilon)
        return corrected


Weights = dict[str, NDArray[Any]]


class ReplayedTensor(ConfigModel):
    """How far a weight of the servers is from the replayed one.

    Attributes
    ----------
    distance
        Norm of the difference over the norm of all that the weight was moved by.
    bound
        What rounding explains: see :mod:`horizont.equivalence.compare`. The noise is the distance
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
        start = _flatten(initial).astype("float32").astype(dtype)
        self.rows = record.updates().to_pylist()
        self.slices = {row["part"]: _slice_of(row["part"], initial) for row in self.rows}
        self.versions = {part: [start[place]] for part, place in self.slices.items()}
        self._start = start
        self._apply_updates(record, record.run.workload.optimizer, initial)

    def _apply_updates(
        self, record: Record, optimizer: OptimizerConfig, initial: Mapping[str, NDArray[Any]]
    ) -> None:
        """Make all updates in their order."""
        decays = _flatten(
            {
                name: np.full(value.shape, optimizer.weight_decay if value.ndim > 1 else 0.0)
                for name, value in initial.items()
            }
        )
        moving = {
            part: ReferenceOptimizer(optimizer, self._start[place], decays[place])
            for part, place in self.slices.items()
        }
        gradients = recorded_gradients(record)
        for row in self.rows:
            part = row["part"]
            gradient = gradients[row["worker"]][f"{row['step']}/{part}"]
            moving[part].update(gradient.ravel())
            self.versions[part].append(moving[part].weights)

    def final_weights(self) -> Weights:
        """Tell the weights after the last update."""
        return self._weights_at({part: len(told) - 1 for part, told in self.versions.items()})

    def weights_used_by(self, worker: int, step: int, extra_updates: int = 0) -> Weights:
        """Tell the weights that a worker's gradient of a step was computed on.

        Parameters
        ----------
        later
            Tell those after one more update instead: what they would be if the version were wrong.
        """
        own = [row for row in self.rows if (row["worker"], row["step"]) == (worker, step)]
        return self._weights_at({row["part"]: row["version"] + extra_updates for row in own})

    def gradient(self, record: Record, worker: int, step: int) -> Weights:
        """Tell the gradient that a worker sent in a step."""
        sent = recorded_gradients(record)[worker]
        vector = np.empty_like(self._start)
        for part, place in self.slices.items():
            vector[place] = sent[f"{step}/{part}"].ravel()
        return self._split_into_tensors(vector)

    def _weights_at(self, version_by_part: Mapping[str, int]) -> Weights:
        """Put the chosen version of each part in its place."""
        vector = np.full_like(self._start, np.nan)
        for part, version in version_by_part.items():
            vector[self.slices[part]] = self.versions[part][version]
        return self._split_into_tensors(vector)

    def _split_into_tensors(self, vector: NDArray[Any]) -> Weights:
        """Cut the vector of all weights into tensors."""
        ends = np.cumsum([np.prod(shape, dtype=int) for shape in self.shapes.values()])
        pieces = np.split(vector, ends[:-1])
        return {
            name: piece.reshape(shape)
            for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)
        }


def compare_replay(record: Record, initial: Mapping[str, NDArray[Any]]) -> list[ReplayedTensor]:
    """Compare the servers' last weights with the replayed ones, tensor by tensor."""
    exact, rounded = (
        Replay(record, initial, dtype).final_weights() for dtype in ("float64", "float32")
    )
    served = np.load(record.folder / "gradients" / "server_weights.npz")
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


def _flatten(tensors: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Lay tensors one after the other."""
    return np.concatenate([value.ravel() for value in tensors.values()])


def _slice_of(part: str, tensors: Mapping[str, NDArray[Any]]) -> slice:
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

"""Replay of an asynchronous run in NumPy: recorded gradients, in the order of their updates.

The network is not computed. From the initial weights and the recorded gradients, in the order that
the servers recorded, reference update rules must compute the final weights of the servers, and the
weights with which each gradient was computed. The rules follow the definition in
:class:`horizont.config.workload.OptimizerConfig` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.config.base import ConfigModel
from horizont.config.workload import OptimizerConfig
from horizont.equivalence.bounds import float32_bound, relative_distance
from horizont.records.record import Record


class ReferenceOptimizer:
    """An optimizer of a vector of weights.

    The type of the initial `weights` is the precision of all computations; `weight_decay` has
    their shape.
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
        """Apply a gradient."""
        self.updates += 1
        decayed = gradient.astype(self.weights.dtype) + self.weight_decay * self.weights
        step = self._adam(decayed) if self.config.name == "adam" else self._sgd(decayed)
        self.weights = self.weights - self.config.learning_rate * step

    def _sgd(self, gradient: NDArray[Any]) -> NDArray[Any]:
        """Return the velocity, or the gradient if there is no momentum."""
        if not self.config.momentum:
            return gradient
        velocity = self.config.momentum * self.slots["velocity"] + gradient
        self.slots["velocity"] = velocity
        if not self.config.nesterov:
            return np.asarray(velocity)
        return np.asarray(gradient + self.config.momentum * velocity)

    def _adam(self, gradient: NDArray[Any]) -> NDArray[Any]:
        """Return the corrected first moment over the root of the corrected second one."""
        config, slots = self.config, self.slots
        slots["first"] = config.beta1 * slots["first"] + (1 - config.beta1) * gradient
        slots["second"] = config.beta2 * slots["second"] + (1 - config.beta2) * gradient**2
        first = slots["first"] / (1 - config.beta1**self.updates)
        second = slots["second"] / (1 - config.beta2**self.updates)
        return np.asarray(first / (np.sqrt(second) + config.epsilon))


Weights = dict[str, NDArray[Any]]


class ReplayedTensor(ConfigModel):
    """The distance of a tensor of the servers to the replayed one.

    Attributes
    ----------
    distance
        Norm of the difference over the norm of the change since the initial weights.
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

    The record is of an asynchronous run with recorded gradients; the initial weights are in the
    order of the network.
    """

    def __init__(self, record: Record, initial: Mapping[str, NDArray[Any]], dtype: str) -> None:
        self.shapes = {name: value.shape for name, value in initial.items()}
        stops = np.cumsum([value.size for value in initial.values()]).tolist()
        self.tensors = dict(zip(initial, map(slice, [0, *stops], stops), strict=False))
        # The servers started with float32 weights, whatever the precision of the replay.
        self._start = _flatten(initial).astype("float32").astype(dtype)
        self.rows = record.updates().to_pylist()
        self.slices = {row["part"]: self._slice_of(row["part"]) for row in self.rows}
        self.versions = {part: [self._start[where]] for part, where in self.slices.items()}
        config = record.run.workload.optimizer
        decay = {
            name: np.full(value.shape, config.weight_decay if value.ndim > 1 else 0.0)
            for name, value in initial.items()
        }
        optimizers = {
            part: ReferenceOptimizer(config, self._start[where], _flatten(decay)[where])
            for part, where in self.slices.items()
        }
        gradients = recorded_gradients(record)
        for row in self.rows:
            part = row["part"]
            gradient = gradients[row["worker"]][f"{row['step']}/{part}"]
            optimizers[part].update(gradient.ravel())
            self.versions[part].append(optimizers[part].weights)

    def _slice_of(self, part: str) -> slice:
        """Return the slice of a part in the vector of all weights: a tensor, or ``start:stop``."""
        return self.tensors.get(part) or slice(*map(int, part.split(":")))

    def final_weights(self) -> Weights:
        """Return the weights after the last update."""
        return self._weights_at(dict.fromkeys(self.slices, -1))

    def weights_used_by(self, worker: int, step: int, extra_updates: int = 0) -> Weights:
        """Return the weights with which a worker computed the gradient of a step.

        With `extra_updates`, those of so many updates later: if the recorded version were wrong.
        """
        rows = [row for row in self.rows if (row["worker"], row["step"]) == (worker, step)]
        return self._weights_at({row["part"]: row["version"] + extra_updates for row in rows})

    def gradient(self, record: Record, worker: int, step: int) -> Weights:
        """Return the gradient that a worker sent in a step."""
        sent = recorded_gradients(record)[worker]
        vector = np.empty_like(self._start)
        for part, where in self.slices.items():
            vector[where] = sent[f"{step}/{part}"].ravel()
        return self._split_into_tensors(vector)

    def _weights_at(self, version_by_part: Mapping[str, int]) -> Weights:
        """Return the weights with a version of each part."""
        vector = np.full_like(self._start, np.nan)
        for part, version in version_by_part.items():
            vector[self.slices[part]] = self.versions[part][version]
        return self._split_into_tensors(vector)

    def _split_into_tensors(self, vector: NDArray[Any]) -> Weights:
        """Split the vector of all weights into tensors."""
        return {
            name: vector[self.tensors[name]].reshape(shape) for name, shape in self.shapes.items()
        }


def compare_replay(record: Record, initial: Mapping[str, NDArray[Any]]) -> list[ReplayedTensor]:
    """Return the distances of the servers' final weights to the replayed ones."""
    exact = Replay(record, initial, "float64").final_weights()
    rounded = Replay(record, initial, "float32").final_weights()
    server_weights = np.load(record.path("gradients/server_weights.npz"))
    tensors = []
    for name, value in exact.items():
        change = value - initial[name].astype("float32")
        noise = relative_distance(rounded[name], value, change)
        tensors.append(
            ReplayedTensor(
                tensor=name,
                distance=relative_distance(server_weights[name], value, change),
                bound=float32_bound([noise], []),
            )
        )
    return tensors


def recorded_gradients(record: Record) -> list[Mapping[str, NDArray[Any]]]:
    """Open the recorded gradients of each worker, by ``<step>/<part>``."""
    folder = record.folder / "gradients"
    workers = range(record.run.topology.workers)
    return [np.load(folder / f"worker-{rank}.npz") for rank in workers]


def _flatten(tensors: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Return the vector of all weights."""
    return np.concatenate([value.ravel() for value in tensors.values()])

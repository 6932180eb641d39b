"""How far two tensors are apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray


def relative_distance(one: NDArray[Any], other: NDArray[Any], reference: NDArray[Any]) -> float:
    """Tell the Euclidean norm of the difference over that of a reference.

    Returns
    -------
    float
        Zero for equal tensors; infinity for different shapes, numbers that are not finite, and
        a difference where the reference is zero.
    """
    if one.shape != other.shape:
        return float("inf")
    difference = np.linalg.norm((_as_float64(one) - _as_float64(other)).ravel())
    scale = np.linalg.norm(_as_float64(reference).ravel())
    if difference == 0:
        return 0.0
    if not np.isfinite(difference) or scale == 0:
        return float("inf")
    return float(difference / scale)


def _as_float64(tensor: NDArray[Any]) -> NDArray[np.float64]:
    return tensor.astype(np.float64, copy=False)


FLOAT64_BOUND = 1e-11
NOISE_FACTOR = 10.0
ERROR_CAP = 2e-5
FLOOR_ULPS = 64.0
EVIDENCE_BOUND = 1e-3


def float64_bound(noise: list[float]) -> float:
    """Bound the distance of two frameworks in float64 by the noise of each."""
    return max(FLOAT64_BOUND, NOISE_FACTOR * max(noise, default=0.0))


def float32_bound(noise: list[float], error: list[float]) -> float:
    """Bound the distance of two frameworks, all relative.

    Parameters
    ----------
    noise
        Of all frameworks.
    error
        Of the two.
    """
    floor = FLOOR_ULPS * float(np.finfo(np.float32).eps)
    counted = [*noise, *(min(value, ERROR_CAP) for value in error)]
    return max(floor, NOISE_FACTOR * max(counted, default=0.0))


#: Tensors of one training by name, as the worker's trace writes them.
Trace = Mapping[str, NDArray[Any]]

#: The order in which training computes: the first departure is the first in this order.
QUANTITIES = ("initial", "logits", "loss", "gradient", "update", "statistics", "state", "optimizer")


@dataclass(frozen=True)
class TraceSet:
    """The traces of one precision.

    Attributes
    ----------
    plain
        By framework.
    reruns
        Trainings that differ from the plain ones by nothing but rounding, each by framework:
        the batches reversed, the initial weights moved by one unit in the last place, another
        number of threads.
    exact
        By framework: the same training in float64. Needed in float32 only.
    """

    dtype: str
    baseline: Mapping[str, Trace]
    reruns: Sequence[Mapping[str, Trace]] = ()
    float64_reference: Mapping[str, Trace] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """One tensor of a pair of frameworks at one step.

    Attributes
    ----------
    distance
        Norm of the difference over the norm of the tensor (largest of all frameworks).
    noise
        The largest distance of either framework (in float32: of any) to its own reruns; NaN
        without any.
    error
        The larger distance of either framework to its own float64 training; NaN in float64.
    telling
        Whether the bound is low enough for a mistake to show.
    """

    quantity: str
    step: int
    tensor: str
    pair: str
    dtype: str
    distance: float
    noise: float
    error: float
    bound: float
    ok: bool
    is_evidence: bool

    def as_row(self) -> dict[str, Any]:
        """Return the fields as a row of a table."""
        return asdict(self)


def compare(trace_set: TraceSet) -> Iterator[Comparison]:
    """Compare all pairs of frameworks, and each build with its own framework.

    The rows are in the order in which training computes. A tensor that one of a pair lacks, or
    that has another shape, is infinitely far away. No more than one tensor of each trace is
    looked at, and held, at a time.
    """
    for name in _in_computation_order(trace_set.baseline.values()):
        one = _select_tensor(trace_set, name)
        noise = [_distances_by_framework(one.baseline, rerun, name) for rerun in one.reruns]
        error = [_distances_by_framework(one.baseline, one.float64_reference, name)]
        for pair in framework_pairs(one.baseline):
            # A unit that stands at the kink of its activation falls to either side by rounding
            # alone, in whichever framework's rerun: in float32 the noise is the network's.
            noisy = (
                _distances_of(pair, noise)
                if trace_set.dtype == "float64"
                else _distances_of(one.baseline, noise)
            )
            yield _compare_tensor(one, name, pair, noisy, _distances_of(pair, error))


def _select_tensor(trace_set: TraceSet, name: str) -> TraceSet:
    """Read one tensor of all traces."""

    def read(of: Mapping[str, Trace]) -> dict[str, Trace]:
        return {
            framework: {name: trace[name]} if name in trace else {}
            for framework, trace in of.items()
        }

    reruns = [read(rerun) for rerun in trace_set.reruns]
    return TraceSet(
        trace_set.dtype, read(trace_set.baseline), reruns, read(trace_set.float64_reference)
    )


def framework_pairs(framework_variants: Iterable[str]) -> list[tuple[str, str]]:
    """Pair all frameworks, and each build (`<framework>+<variant>`) with the framework as it is."""
    names = sorted(framework_variants)
    frameworks = [name for name in names if "+" not in name]
    built = [(name.partition("+")[0], name) for name in names if "+" in name]
    return [*combinations(frameworks, 2), *built]


def _in_computation_order(traces: Iterable[Trace]) -> list[str]:
    """Order tensor names by quantity and step, and within them as the layers stand."""
    names = list(dict.fromkeys(name for trace in traces for name in trace))

    def place(name: str) -> tuple[int, int]:
        quantity, step, _ = name.split("/")
        return QUANTITIES.index(quantity), int(step)

    return sorted(names, key=place)  # a stable sort keeps the layers as they are


def _compare_tensor(
    trace_set: TraceSet, name: str, pair: tuple[str, str], noise: list[float], error: list[float]
) -> Comparison:
    quantity, step, tensor = name.split("/")
    one, other = (trace_set.baseline[framework].get(name) for framework in pair)
    bound = float64_bound(noise) if trace_set.dtype == "float64" else float32_bound(noise, error)
    if quantity == "initial":
        noise, error, bound = [], [], 0.0  # the same numbers are put in: nothing is computed
    distance = float("inf")
    if one is not None and other is not None:
        distance = relative_distance(one, other, max((one, other), key=_norm))
    return Comparison(
        quantity=quantity,
        step=int(step),
        tensor=tensor,
        pair="-".join(pair),
        dtype=trace_set.dtype,
        distance=distance,
        noise=max(noise, default=float("nan")),
        error=max(error, default=float("nan")),
        bound=bound,
        ok=distance <= bound,
        is_evidence=bound <= EVIDENCE_BOUND,
    )


def _norm(tensor: NDArray[Any]) -> float:
    return float(np.linalg.norm(tensor.astype(np.float64, copy=False).ravel()))


def _distances_by_framework(
    baseline: Mapping[str, Trace], other: Mapping[str, Trace], name: str
) -> dict[str, float]:
    """Tell how far a tensor of each framework is from that of its own other training."""
    return {
        framework: relative_distance(trace[name], other[framework][name], trace[name])
        for framework, trace in baseline.items()
        if name in trace and name in other.get(framework, {})
    }


def _distances_of(
    pair: Iterable[str], distances_by_framework: Sequence[Mapping[str, float]]
) -> list[float]:
    return [
        distances[name]
        for distances in distances_by_framework
        for name in pair
        if name in distances
    ]

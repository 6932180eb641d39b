"""The comparator: tensors of several frameworks in, a comparison for each tensor and pair out.

**Float64.** The frameworks compute the same sums in another order, so they must agree to a small
multiple of the rounding unit. A tensor is the result of at most a few thousand additions for each
of its elements and layers; errors of random sign grow with the root of their number, and training
accumulates them from step to step. ``FLOAT64_BOUND`` is three orders of magnitude above what was
measured for the first gradients of the networks of the study (1e-15 to 1e-13) and far below the
effect of any real defect (a learning rate off by one per cent gives 1e-2).

In deep networks with batch norm, rounding errors grow from step to step, until nothing can be
compared. There the bound follows the noise of the framework itself, as described below. A
comparison whose bound is above ``EVIDENCE_BOUND`` could hide a defect and is no evidence; such
comparisons are counted separately, and others are required.

**Float32.** No fixed bound is valid: how fast rounding errors grow depends on the network. The
bound is derived from the frameworks' own variation, per tensor and step:

- the *noise*, the distance between trainings that differ in rounding only: the examples of each
  batch are reversed, the initial weights are larger by one unit in the last place, or two threads
  compute instead of one. A unit at the kink of its activation, or a tie in a pooling window, can
  fall to either side by rounding alone and change a gradient by as much as the part of one
  example; a few reruns show that in some frameworks and not in others. So the noise of all
  frameworks counts for each pair;
- the *error*, the distance to the framework's own training in float64. A library may compute an
  exponential or a batch norm less accurately than another, in the same way at every call, which
  no rerun would show. As the error may also hide a defect that exists in float32 only, it counts
  up to ``ERROR_CAP``: after multiplication by the factor, fifty times below a learning rate off
  by one per cent.

Two frameworks may differ by ``NOISE_FACTOR`` times the largest of these, and never need to be
closer than ``FLOOR_ULPS`` rounding units: a reversed batch does not change some tensors (the
logits of an example), in which two libraries still may differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

FLOAT64_BOUND = 1e-11
NOISE_FACTOR = 10.0
ERROR_CAP = 2e-5
FLOOR_ULPS = 64.0
EVIDENCE_BOUND = 1e-3

#: Tensors of one training by name, as the comparator process writes them.
Trace = Mapping[str, NDArray[Any]]

#: The order in which training computes, and so the order of divergences.
QUANTITIES = ("initial", "logits", "loss", "gradient", "update", "statistics", "state", "optimizer")


def relative_distance(one: NDArray[Any], other: NDArray[Any], reference: NDArray[Any]) -> float:
    """Return the Euclidean norm of the difference, relative to that of a reference.

    Returns
    -------
    float
        Zero for equal tensors; infinity for different shapes, for numbers that are not finite,
        and for a difference where the reference is zero.
    """
    if one.shape != other.shape:
        return float("inf")
    difference = _norm(one.astype(np.float64, copy=False) - other.astype(np.float64, copy=False))
    scale = _norm(reference)
    if difference == 0:
        return 0.0
    if not np.isfinite(difference) or scale == 0:
        return float("inf")
    return difference / scale


def _norm(tensor: NDArray[Any]) -> float:
    return float(np.linalg.norm(tensor.astype(np.float64, copy=False).ravel()))


def float64_bound(noise: list[float]) -> float:
    """Return the bound on the distance of two frameworks in float64, from the noise of each."""
    return max(FLOAT64_BOUND, NOISE_FACTOR * max(noise, default=0.0))


def float32_bound(noise: list[float], error: list[float]) -> float:
    """Return the bound in float32, from the noise of all frameworks and the error of the two."""
    floor = FLOOR_ULPS * float(np.finfo(np.float32).eps)
    deviations = [*noise, *(min(value, ERROR_CAP) for value in error)]
    return max(floor, NOISE_FACTOR * max(deviations, default=0.0))


@dataclass(frozen=True)
class TraceSet:
    """The traces of one precision, by framework.

    Attributes
    ----------
    reruns
        Trainings that differ from the baseline in rounding only: reversed batches, initial weights
        changed by one unit in the last place, another number of threads.
    float64_reference
        The same training in float64; required for float32 only.
    """

    dtype: str
    baseline: Mapping[str, Trace]
    reruns: Sequence[Mapping[str, Trace]] = ()
    float64_reference: Mapping[str, Trace] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """A tensor of two frameworks at one step.

    Attributes
    ----------
    distance
        Norm of the difference over the larger norm of the two tensors.
    noise
        The largest distance of either framework (in float32: of any) to its own reruns; None
        without reruns.
    error
        The larger distance of the two frameworks to their own float64 trainings; None in float64.
    is_evidence
        Whether the bound is low enough for a defect to be detected.
    """

    quantity: str
    step: int
    tensor: str
    pair: str
    dtype: str
    distance: float
    noise: float | None
    error: float | None
    bound: float
    ok: bool
    is_evidence: bool

    def as_row(self) -> dict[str, Any]:
        """Return the fields as a row of a table."""
        return asdict(self)


def compare(trace_set: TraceSet) -> Iterator[Comparison]:
    """Yield the comparisons of all pairs of frameworks, and of each variant with its framework.

    They are in the order in which training computes. The distance is infinite if one of a pair
    lacks a tensor, or if the shapes differ. Only one tensor of each trace is in memory at a time.
    """
    is_float64 = trace_set.dtype == "float64"
    for name in _in_computation_order(trace_set.baseline.values()):
        tensors = _read_tensor(trace_set.baseline, name)
        noise = [_distances(tensors, _read_tensor(rerun, name)) for rerun in trace_set.reruns]
        error = [_distances(tensors, _read_tensor(trace_set.float64_reference, name))]
        for pair in framework_pairs(trace_set.baseline):
            # A unit at the kink of its activation falls to either side by rounding alone, in the
            # rerun of any framework: in float32 the noise is a property of the network.
            noisy = pair if is_float64 else tuple(tensors)
            yield _compare_tensor(
                name,
                pair,
                trace_set.dtype,
                tensors,
                noise=[row[framework] for row in noise for framework in noisy if framework in row],
                error=[row[framework] for row in error for framework in pair if framework in row],
            )


def _read_tensor(traces: Mapping[str, Trace], name: str) -> dict[str, NDArray[Any]]:
    return {framework: trace[name] for framework, trace in traces.items() if name in trace}


def _distances(
    tensors: Mapping[str, NDArray[Any]], others: Mapping[str, NDArray[Any]]
) -> dict[str, float]:
    """Return the distance of the tensor of each framework to that of its own other training."""
    return {
        framework: relative_distance(tensor, others[framework], tensor)
        for framework, tensor in tensors.items()
        if framework in others
    }


def framework_pairs(framework_variants: Iterable[str]) -> list[tuple[str, str]]:
    """Return all pairs of frameworks, and pair each `<framework>+<variant>` with its framework."""
    names = sorted(framework_variants)
    frameworks = [name for name in names if "+" not in name]
    variants = [(name.partition("+")[0], name) for name in names if "+" in name]
    return [*combinations(frameworks, 2), *variants]


def _in_computation_order(traces: Iterable[Trace]) -> list[str]:
    """Sort the names of tensors by quantity and step, then in the order of the layers."""
    names = list(dict.fromkeys(name for trace in traces for name in trace))

    def position(name: str) -> tuple[int, int]:
        quantity, step, _ = name.split("/")
        return QUANTITIES.index(quantity), int(step)

    return sorted(names, key=position)  # the sort is stable: it keeps the order of the layers


def _compare_tensor(
    name: str,
    pair: tuple[str, str],
    dtype: str,
    tensors: Mapping[str, NDArray[Any]],
    *,
    noise: list[float],
    error: list[float],
) -> Comparison:
    quantity, step, tensor = name.split("/")
    bound = float64_bound(noise) if dtype == "float64" else float32_bound(noise, error)
    if quantity == "initial":
        noise, error, bound = [], [], 0.0  # the same numbers were loaded: nothing is computed
    one, other = map(tensors.get, pair)
    distance = float("inf")
    if one is not None and other is not None:
        distance = relative_distance(one, other, max((one, other), key=_norm))
    return Comparison(
        quantity=quantity,
        step=int(step),
        tensor=tensor,
        pair="-".join(pair),
        dtype=dtype,
        distance=distance,
        noise=max(noise, default=None),
        error=max(error, default=None),
        bound=bound,
        ok=distance <= bound,
        is_evidence=bound <= EVIDENCE_BOUND,
    )

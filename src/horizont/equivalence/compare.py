"""The comparator: tensors of several frameworks in, a row for each tensor and pair out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.equivalence.bounds import TELLING, float32_bound, float64_bound
from horizont.equivalence.distance import relative_distance

#: Tensors of one training by name, as the worker's trace writes them.
Trace = Mapping[str, NDArray[Any]]

#: The order in which training computes: the first departure is the first in this order.
QUANTITIES = ("initial", "logits", "loss", "gradient", "update", "statistics", "state", "optimizer")


@dataclass(frozen=True)
class Traces:
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
    plain: Mapping[str, Trace]
    reruns: Sequence[Mapping[str, Trace]] = ()
    exact: Mapping[str, Trace] = field(default_factory=dict)


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
    telling: bool

    def as_row(self) -> dict[str, Any]:
        """Return the fields as a row of a table."""
        return asdict(self)


def compare(traces: Traces) -> Iterator[Comparison]:
    """Compare all pairs of frameworks, and each build with its own framework.

    The rows are in the order in which training computes. A tensor that one of a pair lacks, or
    that has another shape, is infinitely far away. No more than one tensor of each trace is
    looked at, and held, at a time.
    """
    for name in _ordered(traces.plain.values()):
        one = _only(traces, name)
        noise = [_apart(one.plain, rerun, name) for rerun in one.reruns]
        error = [_apart(one.plain, one.exact, name)]
        for pair in pairs_of(one.plain):
            # A unit that stands at the kink of its activation falls to either side by rounding
            # alone, in whichever framework's rerun: in float32 the noise is the network's.
            noisy = _of(pair, noise) if traces.dtype == "float64" else _of(one.plain, noise)
            yield _compare_tensor(one, name, pair, noisy, _of(pair, error))


def _only(traces: Traces, name: str) -> Traces:
    """Read one tensor of all traces."""

    def read(of: Mapping[str, Trace]) -> dict[str, Trace]:
        return {
            framework: {name: trace[name]} if name in trace else {}
            for framework, trace in of.items()
        }

    reruns = [read(rerun) for rerun in traces.reruns]
    return Traces(traces.dtype, read(traces.plain), reruns, read(traces.exact))


def pairs_of(trainers: Iterable[str]) -> list[tuple[str, str]]:
    """Pair all frameworks, and each build (`pytorch+compiled`) with the framework as it is."""
    names = sorted(trainers)
    frameworks = [name for name in names if "+" not in name]
    built = [(name.partition("+")[0], name) for name in names if "+" in name]
    return [*combinations(frameworks, 2), *built]


def _ordered(traces: Iterable[Trace]) -> list[str]:
    """Order tensor names by quantity and step, and within them as the layers stand."""
    names = list(dict.fromkeys(name for trace in traces for name in trace))

    def place(name: str) -> tuple[int, int]:
        quantity, step, _ = name.split("/")
        return QUANTITIES.index(quantity), int(step)

    return sorted(names, key=place)  # a stable sort keeps the layers as they are


def _compare_tensor(
    traces: Traces, name: str, pair: tuple[str, str], noise: list[float], error: list[float]
) -> Comparison:
    quantity, step, tensor = name.split("/")
    one, other = (traces.plain[framework].get(name) for framework in pair)
    bound = float64_bound(noise) if traces.dtype == "float64" else float32_bound(noise, error)
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
        dtype=traces.dtype,
        distance=distance,
        noise=max(noise, default=float("nan")),
        error=max(error, default=float("nan")),
        bound=bound,
        ok=distance <= bound,
        telling=bound <= TELLING,
    )


def _norm(tensor: NDArray[Any]) -> float:
    return float(np.linalg.norm(tensor.astype(np.float64, copy=False).ravel()))


def _apart(plain: Mapping[str, Trace], other: Mapping[str, Trace], name: str) -> dict[str, float]:
    """Tell how far a tensor of each framework is from that of its own other training."""
    return {
        framework: relative_distance(trace[name], other[framework][name], trace[name])
        for framework, trace in plain.items()
        if name in trace and name in other.get(framework, {})
    }


def _of(pair: Iterable[str], found: Sequence[Mapping[str, float]]) -> list[float]:
    return [distances[name] for distances in found for name in pair if name in distances]

"""The comparator: tensors of several frameworks in, comparisons out.

A *trainer* is a framework, or a variant of one. Each tensor of a trainer passes several checks, in
the order of `CHECKS`:

``finite``
    No number of any training is infinite or NaN.
``repeat``
    The same training again gives the same tensors: the trainer is deterministic, to rounding.
``noise``
    Rounding changes no framework by orders of magnitude more than all others.
``precision``
    Tensors of float32 training use the bits of float32.
``rows``
    A batch with permuted rows gives permuted logits and states, and the same gradients.
``frameworks``, ``variant``
    Two frameworks agree; a variant agrees with its framework.
``reference``
    Inputs and loss are those that NumPy computes from the prepared data.
``instrumented``, ``profiled``
    The other functions that are timed train like the timed step.

The bounds are those of :mod:`horizont.equivalence.bounds`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations, groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.equivalence import bounds
from horizont.equivalence.bounds import relative_distance

#: The checks, in the order in which a defect is attributed to them.
CHECKS = (
    *("finite", "repeat", "noise", "precision", "rows"),
    *("frameworks", "variant", "reference", "instrumented", "profiled"),
)

#: Tensors of one training by name, as the comparator process writes them.
Trace = Mapping[str, NDArray[Any]]

#: Tensors with the same name, by trainer.
_Tensors = Mapping[str, NDArray[Any]]

#: The order in which training computes, and so the order of divergences.
QUANTITIES = (
    *("initial", "inputs", "logits", "loss", "gradient", "evaluation"),
    *("update", "step_loss", "statistics", "state", "optimizer", "batch", "rate"),
)

#: Computed by NumPy: the reference of the quantity that the tensor names.
EXPECTED = {"inputs": "moments", "loss": "loss"}

#: Quantities without jumps; see :mod:`horizont.equivalence.bounds`.
CONTINUOUS_QUANTITIES = ("inputs", "logits", "loss", "evaluation")

#: Quantities whose float32 values fill the mantissa.
PRECISE_QUANTITIES = ("logits", "gradient", "evaluation", "state")


@dataclass(frozen=True)
class TraceSet:
    """The traces of one precision, by trainer.

    Attributes
    ----------
    reruns
        Trainings that differ from the baseline in rounding only; they show the noise.
    checks
        Other trainings of the same trainers, by the check that compares them with the baseline.
    float64_reference
        The same training in float64; required for float32 only.
    rounding
        Of trainers whose float32 products round more than float32 does: how many times more.
    """

    dtype: str
    baseline: Mapping[str, Trace]
    reruns: Sequence[Mapping[str, Trace]] = ()
    checks: Mapping[str, Mapping[str, Trace]] = field(default_factory=dict)
    float64_reference: Mapping[str, Trace] = field(default_factory=dict)
    rounding: Mapping[str, float] = field(default_factory=dict)

    def all_traces(self) -> Iterator[tuple[str, Trace]]:
        """Yield all traces, each with its trainer."""
        for traces in (self.baseline, *self.reruns, *self.checks.values()):
            yield from traces.items()


@dataclass(frozen=True)
class Comparison:
    """A tensor of a trainer, or of two, at one step.

    Attributes
    ----------
    check
        One of `CHECKS`.
    subject
        The trainer that is judged; "" for a pair of frameworks.
    pair
        The two that are compared, or the subject.
    distance
        Norm of the difference over the larger norm of the two tensors; the noise itself for the
        check of noise.
    noise
        The largest distance of the frameworks to their own reruns; None without reruns.
    error
        The larger distance of the two frameworks to their own float64 trainings; None in float64.
    is_evidence
        Whether the bound is low enough for a defect to be detected.
    """

    check: str
    subject: str
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
    """Yield the comparisons of all checks, in the order in which training computes.

    All pairs of frameworks are compared, and each variant with its framework. The distance is
    infinite if one of a pair lacks a tensor, or if the shapes differ. Of a check of a trainer with
    itself there is one comparison for each quantity and step: the first that fails, or the one
    closest to its bound. Checks of single numbers yield comparisons that fail only. One tensor of
    each trace is in memory at a time.
    """
    names = _in_computation_order(trace for _, trace in trace_set.all_traces())
    for _, group in groupby(names, key=lambda name: name.rpartition("/")[0]):
        closest: dict[tuple[str, str], Comparison] = {}
        for name in group:
            compared = _TensorComparison(trace_set, name)
            yield from compared.findings()
            yield from compared.pairs()
            for row in compared.self_checks():
                known = closest.get((row.check, row.subject))
                if known is None or (known.ok and _closeness(row) > _closeness(known)):
                    closest[row.check, row.subject] = row
        yield from closest.values()


def _closeness(row: Comparison) -> float:
    if not row.ok:
        return float("inf")
    return row.distance / row.bound if row.bound else 0.0


class _TensorComparison:
    """All comparisons of the tensors of one name."""

    def __init__(self, trace_set: TraceSet, name: str) -> None:
        self.trace_set, self.name = trace_set, name
        self.quantity, step, self.tensor = name.split("/")
        self.step = int(step)
        self.tensors = _read_tensor(trace_set.baseline, name)
        self.reruns = [_read_tensor(rerun, name) for rerun in trace_set.reruns]
        self.checks = {
            check: _read_tensor(traces, name) for check, traces in trace_set.checks.items()
        }
        # Initial weights are loaded, not computed; and some reruns change them.
        is_computed = self.quantity != "initial"
        self.noise = _largest_distances(self.tensors, self.reruns if is_computed else [])
        exact = [_read_tensor(trace_set.float64_reference, name)] if is_computed else []
        self.error = _largest_distances(self.tensors, exact)

    def bound(self, trainers: Sequence[str], noisy: Sequence[str] | None = None) -> float:
        """Return the bound on a distance of the compared trainers.

        The noise of the `noisy` ones counts; by default in float64 the compared ones, in float32
        all.
        """
        if self.quantity == "initial":
            return 0.0
        if self.trace_set.dtype == "float64":
            return bounds.float64_bound(self._of(self.noise, noisy or trainers))
        noise = self._of(self.noise, self.noise if noisy is None else noisy)
        rounding = max(self.trace_set.rounding.get(trainer, 1.0) for trainer in trainers)
        if self.quantity in CONTINUOUS_QUANTITIES:
            error = [value for name, value in self.error.items() if "+" not in name]
            return bounds.continuous_bound(noise, error, self._magnitude(), rounding)
        return bounds.float32_bound(noise, self._of(self.error, trainers), rounding)

    def _magnitude(self) -> float:
        """Return the magnitude of what a loss is computed from, in units of the loss."""
        if self.quantity != "loss":
            return 1.0
        losses = (bounds.norm(tensor) for tensor in self.tensors.values())
        return 1 / min([1.0, *(loss for loss in losses if loss > 0)])

    def _of(self, values: Mapping[str, float], trainers: Iterable[str]) -> list[float]:
        return [values[trainer] for trainer in trainers if trainer in values]

    def findings(self) -> Iterator[Comparison]:
        """Yield what is wrong with the tensors of single trainers."""
        for trainer in dict.fromkeys(name for name, _ in self.trace_set.all_traces()):
            tensors = [
                traces[trainer]
                for traces in (self.tensors, *self.reruns, *self.checks.values())
                if trainer in traces
            ]
            if not all(np.isfinite(tensor).all() for tensor in tensors):
                yield self._row("finite", trainer, (trainer,), float("inf"), 0.0)
        yield from self._noise_findings()
        if self.trace_set.dtype == "float32" and self.quantity in PRECISE_QUANTITIES:
            for trainer, tensor in self.tensors.items():
                if bounds.has_reduced_precision(tensor):
                    yield self._row("precision", trainer, (trainer,), float("inf"), 0.0)

    def _noise_findings(self) -> Iterator[Comparison]:
        """Yield the frameworks that rounding changes much more than the others, in float64.

        In float32, rounding flips a unit of one framework only, without any defect.
        """
        if self.trace_set.dtype != "float64":
            return
        for trainer, noise in self.noise.items():
            others = [value for name, value in self.noise.items() if name != trainer]
            limit = bounds.noise_limit(others)
            if noise > limit:
                yield self._row("noise", trainer, (trainer,), noise, limit)

    def pairs(self) -> Iterator[Comparison]:
        """Yield the comparisons with NumPy, of pairs of frameworks, and of variants."""
        yield from self._reference_comparisons()
        for one, other in framework_pairs(self.trace_set.baseline):
            check, subject = ("variant", other) if "+" in other else ("frameworks", "")
            if not {one, other} & set(self.tensors):
                continue  # only other trainings have this tensor
            distance = self._distance(self.tensors.get(one), self.tensors.get(other))
            yield self._row(check, subject, (one, other), distance, self.bound((one, other)))

    def _reference_comparisons(self) -> Iterator[Comparison]:
        if EXPECTED.get(self.quantity) != self.tensor:
            return
        for trainer, tensor in self.tensors.items():
            trace = self.trace_set.baseline[trainer]
            expected = f"expected/{self.step}/{self.tensor}"
            if expected in trace:
                distance = self._distance(tensor, trace[expected])
                yield self._row("reference", trainer, (trainer,), distance, self.bound([trainer]))

    def self_checks(self) -> Iterator[Comparison]:
        """Yield the comparisons of trainers with other trainings of their own."""
        for check, traces in self.checks.items():
            for trainer, tensor in traces.items():
                if trainer not in self.tensors:
                    continue
                # A trainer that is not deterministic must not widen its own bound.
                others = [name for name in self.noise if name != trainer] or [trainer]
                is_exact = self.trace_set.dtype == "float64" or check == "repeat"
                bound = self.bound([trainer], others if is_exact else None)
                distance = self._distance(self.tensors[trainer], tensor)
                yield self._row(check, trainer, (trainer,), distance, bound)

    def _distance(self, one: NDArray[Any] | None, other: NDArray[Any] | None) -> float:
        if one is None or other is None:
            return float("inf")
        return relative_distance(one, other, max((one, other), key=bounds.norm))

    def _row(
        self, check: str, subject: str, members: Sequence[str], distance: float, bound: float
    ) -> Comparison:
        is_float64 = self.trace_set.dtype == "float64"
        noise = self._of(self.noise, members) if is_float64 else list(self.noise.values())
        return Comparison(
            check=check,
            subject=subject,
            quantity=self.quantity,
            step=self.step,
            tensor=self.tensor,
            pair="-".join(members),
            dtype=self.trace_set.dtype,
            distance=distance,
            noise=max(noise, default=None),
            error=max(self._of(self.error, members), default=None),
            bound=bound,
            ok=distance <= bound,
            is_evidence=bound <= bounds.EVIDENCE_BOUND,
        )


def _read_tensor(traces: Mapping[str, Trace], name: str) -> _Tensors:
    return {trainer: trace[name] for trainer, trace in traces.items() if name in trace}


def _largest_distances(tensors: _Tensors, reruns: Iterable[_Tensors]) -> dict[str, float]:
    """Return the largest finite distance of the tensor of each framework to its other trainings."""
    largest: dict[str, float] = {}
    for rerun in reruns:
        for trainer in tensors.keys() & rerun.keys():
            distance = relative_distance(tensors[trainer], rerun[trainer], tensors[trainer])
            if np.isfinite(distance):
                largest[trainer] = max(largest.get(trainer, 0.0), distance)
    return largest


def framework_pairs(trainers: Iterable[str]) -> list[tuple[str, str]]:
    """Return all pairs of frameworks, and pair each `<framework>+<variant>` with its framework."""
    names = sorted(trainers)
    frameworks = [name for name in names if "+" not in name]
    variants = [(name.partition("+")[0], name) for name in names if "+" in name]
    return [*combinations(frameworks, 2), *variants]


def _in_computation_order(traces: Iterable[Trace]) -> list[str]:
    """Sort the names of tensors by quantity and step, then in the order of the layers."""
    names = list(dict.fromkeys(name for trace in traces for name in trace))

    def position(name: str) -> tuple[int, int]:
        quantity, step, _ = name.split("/")
        return QUANTITIES.index(quantity), int(step)

    compared = [name for name in names if not name.startswith("expected/")]
    return sorted(compared, key=position)  # the sort is stable: it keeps the order of the layers

"""One comparison of two models: the same weights and batch, runs of both, and distances.

Side A is changed and fed, side B is the reference. The weights are those of side B, with constant
tensors displaced, as zeros hide what a tensor is used for. The running statistics are those of one
batch: random ones make a network chaotic, and a right port look wrong.

- **As they are**: both in evaluation, which shows the first layer that diverges.
- **Fed**: each layer of side A gets the input that the layer of side B had, and what follows gets
  the output of side B. So every layer is compared alone, and so is what lies between layers: all
  divergences are found in one run.
- **Training**: loss, gradients, one update and running statistics, which start displaced.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from horizont.modeldiff.distances import (
    NOISE_ULPS,
    Difference,
    Values,
    differences,
    forward_values,
    further_results,
    in_names_of_a,
    training_values,
)
from horizont.modeldiff.evaluations import (
    fed_tensors,
    statistics_after,
)
from horizont.modeldiff.glue import Glue, glue_before
from horizont.modeldiff.glue_rules import input_candidate, result_candidate, same_inputs
from horizont.modeldiff.inputs import displaced, moved, moved_statistics, rounded
from horizont.modeldiff.norm_forms import norm_candidates
from horizont.modeldiff.pairing import Pair, Pairing, neutral_weights, transfer
from horizont.modeldiff.precision import Precision
from horizont.modeldiff.process import RunFailed
from horizont.modeldiff.recording import Array, Recording, Repair, Request, Side
from horizont.modeldiff.repairs import (
    OF_BATCH,
    UNKNOWN,
    Candidate,
    merged,
    repairs_of,
    setting_candidates,
    tied_candidates,
)

#: How many recordings of side A are stored.
_STORED = 4


class Comparison:
    """Two opened sides with their pairs; side B may be a graph, which is run, but not trained."""

    def __init__(self, a: Side, b: Side, pairing: Pairing, batch: Array | None = None) -> None:
        self.a, self.b, self.pairing, self.dtype = a, b, pairing, "float64"
        self.batch = np.empty(0) if batch is None else batch
        self.pairs: Sequence[Pair] = pairing.pairs
        self.can_train, self.has_graph = a.can_train and b.can_train, b.can_run and not b.can_train
        self.exact: Comparison | None = None
        #: Repairs with which the noise of side A is measured; any are as good.
        self.noise_repairs: Sequence[Repair] = ()
        self._runs: dict[str, Recording] = {}

    def in_float32(self, repairs: Sequence[Repair]) -> Comparison:
        """Return the same comparison in float32, whose bounds follow from this one, too."""
        other = Comparison(self.a, self.b, self.pairing, self.batch)
        other.dtype, other.exact, other.noise_repairs = "float32", self, repairs
        other.weights, other.projection = self.weights, self.projection
        other.others = self.others
        return other

    def with_moved_weights(self, seed: int) -> Comparison:
        """Return the same comparison of weights a thousandth larger or smaller."""
        other = Comparison(self.a, self.b, self.pairing, self.batch)
        other.weights, other.noise_repairs = moved(self.weights, seed), self.noise_repairs
        other.others = self.others
        return other

    def with_pairing(self, pairing: Pairing) -> Comparison:
        """Return a comparison with other pairs, and the same runs of side B in evaluation."""
        other = Comparison(self.a, self.b, pairing, self.batch)
        other.weights, other.evaluation_b = self.weights, self.evaluation_b
        return other

    @cached_property
    def initial(self) -> dict[str, Array]:
        """Weights of side B, displaced where it can be run with them."""
        weights = self.b.weights()
        if not self.b.can_run:
            return weights
        # A layer without a partner remains what it is.
        paired = {f"{pair.b.name}|{role}" for pair in self.pairs for role in pair.b.shapes}
        moved = displaced({key: value for key, value in weights.items() if key in paired})
        return neutral_weights(self.pairing, {**weights, **moved})

    @cached_property
    def weights(self) -> dict[str, Array]:
        """Weights of side B with running statistics of one batch."""
        norms = [pair.b for pair in self.pairs if pair.b.kind == "batch norm"]
        if not norms or not self.b.can_run:
            return self.initial
        repairs = [Repair(layer.name, "momentum", 1.0) for layer in norms]
        repairs += [
            Repair(layer.name, "statistics", OF_BATCH)
            for layer in norms
            if layer.settings.get("statistics", OF_BATCH) != OF_BATCH
        ]
        request = Request(self.initial, self.dtype, training=True, repairs=repairs)
        return {**self.initial, **statistics_after(self.b.run(request))}

    @cached_property
    def training_weights(self) -> dict[str, Array]:
        """Weights of side B with displaced running statistics."""
        return moved_statistics(self.weights)

    @cached_property
    def evaluation_b(self) -> Recording:
        """Side B in evaluation."""
        return self.b.run(Request(self.weights, self.dtype))

    @cached_property
    def weights_a(self) -> dict[str, Array]:
        """Weights of side B as those of side A; what A has alone, a graph has in its constants."""
        return transfer(self.pairing, self.weights, self.a.weights() if self.has_graph else None)

    @cached_property
    def training_weights_a(self) -> dict[str, Array]:
        """Weights of side B with displaced statistics as those of side A."""
        return transfer(self.pairing, self.training_weights)

    @cached_property
    def noise(self) -> list[Values]:
        """Distances of each side in evaluation to itself, by rounding alone."""
        found = []
        if self.b.can_run:
            changed = self.b.run(Request(rounded(self.weights, self.dtype), self.dtype, seed=1))
            found.append(self._forward("b", changed, self.evaluation_b))
        weights, repairs = rounded(self.weights_a, self.dtype), self.noise_repairs
        changed = self.a.run(Request(weights, self.dtype, repairs=repairs, seed=1))
        return [*found, self._forward("a", changed, self.run_a(repairs))]

    def evaluate(self, repairs: Sequence[Repair] = ()) -> list[Difference]:
        """Compare both sides in evaluation, from the batch to the result."""
        recorded = self.run_a(repairs)
        values = forward_values(self.pairs, recorded, self.evaluation_b)
        errors = []
        if self.exact is not None:
            errors = [
                self._forward("a", recorded, self.exact.run_a(repairs)),
                self._forward("b", self.evaluation_b, self.exact.evaluation_b),
            ]
        found = differences(values, self.noise, errors, self.dtype)
        return found if self.dtype == "float32" else self.precision.bounded(found, recorded)

    def run_a(self, repairs: Sequence[Repair] = ()) -> Recording:
        """Run side A in evaluation with the weights of side B."""
        return self._stored(Request(self.weights_a, self.dtype, repairs=repairs))

    def train_a(self, repairs: Sequence[Repair] = ()) -> Recording:
        """Run side A in training with the weights of side B."""
        return self._stored(self._training(self.training_weights_a, repairs))

    def _stored(self, request: Request) -> Recording:
        """Run side A, or return what the same run has recorded."""
        key = json.dumps([request.training, [each.as_request() for each in request.repairs]])
        if key not in self._runs:
            while len(self._runs) >= _STORED:
                del self._runs[next(iter(self._runs))]
            self._runs[key] = self.a.run(request)
        return self._runs[key]

    def run_fed(self, repairs: Sequence[Repair] = ()) -> Recording:
        """Run side A with each layer fed the input of side B, and its output what follows."""
        request = Request(self.weights_a, self.dtype, repairs=repairs, feed=self.feed)
        return self.a.run(request)

    def can_run(self, candidates: Sequence[Candidate]) -> bool:
        """Whether side A has a result of its shape with the repairs of some candidates."""
        try:
            result = self.run_fed(repairs_of(candidates))["result"]
        except RunFailed:
            return False
        return result.shape == self.evaluation_b["result"].shape

    def compare_fed(self, recording: Recording) -> list[Difference]:
        """Compare inputs and outputs of each layer alone."""
        values = forward_values(self.pairs, recording, self.evaluation_b, with_inputs=True)
        return self.precision.bounded(differences(values, ()), recording)

    @cached_property
    def plain_a(self) -> Recording:
        """Side A in evaluation, without repairs."""
        return self.run_a()

    @cached_property
    def precision(self) -> Precision:
        """What one side alone computes in single precision."""
        weights = self.weights_a, self.weights
        given = [self.batch, *weights[1].values(), *weights[0].values()]
        return Precision(self.pairs, self.plain_a, self.evaluation_b, given, weights)

    @cached_property
    def feed(self) -> dict[str, Array]:
        """Inputs and outputs of side B under the names of side A."""
        return fed_tensors(self.pairs, self.plain_a, self.evaluation_b)

    def candidates(self, fed: Recording) -> list[Candidate]:
        """List what may have caused divergences: settings, and functions between layers."""
        found: dict[str, Candidate] = {}
        diverging = {each.key for each in self.compare_fed(fed) if each.exceeds}
        shared = same_inputs(
            [pair for pair in self.pairs if f"input|{pair.a.name}" in diverging],
            fed,
            self.evaluation_b,
        )
        for number, pair in enumerate(self.pairs):
            name = pair.a.name
            if f"input|{name}" not in diverging:
                continue
            if (first := found.get(shared.get(name, ""))) is not None:
                repairs = tuple(replace(each, layer=name) for each in first.repairs)
                found[name] = replace(first, layers=(), repairs=repairs)
                continue
            glue = self.glue(number, fed)
            candidate = input_candidate(glue)
            if candidate is not None and not candidate.what:
                first = found.get(candidate.follows)
                candidate = first and replace(first, layers=(), repairs=candidate.repairs)
            # Where the pair itself is in doubt, another source is no function.
            if candidate and not (pair.is_tie and candidate.value_a == UNKNOWN):
                found[name] = candidate
        between = list(found.values())
        if "result" in diverging and self.pairs:
            glue = self.glue(len(self.pairs), fed)
            between += [each] if (each := result_candidate(glue)) else []
        settings = setting_candidates(self.pairs, self.plain_a, self.evaluation_b)
        norms = norm_candidates(self.pairs, fed, self.evaluation_b, self.weights)
        return settings + tied_candidates(self.pairs) + merged(between) + norms

    def glue(self, number: int, fed: Recording) -> Glue:
        """Return what both sides compute before a layer; after the last one, before the result."""
        return glue_before(self.pairs, number, fed, self.evaluation_b, self.weights_a)

    @cached_property
    def projection(self) -> Array:
        """Fixed random numbers: the loss is the sum of their products with the result."""
        shape = self.evaluation_b["result"].shape
        return np.random.default_rng(4).normal(size=shape)

    @cached_property
    def others(self) -> dict[str, Array]:
        """Fixed random numbers for further results that both sides return in the same place."""
        generator = np.random.default_rng(5)
        return {
            key.partition("|")[2]: generator.normal(size=self.evaluation_b[key].shape)
            for key in further_results(self.plain_a, self.evaluation_b)
        }

    @cached_property
    def training_b(self) -> Recording:
        """Side B in training."""
        return self.b.run(self._training(self.training_weights))

    @cached_property
    def training_noise(self) -> list[Values]:
        """Distances of each side in training to itself, by rounding and another seed alone."""
        weights = rounded(self.training_weights, self.dtype)
        changed = self.b.run(self._training(weights, seed=1))
        found = [self._trained("b", changed, self.training_b)]
        weights, repairs = rounded(self.training_weights_a, self.dtype), self.noise_repairs
        changed = self.a.run(self._training(weights, repairs, seed=1))
        return [*found, self._trained("a", changed, self.train_a(repairs))]

    def train(self, repairs: Sequence[Repair] = ()) -> list[Difference]:
        """Compare loss, gradients, one update and running statistics."""
        recorded = self.train_a(repairs)
        if recorded["result"].shape != self.training_b["result"].shape:
            return []
        values = training_values(self.pairs, recorded, self.training_b, self.training_weights)
        errors = []
        if self.exact is not None:
            errors = [
                self._trained("a", recorded, self.exact.train_a(repairs)),
                self._trained("b", self.training_b, self.exact.training_b),
            ]
        found = differences(values, self.training_noise, errors, self.dtype)
        if self.dtype != "float32" and self.precision.is_mixed:
            found = self.precision.bounded(found, self.run_a(repairs))
        return [
            replace(each, quantity="training result") if each.quantity == "result" else each
            for each in found
        ]

    def _training(
        self, weights: Mapping[str, Array], repairs: Sequence[Repair] = (), seed: int = 0
    ) -> Request:
        return Request(
            weights, self.dtype, training=True, projection=self.projection, others=self.others,
            repairs=repairs, seed=seed,
        )  # fmt: skip

    def _forward(self, side: str, one: Recording, other: Recording) -> Values:
        """Return the distances of two evaluations of a side, by the names of side A."""
        return self._renamed(forward_values(self._own_pairs(side), one, other), side)

    def _trained(self, side: str, one: Recording, other: Recording) -> Values:
        """Return the distances of two trainings of a side, by the names of side A."""
        weights = self.training_weights_a if side == "a" else self.training_weights
        values = training_values(self._own_pairs(side), one, other, weights, NOISE_ULPS)
        return self._renamed(values, side)

    def _own_pairs(self, side: str) -> list[Pair]:
        """Pair each layer of a side with itself."""
        layers = [pair.a if side == "a" else pair.b for pair in self.pairs]
        return [Pair(layer, layer) for layer in layers]

    def _renamed(self, values: Values, side: str) -> Values:
        """Return values by the names of side A."""
        return values if side == "a" else in_names_of_a(values, self.pairs)

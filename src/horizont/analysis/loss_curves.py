"""Whether measured runs train alike: their own loss curves, compared across frameworks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from horizont.analysis.runs import group_by, steps_of, trained, uses_shared_order
from horizont.config.run import Run
from horizont.config.system import GradientExchange, float32_rounding
from horizont.records.record import Record

#: Relative difference of the first losses, which are computed from the same weights and examples.
FIRST_STEP_BOUND = 1e-3

#: The same of a trainer that rounds the inputs of its float32 products to fewer bits.
REDUCED_PRECISION_FIRST_STEP_BOUND = 0.05

#: Later losses are compared only if rounding changes them by less.
_LARGEST_USEFUL_BOUND = 0.5

#: A training whose loss exceeds the first one by this factor is unstable: that is far worse than
#: what the initial weights predict.
UNSTABLE_FACTOR = 10

#: Losses by step, of one run.
Curve = NDArray[np.float64]


def diverging_losses(records: Sequence[Record], later_bound: float) -> dict[str, str]:
    """Return why the losses of some frameworks and variants are not those of the others.

    Runs are compared that make the same updates: in one process, or synchronously with the same
    workers. A framework diverges if its losses differ from those of every other. After the first
    step, rounding explains relative differences up to `later_bound`. A training that is unstable in
    all of them multiplies differences by rounding, so only its first losses are compared.
    """
    compared = [record for record in trained(records) if _makes_shared_updates(record.run)]
    reasons: dict[str, str] = {}
    for runs in group_by(compared, lambda record: _updates_key(record.run)).values():
        by_trainer = group_by(runs, lambda record: record.run.trainer_name)
        curves = {name: [*map(_loss_curve, own)] for name, own in by_trainer.items()}
        reasons |= diverging_curves(curves, later_bound)
    return reasons


def instability(records: Sequence[Record]) -> str:
    """Return how the losses show that a training is unstable in every framework, or "".

    In some of them only, that is a difference between them.
    """
    by_trainer = group_by(trained(records), lambda record: record.run.trainer_name)
    return shared_instability([[*map(_loss_curve, own)] for own in by_trainer.values()])


def _makes_shared_updates(run: Run) -> bool:
    is_complete = run.gradient_exchange == GradientExchange()
    return run.system.sync != "async" and is_complete and uses_shared_order(run)


def _updates_key(run: Run) -> tuple[object, ...]:
    """Return what the losses of a run depend on, besides the workload."""
    topology = run.topology
    return run.seed, run.global_batch, topology.workers, topology.sharding, run.input.shards


def _loss_curve(record: Record) -> Curve:
    """Return the mean over the workers of the loss of each step; NaN if a worker has none."""
    steps: pd.DataFrame = steps_of(record)
    trained = steps[steps["kind"].isin(["warmup", "timed", "instrumented"])]
    means = trained.groupby("step")["loss"].agg(lambda loss: loss.mean(skipna=False))
    return np.asarray(means.sort_index(), np.float64)


def diverging_curves(curves: Mapping[str, Sequence[Curve]], later_bound: float) -> dict[str, str]:
    """Return why some loss curves are not those of the others, by framework and variant."""
    reasons = {}
    if unstable := shared_instability([*curves.values()]):
        reasons = dict.fromkeys(curves, f"the training is unstable, {unstable}")
        curves = {name: [curve[:1] for curve in own] for name, own in curves.items()}
    for name, own in curves.items():
        if not all(np.isfinite(curve).all() for curve in own):
            reasons[name] = "a loss of a run is not finite"
            continue
        others = [
            (curve, _first_step_bound(name, other))
            for other, each in curves.items()
            if other != name
            for curve in each
            if np.isfinite(curve).all()
        ]
        for curve in own:
            steps = [
                _first_difference(curve, other, first_bound, later_bound)
                for other, first_bound in others
            ]
            if steps and None not in steps:
                step = max(step for step in steps if step is not None)
                reasons[name] = f"the losses of a run differ from all others in step {step}"
    return reasons


def shared_instability(curves: Sequence[Sequence[Curve]]) -> str:
    """Return what the first unstable run shows, if each framework and variant has such a run.

    The curves are those of the runs of each framework and variant.
    """
    shown = [next(filter(None, map(_instability, own)), "") for own in curves]
    return shown[0] if shown and all(shown) else ""


def _instability(curve: Curve) -> str:
    is_finite = np.isfinite(curve)
    is_unstable = ~is_finite | (curve > UNSTABLE_FACTOR * np.abs(curve[:1]))
    if not is_unstable.any():
        return ""
    step = int(is_unstable.argmax())
    if step == 0:  # other weights or inputs, rather than an update
        return ""
    how = f"is more than {UNSTABLE_FACTOR} times the first" if is_finite[step] else "is not finite"
    return f"as the loss of step {step + 1} {how}"


def _first_step_bound(*trainers: str) -> float:
    is_reduced = any(float32_rounding(trainer) > 1 for trainer in trainers)
    return REDUCED_PRECISION_FIRST_STEP_BOUND if is_reduced else FIRST_STEP_BOUND


def _first_difference(
    one: Curve, other: Curve, first_bound: float, later_bound: float
) -> int | None:
    """Return the first step, from 1, in which two curves differ; None without any."""
    common = min(len(one), len(other))
    one, other = one[:common], other[:common]
    scale = np.maximum(np.maximum(np.abs(one), np.abs(other)), np.finfo(np.float64).tiny)
    bounds = np.full(common, later_bound if later_bound < _LARGEST_USEFUL_BOUND else np.inf)
    bounds[:1] = first_bound
    exceeds = np.abs(one - other) / scale > bounds
    return int(exceeds.argmax()) + 1 if exceeds.any() else None

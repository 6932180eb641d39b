"""The whole comparison of two models, from what the user wrote to a report."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from horizont.errors import UserError
from horizont.modeldiff.comparison import Comparison
from horizont.modeldiff.distances import (
    FACTOR_BOUND,
    Difference,
    first_of_each,
    gradient_factor,
    mute_reason,
)
from horizont.modeldiff.distributed import check_processes
from horizont.modeldiff.evaluations import in_float32, not_finite
from horizont.modeldiff.graphs import with_graphs
from horizont.modeldiff.inputs import make_batch
from horizont.modeldiff.larger_outputs import with_causes_beyond
from horizont.modeldiff.left_out import conversions, dropout_in_evaluation, left_out
from horizont.modeldiff.losses import compare_losses
from horizont.modeldiff.opening import open_both, open_in_parts, pair_sides, start_side
from horizont.modeldiff.optimizers import compare_optimizers
from horizont.modeldiff.pairing import write_pairs
from horizont.modeldiff.precision import SINGLE_PRECISION
from horizont.modeldiff.process import Limits, SideFailed, working_folder
from horizont.modeldiff.recorded_files import DumpSide
from horizont.modeldiff.recording import Array, Repair, Side
from horizont.modeldiff.repairs import UNKNOWN, repairs_of
from horizont.modeldiff.report import (
    IN_SINGLE_PRECISION,
    SAME,
    Agreement,
    PairedLayer,
    Report,
)
from horizont.modeldiff.script import write_script
from horizont.modeldiff.search import Cause, Explanation
from horizont.modeldiff.sides import parse_side
from horizont.modeldiff.ties import better_pairing
from horizont.modeldiff.timing import time_models
from horizont.modeldiff.trials import search_causes

NO_TRAINING = "training was not compared: a recording has evaluation only"

#: How often pairs of layers of equal shape are exchanged.
MOST_EXCHANGES = 8

#: Models with more layers without a partner, for each pair, are not the same architecture.
MOST_ALONE = 0.2


def _silent(_: str) -> None:
    """Show no progress."""


@dataclass(frozen=True)
class Options:
    """How to compare.

    Attributes
    ----------
    pairs
        A file with the pairs of layers, which is written if it does not exist.
    accept
        Causes that do not count, by name.
    ddp
        In how many processes side B is trained, each with its part of the batch.
    script
        The file that gets a program which shows the first difference alone.
    time
        Whether to time both models as well.
    progress
        Called with what is done next, in a few words.
    """

    python_a: str = ""
    python_b: str = ""
    args_a: str = ""
    args_b: str = ""
    pairs: Path | None = None
    accept: tuple[str, ...] = ()
    ddp: int = 1
    script: Path | None = None
    time: bool = False
    limits: Limits = field(default_factory=Limits)
    progress: Callable[[str], object] = _silent


def diff(a: str, b: str, batch: str | Array = "", options: Options | None = None) -> Report:
    """Compare two models.

    Parameters
    ----------
    a, b
        ``prefix:package.module:callable``, ``prefix:file.py:callable``, ``onnx:FILE.onnx`` or
        ``dump:FOLDER``.
    batch
        An array, images as ``NCHW``; or sizes, ``2x3x96x96``, or a file. A recording has its own.

    Raises
    ------
    UserError
        If an argument is not possible. A model that fails is no error: the report says why.
    """
    options = options or Options()
    spec_a = parse_side("A", a, options.args_a, options.python_a)
    spec_b = parse_side("B", b, options.args_b, options.python_b)
    if isinstance(batch, str):
        has_own = (spec_a.is_dump or spec_b.is_dump) and not batch
        batch = np.empty(0) if has_own else make_batch(batch)
    if options.ddp != 1:
        check_processes(spec_b, options.ddp, batch)
    start_s = time.monotonic()
    report = Report(a, b, accepted=options.accept)
    with working_folder() as folder, contextlib.ExitStack() as stack:
        sides: list[Side] = []
        try:
            options.progress("importing frameworks, building models")
            for spec in (spec_a, spec_b):
                processes = options.ddp if spec is spec_b else 1
                sides.append(start_side(spec, folder, options.limits, processes))
                stack.callback(sides[-1].close)
            for side in sides:
                batch = side.batch if isinstance(side, DumpSide) else batch
            report = _compare(report, sides[0], sides[1], batch, options)
            if options.time:
                options.progress("timing both models")
                report = _timed(report, sides[0], sides[1], batch)
        except SideFailed as error:
            report = replace(report, unknown=str(error))
        peak = sum(each.peak_bytes for each in sides)
        versions = [each.versions for each in sides] + [{}, {}]
    return replace(
        report,
        versions=(versions[0], versions[1]),
        batch="x".join(map(str, batch.shape)),
        seconds=time.monotonic() - start_s,
        peak_bytes=peak,
    )


def _timed(report: Report, a: Side, b: Side, batch: Array) -> Report:
    """Time both models, unless nothing is known about them."""
    if report.unknown:
        return replace(report, notes=(f"not timed: {report.unknown}", *report.notes))
    try:
        return replace(report, timing=time_models(a, b, batch))
    except SideFailed as error:
        return replace(report, notes=(f"not timed: {error}", *report.notes))


def _compare(report: Report, a: Side, b: Side, batch: Array, options: Options) -> Report:
    """Compare two sides; the one that can be changed is repaired to be as the other."""
    layers_a, layers_b = open_in_parts(a, b, batch)
    options.progress("pairing layers")
    is_chosen = options.pairs is not None and options.pairs.exists()
    pairing = pair_sides(a, b, (layers_a, layers_b), options.pairs)
    report = replace(
        report,
        pairs=len(pairing.pairs),
        ties=len(pairing.ties),
        only_a=pairing.alone_a,
        only_b=pairing.alone_b,
    )
    if not pairing.pairs:
        return replace(report, unknown="no layer of A has the kind and shape of one of B")
    if not (a.can_run or b.can_run):
        raise UserError("side B", b.name, "a model, as side A is a recording already")
    # Recorded files cannot be changed, and a model is repaired rather than a graph.
    if not a.can_run or (b.can_train and not a.can_train):
        a, b, pairing = b, a, pairing.swapped()
        report = replace(report, changed="B")
    comparison = Comparison(a, b, pairing, batch)
    if len(pairing.only_a) + len(pairing.only_b) > MOST_ALONE * len(pairing.pairs):
        return replace(report, outputs=tuple(comparison.evaluate()))
    explained = _explained(report, comparison, batch, options.progress)
    for _ in range(0 if is_chosen else MOST_EXCHANGES):
        repairs = repairs_of([cause.candidate for cause in explained.repairs])
        better = better_pairing(comparison, explained.unexplained, repairs)
        if better is None:
            break
        comparison = Comparison(a, b, better, batch)
        report = replace(report, ties=len(better.ties))
        explained = _explained(report, comparison, batch, options.progress)
        if options.pairs is not None:
            write_pairs(better if report.changed == "A" else better.swapped(), options.pairs)
    explained = with_graphs(explained, comparison)
    if options.script is not None:
        written = write_script(explained, comparison, options.script)
        explained = replace(explained, script=written)
    options.progress("comparing losses and optimizers")
    losses = compare_losses(a, b, comparison.evaluation_b["result"])
    optimizers = compare_optimizers(a, b, comparison.pairing, comparison.weights)
    explained = _with(explained, "the losses", losses)
    explained = _with(explained, "updates by the optimizers", optimizers)
    missing = tuple(each.unknown for each in (losses, optimizers) if each.unknown)
    if missing and explained.status == SAME:
        return replace(explained, unknown="; ".join(missing))
    return replace(explained, notes=explained.notes + missing)


def _with(report: Report, what: str, found: Explanation) -> Report:
    """Add to a report what the losses or the optimizers of both sides differ in."""
    agreements = [Agreement(what, found.remaining)]
    return replace(
        report,
        repairs=report.repairs + found.causes,
        unexplained=report.unexplained + found.unexplained,
        without_effect=report.without_effect + found.without_effect,
        agreements=report.agreements + tuple(each for each in agreements if each.differences),
        notes=report.notes + ((found.note,) if found.note else ()),
    )


def _explained(
    report: Report, comparison: Comparison, batch: Array, progress: Callable[[str], object]
) -> Report:
    """Find the first divergence, causes, and what agrees with all repairs."""
    progress("comparing the models as they are")
    a, b = comparison.a, comparison.b
    plain = comparison.evaluate()
    if reason := _why_incomparable(comparison):
        return replace(report, unknown=reason)
    every = comparison.candidates(comparison.run_fed())
    found = search_causes(comparison, every, progress)
    repairs = repairs_of([cause.candidate for cause in found.causes])
    evaluation = comparison.evaluate(repairs)
    in_single = comparison.precision.layers(comparison.run_a(repairs))
    causes = list(map(Cause, dropout_in_evaluation(a, b, comparison.pairs)))
    causes += found.causes if in_single else with_causes_beyond(comparison, found.causes)
    training = [each for each in found.remaining if each.quantity not in ("input", "output")]
    agreements = [Agreement("evaluation in float64", tuple(evaluation))]
    mute = mute_reason([*evaluation, *training])
    if comparison.can_train:
        agreements.append(Agreement("training in float64", tuple(training)))
    agree_in_float32 = False
    if b.can_run and not mute:
        progress("comparing in float32")
        agreements.append(_agreement_in_float32(comparison, repairs, batch))
        agree_in_float32 = not any(each.exceeds for each in agreements[-1].differences)
    exceeding = [each for agreement in agreements for each in agreement.differences if each.exceeds]
    # Inputs may differ in zeros around them, for example, where every output is the same.
    differs = exceeding or any(each.quantity != "input" for each in found.unexplained)
    fed = found.unexplained if differs else ()
    unexplained = first_of_each([*exceeding, *fed])
    without_effect = [each for each in found.without_effect if each.value_a != UNKNOWN]
    layers = {each.layer for each in unexplained}
    hidden = [each for each in without_effect if layers & {*each.layers}]
    return replace(
        report,
        layers=tuple(
            PairedLayer(pair.a.name, pair.b.name, pair.a.kind, pair.a.code, pair.b.code)
            for pair in comparison.pairs
        ),
        outputs=tuple(plain),
        repairs=tuple(causes),
        unexplained=unexplained,
        without_effect=tuple(each for each in without_effect if each not in hidden),
        agreements=tuple(agreements),
        left_out=left_out(a, b, len(comparison.others), in_single),
        unknown="" if unexplained else mute,
        notes=tuple(
            [f"cannot be repaired on side {report.changed}: {c}" for c in every if not c.repairs]
            + [f"also differs, in a layer with unexplained tensors: {each}" for each in hidden]
            + _notes(comparison, repairs, unexplained, agree_in_float32)
            + conversions(a, b)
        ),
    )


def _agreement_in_float32(
    comparison: Comparison, repairs: Sequence[Repair], batch: Array
) -> Agreement:
    """Compare both sides once more in float32, in which they stay."""
    open_both(comparison.a, comparison.b, batch, "float32")
    return Agreement("both in float32", tuple(in_float32(comparison, repairs)))


def _why_incomparable(comparison: Comparison) -> str:
    """Return why the results of both sides cannot be compared; empty if they can."""
    both = comparison.plain_a, comparison.evaluation_b
    shapes = [each["result"].shape for each in both]
    if shapes[0] != shapes[1]:
        text = " and ".join("x".join(map(str, shape)) or "a single number" for shape in shapes)
        return f"the results have different shapes, {text}"
    name = not_finite(comparison.pairs, *both)
    return name and f"on both sides, the {name} has values that are not finite"


def _notes(
    comparison: Comparison,
    repairs: Sequence[Repair],
    unexplained: Sequence[Difference],
    agree_in_float32: bool,
) -> list[str]:
    """List what was not compared, and what all unexplained tensors have in common."""
    if not comparison.b.can_run:
        return [NO_TRAINING]
    largest = max((each.distance for each in unexplained), default=0.0)
    if agree_in_float32 and 0 < largest < SINGLE_PRECISION:
        return [IN_SINGLE_PRECISION]
    if any(each.quantity == "gradient" for each in unexplained):
        trained = comparison.train_a(repairs), comparison.training_b
        factor = gradient_factor(comparison.pairs, *trained)
        if factor is not None and abs(factor - 1.0) > FACTOR_BOUND:
            a, b = comparison.a.name, comparison.b.name
            return [f"every gradient of side {b} is {factor:.6g} times that of side {a}"]
    return []

"""Predictions of the queueing model for the numbers of workers that claims name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from horizont.analysis.claims.observations import Observation, observe, predict
from horizont.analysis.claims.rules import read_rules
from horizont.analysis.extrapolation import Extrapolation, extrapolations
from horizont.analysis.runs import CertificateStatus
from horizont.records.record import Record


def model_predictions(
    records: Sequence[Record], certificates: Mapping[str, CertificateStatus]
) -> list[Observation]:
    """Predict the throughput with more workers than were measured, where a model may be used.

    Each block has predictions of its own, of a model fitted to that block alone.
    """
    groups: dict[tuple[str, str], list[Observation]] = {}
    for record in records:
        run = observe(record, certificates)
        if not run.not_timed:
            groups.setdefault((run.setting.experiment, run.setting.workload), []).append(run)
    found = []
    for runs in groups.values():
        by_name = {run.records[0]: run for run in runs}
        for curve in extrapolations([run.record for run in runs if run.record is not None]):
            if not curve.unusable_reason:
                found += _predictions(curve, by_name)
    return found


def _predictions(curve: Extrapolation, runs: Mapping[str, Observation]) -> list[Observation]:
    """Return the predictions of a model, based on the run with most workers in each block."""
    own = [runs[record.folder.name] for record in curve.records]
    largest = {run.block: run for run in sorted(own, key=lambda run: run.setting.workers)}
    measured = max(run.setting.workers for run in own)
    wanted = [number for number in _claimed_workers() if number > measured]
    predicted = []
    for block, rates in curve.predict_by_block(wanted).items():
        run = largest[block]
        for workers, updates_per_s in zip(wanted, rates, strict=True):
            values = {
                "examples_per_s": updates_per_s * curve.local_batch,
                "step_s": workers / updates_per_s,
            }
            arrangement = run.arrangement
            if not curve.servers:  # one for each worker
                arrangement = arrangement._replace(servers=workers)
            setting = run.setting._replace(workers=workers)
            predicted.append(predict(run, setting, arrangement, values))
    return predicted


def _claimed_workers() -> list[int]:
    """Return the numbers of workers that the rules name, ascending."""
    checks = chain.from_iterable(read_rules().values())
    points = [
        point
        for check in checks
        for point in (check, getattr(check, "start", None), getattr(check, "end", None))
    ]
    return sorted({n for point in points if isinstance(n := getattr(point, "workers", None), int)})

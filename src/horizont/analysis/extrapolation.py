"""Throughput of asynchronous parameter servers with more workers than were measured.

The model of `horizont.analysis.capacity_model` is fitted to the small numbers of workers of a
scaling curve and compared with the larger ones. It may be used only if it predicts these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import pandas as pd

from horizont.analysis.capacity_model import (
    MAX_FITTED_WORKERS,
    Arrangement,
    CapacityModel,
    calibrate,
)
from horizont.analysis.communication import (
    NUMBER_BYTES,
    interpolate_counter,
    steps_in_window,
    traffic,
)
from horizont.analysis.runs import samples_of, steps_of
from horizont.analysis.scaling import is_oversubscribed
from horizont.analysis.steps import common_window, step_means
from horizont.records.record import Record

#: A curve with fewer numbers of workers to fit, or fewer blocks, has no model.
MIN_FITTED_NUMBERS = 3
MIN_BLOCKS = 3

#: Largest relative error at a held-out number of workers with which a model may be used.
MAX_ERROR = 0.1


@dataclass(frozen=True)
class Extrapolation:
    """The model of a scaling curve, compared with what was measured.

    Attributes
    ----------
    system, servers, local_batch
        The curve; no servers stand for one on the host of each worker.
    points
        One row per measured number of workers: ``workers``, whether it was ``held_out``,
        ``measured`` (the median) and ``predicted`` updates per second, ``low``, ``high``, ``error``
        (relative) and whether the measured value is ``inside`` the interval.
    runs
        One row per run: ``workers``, ``block``, ``updates_per_s``, ``update_s``.
    """

    system: str
    servers: int
    local_batch: int
    model: CapacityModel
    points: pd.DataFrame
    records: tuple[Record, ...]
    runs: pd.DataFrame

    def predict_by_block(self, workers: Sequence[int]) -> dict[int, list[float]]:
        """Predict the updates per second with each number of workers, by block.

        The model is fitted to each block alone.
        """
        predicted = {}
        for block in sorted(map(int, self.runs["block"].unique())) if workers else ():
            model = calibrate(self.runs[self.runs["block"] == block], self.model.arrangement)
            predicted[block] = [estimate.value for estimate in model.predict(workers)]
        return predicted

    @property
    def unusable_reason(self) -> str:
        """Why the model may not be used for other numbers of workers; empty if it may.

        Only with equal slices is it known how much of the weights each of more servers holds.
        """
        if self.servers != 1 and not self.records[0].run.system.info.has_equal_slices:
            return "the framework decides how the weights are distributed over more servers"
        held_out = self.points[self.points["held_out"]]
        worst = held_out["error"].abs().argmax()
        error, workers = float(held_out["error"].iloc[worst]), held_out["workers"].iloc[worst]
        if abs(error) <= MAX_ERROR:
            return ""
        return f"the model is off by {error:+.0%} at {workers} workers, more than {MAX_ERROR:.0%}"


def extrapolations(records: Sequence[Record]) -> list[Extrapolation]:
    """Fit and compare a model for each scaling curve with enough numbers of workers and blocks.

    A curve is a system with asynchronous servers, with a batch per worker. Points whose hosts
    compete for CPUs are left out, and servers on the hosts of some workers only.
    """
    found = []
    for (system, servers, local_batch, _), runs in _curves(records).items():
        points = _points(runs).assign(
            updates_per_s=[step_means(record)["examples_per_s"] / local_batch for record in runs],
            update_s=[_update_time(record) for record in runs],
        )
        points = points.dropna(subset="updates_per_s")
        if _is_sufficient(points):
            model, table = compare(points, _arrangement(runs, servers))
            curve = Extrapolation(system, servers, local_batch, model, table, tuple(runs), points)
            found.append(curve)
    return found


def has_extrapolation(records: Sequence[Record]) -> bool:
    """Whether some scaling curve has enough numbers of workers and blocks for a model."""
    return any(_is_sufficient(_points(runs)) for runs in _curves(records).values())


def compare(points: pd.DataFrame, arrangement: Arrangement) -> tuple[CapacityModel, pd.DataFrame]:
    """Fit a model to the small numbers of workers and compare it with all.

    Returns the model and the table of `Extrapolation.points`; `points` as of `calibrate`.
    """
    model = calibrate(points, arrangement)
    measured = points.groupby("workers")["updates_per_s"].median()
    workers = [int(number) for number in measured.index]
    estimates = [each.columns("predicted", "low", "high") for each in model.predict(workers)]
    table = pd.DataFrame(estimates, measured.index).assign(measured=measured).reset_index()
    return model, table.assign(
        held_out=table["workers"] > MAX_FITTED_WORKERS,
        error=table["predicted"] / table["measured"] - 1.0,
        inside=table["measured"].between(table["low"], table["high"]),
    )


def _curves(records: Sequence[Record]) -> dict[tuple[str, int, int, Any], list[Record]]:
    """Group the runs by system, servers (0 for one per worker), local batch and other settings."""
    curves: dict[tuple[str, int, int, Any], list[Record]] = {}
    for record in records:
        run, topology = record.run, record.run.topology
        is_asynchronous = run.system.sync == "async" and topology.servers > 0
        is_dedicated = topology.placement == "dedicated"
        is_symmetric = is_dedicated or topology.servers == topology.workers
        has_own_hosts = len(topology.worker_hosts) == topology.workers
        if not (record.ok and is_asynchronous and is_symmetric and has_own_hosts):
            continue
        if not is_oversubscribed(record):
            servers = topology.servers if is_dedicated else 0
            others = (topology.link, topology.cpus_per_host, topology.threads, run.input)
            key = (run.system.name, servers, run.local_batch, others)
            curves.setdefault(key, []).append(record)
    return curves


def _points(records: Sequence[Record]) -> pd.DataFrame:
    rows = [(record.run.topology.workers, record.run.block) for record in records]
    return pd.DataFrame(rows, columns=["workers", "block"])


def _is_sufficient(points: pd.DataFrame) -> bool:
    numbers = points["workers"].drop_duplicates()
    fitted = int((numbers <= MAX_FITTED_WORKERS).sum())
    enough_blocks = points["block"].nunique() >= MIN_BLOCKS
    return enough_blocks and MIN_FITTED_NUMBERS <= fitted < len(numbers)


def _arrangement(records: Sequence[Record], servers: int) -> Arrangement:
    """Return servers and links of a curve.

    The bytes are those in theory times the median ratio of measured ones.
    """
    run, counted = records[0].run, traffic(records)
    ratio = counted["sent_ratio"].median() if "sent_ratio" in counted else nan
    number_bits = 8.0 * NUMBER_BYTES[run.gradient_exchange.compression]
    bits = number_bits * (records[0].result.parameters or 0) * (ratio if ratio > 0 else 1.0)
    link = run.topology.link
    uplink_s, downlink_s = (
        0.0 if rate_mbit is None else bits / (rate_mbit * 1e6)
        for rate_mbit in (link.effective_uplink_mbit, link.rate_mbit)
    )
    return Arrangement(servers, uplink_s, downlink_s)


def _update_time(record: Record) -> float:
    """Compute the seconds of an update on the servers' hosts, from the CPU time that it takes.

    That of servers, chief and scheduler in the common window of the workers, at the speed that a
    host grants; NaN if it was not sampled.
    """
    steps, samples, topology = steps_of(record), samples_of(record), record.run.topology
    begin_s, end_s = common_window(steps)
    services = samples[(samples["scope"] == "process") & ~samples["name"].str.startswith("worker")]
    used_s = [
        interpolate_counter(process, "cpu_s", begin_s, end_s)
        for _, process in services.groupby(["name", "pid"])
    ]
    updates = sum(steps_in_window(steps, begin_s, end_s))
    if not used_s or not updates > 0:
        return nan
    return sum(used_s) / updates / (topology.cpus_per_host or topology.threads)

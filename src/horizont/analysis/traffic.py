"""The bytes that each host of a run has sent and received, beside the theory."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import numpy as np
import numpy.typing as npt
import pandas as pd

from horizont.analysis.digest import common_window, shares_inside
from horizont.analysis.frames import WIRE, identity, of_system, samples_of, steps_of, systems_of
from horizont.analysis.wire import volumes, wire_s
from horizont.records import Record
from horizont.stats import median


def traffic(records: Sequence[Record]) -> pd.DataFrame:
    """Count the bytes of a step on each emulated host.

    Returns
    -------
    pandas.DataFrame
        A row a run and host: ``workers``, ``servers``, ``rate_mbit``, ``host``, ``sent_bytes``
        and ``received_bytes`` for one step of each worker on average, over the time in which all
        workers made bare steps; ``sent_theory_bytes``, ``received_theory_bytes``; ``sent_ratio``,
        ``received_ratio``: measured to theory, NaN where theory is nothing or unknown.
        Nothing of runs without hosts of their own, or without such a time.
    """
    rows = [row for record in records if record.ok for row in _rows(record)]
    columns = ["system", "block", "host", "sent_bytes", "received_bytes"]
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=columns)


def _rows(record: Record) -> list[dict[str, object]]:
    run, steps = record.run, steps_of(record)
    samples = samples_of(record)
    if not run.topology.is_emulated or samples.empty or record.result.parameters is None:
        return []
    begin_s, end_s = common_window(steps)
    by_worker = steps_inside(steps, begin_s, end_s)
    made = sum(by_worker) / run.topology.workers
    # Where a chief hands out the steps, the quick may leave none to the slow.
    if len(by_worker) < run.topology.workers or not made > 0:
        return []
    theory = volumes(run, record.result.parameters, by_worker)
    wires = samples[(samples["scope"] == "interface") & (samples["name"] == WIRE)]
    rows = []
    for host in run.topology.all_hosts:
        own = wires[wires["host"] == host]
        row: dict[str, object] = {
            **identity(record),
            "workers": run.topology.workers,
            "servers": run.topology.servers,
            "rate_mbit": run.topology.link.rate_mbit,
            "host": host,
        }
        for way in ("sent", "received"):
            counted = counted_between(own, f"{way}_bytes", begin_s, end_s) / made
            expected = getattr(theory[host], f"{way}_bytes") / made
            row[f"{way}_bytes"] = counted
            row[f"{way}_theory_bytes"] = expected
            row[f"{way}_ratio"] = counted / expected if expected > 0 else nan
        rows.append(row)
    return rows


def steps_inside(steps: pd.DataFrame, begin_s: float, end_s: float) -> list[float]:
    """Count the bare steps in a window of each worker that made any, by rank.

    A step cut by the window counts with its part.
    """
    bare = steps[steps["kind"] == "bare"]
    shares = pd.Series(shares_inside(bare, begin_s, end_s), index=bare["worker"])
    return [float(made) for made in shares.groupby(level=0).sum().sort_index()]


def counted_between(samples: pd.DataFrame, column: str, begin_s: float, end_s: float) -> float:
    """Tell how far a counter went between two moments, evenly between two samples.

    NaN if the samples do not reach over both: what was not seen is not nothing.
    """
    if len(samples) < 2:
        return nan
    ordered = samples.sort_values("time_s")
    times: npt.NDArray[np.float64] = ordered["time_s"].to_numpy(float)
    counts: npt.NDArray[np.float64] = ordered[column].to_numpy(float)
    begin, end = np.interp([begin_s, end_s], times, counts, left=nan, right=nan)
    return float(end - begin)


def transfers(records: Sequence[Record]) -> pd.DataFrame:
    """Hold the step against what the wire allows.

    Returns
    -------
    pandas.DataFrame
        A row a system and link: ``system``, ``workers``, ``servers``, ``rate_mbit``, the bare step
        ``step_s`` (median over runs of their mean), ``communication_s`` and ``waiting_s`` of the
        instrumented step, ``wire_s``, what the busiest link needs at least for a step,
        ``step_ratio``, step to wire, and ``busiest_ratio``, the largest of measured to
        theoretical bytes of any host.
    """
    rows = []
    for system in systems_of(records):
        by_shape: dict[object, list[Record]] = {}
        for record in of_system(records, system):
            if record.ok:
                by_shape.setdefault(record.run.topology, []).append(record)
        rows += [_transfer_row(own) for own in by_shape.values()]
    return pd.DataFrame(rows)


def _transfer_row(records: Sequence[Record]) -> dict[str, object]:
    run = records[0].run
    frames = [steps_of(record) for record in records]
    bare = [float(f.loc[f["kind"] == "bare", "step_s"].mean()) for f in frames]
    seen = [f[f["kind"] == "instrumented"] for f in frames]
    parameters = records[0].result.parameters
    wire = nan if parameters is None else wire_s(run, parameters)
    counted = traffic(records)
    ratios = [counted[name].max() for name in ("sent_ratio", "received_ratio") if name in counted]
    return {
        "system": run.system.name,
        "workers": run.topology.workers,
        "servers": run.topology.servers,
        "rate_mbit": run.topology.link.rate_mbit,
        "runs": len(records),
        "step_s": median(bare),
        "communication_s": median([float(f["communication_s"].mean()) for f in seen]),
        "waiting_s": median([float(f["waiting_s"].mean()) for f in seen]),
        "wire_s": wire,
        "step_ratio": median(bare) / wire if wire > 0 else nan,
        "busiest_ratio": max(ratios, default=nan),
    }

"""Ten epochs of the 2021 study: published, extrapolated from measured steps, and really run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from math import nan
from typing import Any

import numpy as np
import pandas as pd

from horizont.analysis.claims.publications import published_steps, published_times
from horizont.analysis.runs import by_system, group_by, startup_times, table_order, trained
from horizont.analysis.steps import REMOTE_PHASES, means_by_run
from horizont.config.system import qualified_name
from horizont.records.record import Record
from horizont.statistics.intervals import mean_interval

#: Where times come from, in the order of tables.
ORIGINS = ("published", "measured", "subtraction")

#: The parts of a total; the published one consists of the first four.
PARTS = ("load", "forward", "backward", "network", "update", "other")

_TOTAL = ["total_s", "low_s", "high_s"]
_COLUMNS = ["system", "origin", *_TOTAL, *(f"{part}_s" for part in PARTS)]
_COLUMNS += ["startup_s", "blocks", "steps", "workers"]

#: The settings that a run and its extrapolation have in common.
_COMMON_SETTINGS = {
    *("workload", "system", "topology", "global_batch"),
    *("input", "gradient_exchange", "record_updates"),
}


def steps_of_ten_epochs(record: Record) -> float:
    """Return the steps of a worker in the published ten epochs; NaN without published times."""
    workload = record.run.workload_name
    is_published = workload in set(published_times()["workload"])
    return published_steps(workload, record.run.local_batch) if is_published else nan


def ten_epochs(records: Sequence[Record]) -> pd.DataFrame:
    """Compare the published ten epochs of a workload with those of an experiment on it.

    The experiment's times are the mean step of a worker, in each run and then over the runs, times
    the steps of a worker in the published training. The total is that of the timed steps; its parts
    are those of the instrumented steps and add up to these. The records have one topology.

    One row per distributed system and origin, in seconds: ``system``, ``origin`` (of `ORIGINS`),
    ``total_s`` with its 95 % interval over the blocks ``low_s``, ``high_s``, and ``<part>_s`` for
    each of `PARTS`, where ``network`` includes the waiting; of measured times also ``startup_s``,
    ``blocks``, ``steps`` (timed, in each block) and ``workers``. By ``subtraction``, as in the
    study, the network is the total less that of a single process, which gives all other parts.
    """
    included = [record for record in records if steps_of_ten_epochs(record) > 0]
    published = published_times()
    published = published[published["workload"].isin({r.run.workload_name for r in included})]
    rows: list[dict[Any, Any]] = published.assign(origin="published").to_dict("records")
    groups = by_system(included)
    times = {system: _extrapolate(runs) for system, runs in groups.items()}
    startup_s = startup_times(included).groupby("system")["mean_s"].sum()
    for system, runs in groups.items():
        run, measured = runs[0].run, times[system]
        if run.system.is_local or not measured["total_s"] > 0:
            continue
        facts = {
            "startup_s": float(startup_s.get(system, nan)),
            "blocks": sum(record.ok for record in runs),
            "steps": run.steps.timed,
            "workers": run.topology.workers,
        }
        rows.append({"system": system, "origin": "measured", **measured, **facts})
        local = times.get(qualified_name(f"{run.system.framework}/local", run.system.variant))
        if local is not None and local["total_s"] > 0:
            total = {name: measured[name] for name in _TOTAL}
            network = {"network_s": measured["total_s"] - local["total_s"]}
            rows.append({"system": system, "origin": "subtraction", **local, **total, **network})
    table = pd.DataFrame(rows, columns=_COLUMNS)  # the rows of a system are in the order of ORIGINS
    return table.sort_values("system", key=table_order, kind="stable", ignore_index=True)


def _extrapolate(records: Sequence[Record]) -> dict[str, float]:
    """Multiply the mean step of a system's runs by the published steps."""
    count = steps_of_ten_epochs(records[0])
    means = means_by_run(records) * count
    phase_s = means.mean()
    phase_s["network"] = phase_s[list(REMOTE_PHASES)].sum(min_count=1)
    total = dict(zip(_TOTAL, _mean_and_interval(means["timed_s"]), strict=True))
    return total | {f"{part}_s": float(phase_s[part]) for part in PARTS}


def _mean_and_interval(values_s: pd.Series) -> tuple[float, float, float]:
    """Return the mean and its 95 % interval: Student's t of the logarithms, so it is positive."""
    logs = mean_interval(np.log(values_s))
    return float(values_s.mean()), float(np.exp(logs.low)), float(np.exp(logs.high))


def has_ten_epochs(record: Record) -> bool:
    """Whether a successful run made at least the steps of the published ten epochs."""
    steps = record.run.steps
    return record.ok and steps.warmup + steps.timed >= steps_of_ten_epochs(record)


def extrapolation_errors(records: Sequence[Record]) -> pd.DataFrame:
    """Compare ten epochs that were run with their extrapolation from shorter runs.

    Runs and extrapolations have the same machine, workload, system, topology, batch and input, and
    are compared over the same number of timed steps.

    One row per long experiment, system and shorter experiment: ``workload``, ``system``,
    ``experiment`` (the shorter one), its ``blocks`` and timed ``steps`` in each,
    ``extrapolated_s`` with its 95 % interval over the blocks ``low_s``, ``high_s``; of the longer
    one ``long_blocks``, ``long_steps`` and ``measured_s``, a mean over workers and runs; ``error``,
    the relative one of the extrapolation; ``own_error``, that of one from as many first steps of
    the longer runs themselves, which no difference between runs is part of.
    """
    included = [record for record in trained(records) if steps_of_ten_epochs(record) > 0]
    groups = group_by(
        included, lambda r: (r.machine, r.run.model_dump_json(include=_COMMON_SETTINGS))
    )
    experiments = [group_by(runs, lambda r: r.run.experiment).values() for runs in groups.values()]
    rows = [
        _compare(long, short)
        for by_experiment in experiments
        for long, short in permutations(by_experiment, 2)
        if has_ten_epochs(long[0]) and not has_ten_epochs(short[0])
    ]
    columns = ["workload", "system", "experiment", "blocks", "steps", "extrapolated_s"]
    columns += ["low_s", "high_s", "long_blocks", "long_steps", "measured_s", "error", "own_error"]
    table = pd.DataFrame(rows, columns=columns)
    return table.sort_values(["workload", "system"], key=table_order, ignore_index=True)


def _compare(long: Sequence[Record], short: Sequence[Record]) -> dict[str, object]:
    run, steps = short[0].run, long[0].run.steps.timed
    extrapolated_s, low_s, high_s = _mean_and_interval(means_by_run(short)["timed_s"] * steps)
    measured_s = float(means_by_run(long)["timed_s"].mean() * steps)
    return {
        "workload": run.workload_name,
        "system": run.system.name,
        "experiment": run.experiment,
        "blocks": len(short),
        "steps": run.steps.timed,
        "extrapolated_s": extrapolated_s,
        "low_s": low_s,
        "high_s": high_s,
        "long_blocks": len(long),
        "long_steps": steps,
        "measured_s": measured_s,
        "error": extrapolated_s / measured_s - 1.0,
        "own_error": _first_steps_s(long, run.steps.timed) * steps / measured_s - 1.0,
    }


def _first_steps_s(records: Sequence[Record], count: int) -> float:
    """Return the mean of the first timed steps of each worker, and over runs."""
    means = []
    for record in records:
        steps = record.steps().to_pandas()
        timed = steps[steps["kind"] == "timed"].sort_values("step")
        means.append(float(timed.groupby("worker").head(count)["step_s"].mean()))
    return float(np.mean(means))

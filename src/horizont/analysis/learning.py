"""How the loss fell, and how good the network was in the end."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from horizont.analysis.runs import (
    records_of_system,
    run_columns,
    steps_of,
    system_order,
    systems_of,
)
from horizont.records.record import Record
from horizont.statistics.intervals import median_interval


def losses(records: Sequence[Record]) -> pd.DataFrame:
    """Collect the losses of all runs that went well.

    Returns
    -------
    pandas.DataFrame
        A row a run and step number: ``loss``, the mean over the workers that measured it;
        ``examples``, how many the run had seen by then if its workers kept pace; ``time_s`` of
        training since the first step of the run began, in which the pause between the warm-up
        and the bare steps does not count: there workers may wait for the launcher.
    """
    tables = [_run_losses(record) for record in _successful(records)]
    tables = [table for table in tables if len(table)]
    if not tables:
        return pd.DataFrame(columns=["system", "block", "step", "examples", "time_s", "loss"])
    return pd.concat(tables, ignore_index=True)


def _successful(records: Sequence[Record]) -> list[Record]:
    """Pick the runs that went well, in the order of systems and blocks."""
    return [
        record
        for system in systems_of(records)
        for record in records_of_system(records, system)
        if record.ok
    ]


def _run_losses(record: Record) -> pd.DataFrame:
    steps = steps_of(record)
    if steps.empty:
        return steps
    known = steps[steps["loss"].notna()]
    ends = known.assign(time_s=_training_time_s(steps, known["worker"], known["start_s"]))
    ends["time_s"] += ends["step_s"]
    table = ends.groupby("step", as_index=False).agg(
        loss=("loss", "mean"), time_s=("time_s", "max")
    )
    table["examples"] = (table["step"] - steps["step"].min() + 1) * record.run.global_batch
    return table.assign(**run_columns(record))


def _training_time_s(steps: pd.DataFrame, worker: pd.Series, time_s: pd.Series) -> pd.Series:
    """Tell how long a run had trained at some moments of its workers, without their pauses."""
    warmup, bare = (steps[steps["kind"] == kind] for kind in ("warmup", "timed"))
    resumed_s = bare.groupby("worker")["start_s"].min()
    paused_s = resumed_s - (warmup["start_s"] + warmup["step_s"]).groupby(warmup["worker"]).max()
    is_after = time_s >= worker.map(resumed_s)
    trained_s: pd.Series = time_s - steps["start_s"].min()
    return trained_s - worker.map(paused_s).where(is_after, 0.0)


def smoothed(table: pd.DataFrame, window: int = 21) -> pd.DataFrame:
    """Lay a running median over the loss of each run.

    The loss of a single batch says more about the batch than about the network.

    Parameters
    ----------
    window
        Steps under the median, the present one in the middle.
    """
    groups = table.sort_values("step").groupby(["system", "block"], sort=False)["loss"]
    smooth = groups.transform(
        lambda loss: loss.rolling(window, center=True, min_periods=1).median()
    )
    return table.assign(smooth=smooth)


#: How good a network is, by the name of its measure in a result.
EVALUATION_METRICS = {"accuracy": "test_accuracy", "perplexity": "test_perplexity"}


def final_metrics(records: Sequence[Record]) -> pd.DataFrame:
    """List how good the network of every run was in the end, if that was measured.

    Returns
    -------
    pandas.DataFrame
        ``experiment, workload, system, block, measure`` (accuracy or perplexity) and ``value``.
    """
    rows = [
        {**run_columns(record), "metric": measure, "value": getattr(record.result, column)}
        for record in _successful(records)
        for measure, column in EVALUATION_METRICS.items()
        if getattr(record.result, column) is not None
    ]
    columns = ["experiment", "workload", "system", "block", "metric", "value"]
    return pd.DataFrame(rows, columns=columns)


def evaluations(records: Sequence[Record]) -> pd.DataFrame:
    """List how good the networks were on their way, of all runs that looked.

    Returns
    -------
    pandas.DataFrame
        A row a look: ``system, block, measure, value``; ``examples`` that the run had seen if its
        workers kept pace; ``time_s`` of training, as of `losses`.
    """
    tables = [_run_evaluations(record) for record in _successful(records)]
    tables = [table for table in tables if len(table)]
    if not tables:
        columns = ["system", "block", "metric", "value", "examples", "time_s"]
        return pd.DataFrame(columns=columns)
    return pd.concat(tables, ignore_index=True)


def _run_evaluations(record: Record) -> pd.DataFrame:
    told = record.evaluation()
    if told is None:
        return pd.DataFrame()
    table = told.to_pandas()
    measure = next(name for name, column in EVALUATION_METRICS.items() if column in table)
    looker = pd.Series(0, index=table.index)  # the first worker, or who leads it
    return pd.DataFrame(
        {
            "value": table[EVALUATION_METRICS[measure]],
            "examples": table["step"] * record.run.global_batch,
            "time_s": _training_time_s(steps_of(record), looker, table["time_s"]),
        }
    ).assign(measure=measure, **run_columns(record))


def time_to_loss(records: Sequence[Record], target_loss: float | None = None) -> pd.DataFrame:
    """Tell how soon each system came to a loss, from its first step.

    Parameters
    ----------
    goal
        The smoothed loss to come to; nothing takes the lowest that every run came to.

    Returns
    -------
    pandas.DataFrame
        A row a system: ``target_loss``, ``time_s`` with ``low``, ``high`` and ``level`` (median over
        runs), ``examples`` that it took (median), ``reached`` of ``planned`` runs.
    """
    table = smoothed(losses(records))
    if target_loss is None:
        target_loss = float(table.groupby(["system", "block"])["smoothed_loss"].min().max())
    rows = []
    for system in system_order(table["system"].unique()):
        runs = [run for _, run in table[table["system"] == system].groupby("block")]
        there = [run[run["smoothed_loss"] <= target_loss].head(1) for run in runs]
        times = [float(first["time_s"].iloc[0]) for first in there if len(first)]
        examples = [float(first["examples"].iloc[0]) for first in there if len(first)]
        time = median_interval(times)
        rows.append(
            {
                "system": system,
                "target_loss": target_loss,
                "time_s": time.value,
                "time_low_s": time.low,
                "time_high_s": time.high,
                "level": time.level,
                "examples": median_interval(examples).value,
                "reached": len(times),
                "planned": len(records_of_system(records, system)),
            }
        )
    return pd.DataFrame(rows)

"""Loss curves, evaluation metrics, time to a loss."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import numpy as np
import pandas as pd

from horizont.analysis.runs import by_system, concat_tables, run_columns, steps_of, successful
from horizont.records.record import Record
from horizont.statistics.intervals import median, median_interval

#: Evaluation metric -> its field in a result and its column in an evaluation table.
EVALUATION_METRICS = {"accuracy": "test_accuracy", "perplexity": "test_perplexity"}

#: Steps whose losses are smoothed together, centred on the present one.
SMOOTHING_STEPS = 21

_EVALUATION_COLUMNS = [
    *("system", "block", "metric", "value", "train_value", "step", "examples", "time_s"),
    *("workers", "learning_rate", "initial_limit"),
]


def are_about_learning(records: Sequence[Record]) -> bool:
    """Whether runs were repeated with other seeds, and without samples of the machine."""
    is_sampled = any(record.run.sampler_hz for record in records)
    return not is_sampled and len({record.run.seed for record in records}) > 1


def losses(records: Sequence[Record]) -> pd.DataFrame:
    """Collect the losses of all successful runs.

    One row per run and step number: ``loss``, the mean over the workers that measured it;
    ``examples`` seen by the run until then if its workers advance at the same rate; ``time_s`` of
    training since the start of the first step, without the pause between the warm-up and the timed
    steps, in which workers may wait for the launcher.
    """
    tables = [_run_losses(record) for record in successful(records)]
    return concat_tables(tables, ["system", "block", "step", "examples", "time_s", "loss"])


def _run_losses(record: Record) -> pd.DataFrame:
    steps = steps_of(record)
    if steps.empty:
        return steps
    known = steps[steps["loss"].notna()]
    start_s = _training_time_s(steps, known["worker"], known["start_s"])
    ends = known.assign(time_s=start_s + known["step_s"])
    table = ends.groupby("step", as_index=False).agg(
        loss=("loss", "mean"), time_s=("time_s", "max")
    )
    table["examples"] = (table["step"] - steps["step"].min() + 1) * record.run.global_batch
    return table.assign(**run_columns(record))


def _training_time_s(steps: pd.DataFrame, worker: pd.Series, time_s: pd.Series) -> pd.Series:
    """Compute the training time of a run at moments of its workers, without their pauses."""
    warmup, timed = (steps[steps["kind"] == kind] for kind in ("warmup", "timed"))
    resumed_s = timed.groupby("worker")["start_s"].min()
    paused_s = resumed_s - (warmup["start_s"] + warmup["step_s"]).groupby(warmup["worker"]).max()
    is_after = time_s >= worker.map(resumed_s)
    elapsed_s: pd.Series = time_s - steps["start_s"].min()
    return elapsed_s - worker.map(paused_s).where(is_after, 0.0)


def smoothed(table: pd.DataFrame) -> pd.DataFrame:
    """Compute ``smoothed_loss``, the running median of the loss of each run.

    The loss of a single batch depends more on the batch than on the network.
    """
    runs = table.sort_values("step").groupby(["system", "block"], sort=False)["loss"]
    rolling = runs.rolling(SMOOTHING_STEPS, center=True, min_periods=1)
    return table.assign(smoothed_loss=rolling.median().droplevel(["system", "block"]))


def loss_ratios(records: Sequence[Record]) -> pd.DataFrame:
    """Divide asynchronous losses by synchronous ones after the same number of updates.

    One row per asynchronous system, block and number of updates: ``ratio`` of the smoothed losses
    to those of a synchronous system of the framework, where that has the block. The first
    and the last steps, whose running medians lack steps on one side, are left out.
    """
    curves = dict(list(smoothed(losses(records)).groupby(["system", "block"], sort=False)))
    runs = [record.run for record in successful(records)]
    synchronous = {
        run.system.framework: run.system.name for run in runs if run.system.sync == "sync"
    }
    found, half = [], SMOOTHING_STEPS // 2
    for run in runs:
        partner = synchronous.get(run.system.framework, ""), run.block
        if run.system.sync != "async" or partner not in curves:
            continue
        expected = curves[partner]
        own = curves[run.system.name, run.block].iloc[half:-half]
        own = own.assign(updates=own["step"] * run.topology.workers)
        own = own[own["updates"] <= expected["step"].max() - half]
        loss = np.interp(own["updates"], expected["step"], expected["smoothed_loss"])
        found.append(own.assign(ratio=own["smoothed_loss"] / loss))
    columns = ["system", "block", "updates", "ratio"]
    return concat_tables(found, columns)[columns]


def final_metrics(records: Sequence[Record]) -> pd.DataFrame:
    """List the evaluation metrics of every run after its last step, where measured.

    ``experiment, workload, system, block, metric`` (accuracy or perplexity) and ``value``.
    """
    rows = [
        {**run_columns(record), "metric": metric, "value": getattr(record.result, field)}
        for record in successful(records)
        for metric, field in EVALUATION_METRICS.items()
        if getattr(record.result, field) is not None
    ]
    columns = ["experiment", "workload", "system", "block", "metric", "value"]
    return pd.DataFrame(rows, columns=columns)


def evaluations(records: Sequence[Record]) -> pd.DataFrame:
    """List the evaluations of checkpoints during training, of all runs that made any.

    One row per checkpoint: ``system, block, metric, value``, and ``train_value`` on training
    images, NaN where unmeasured; ``step`` of the evaluating worker; ``examples`` seen by the run if
    its workers advance at the same rate; ``time_s`` of training, see `losses`; and the settings
    ``workers``, ``learning_rate`` and ``initial_limit``, NaN for that of the network.
    """
    tables = []
    for record in successful(records):
        evaluation = record.evaluation()
        if evaluation is None or not len(evaluation):
            continue
        table = evaluation.to_pandas()
        metric = next(name for name, column in EVALUATION_METRICS.items() if column in table)
        evaluator = pd.Series(0, index=table.index)  # the first worker or the coordinator
        values = {
            "value": table[EVALUATION_METRICS[metric]],
            "train_value": table.get("train_accuracy", nan),
            "step": table["step"],
            "examples": table["step"] * record.run.global_batch,
            "time_s": _training_time_s(steps_of(record), evaluator, table["time_s"]),
        }
        workload = record.run.workload
        settings = {
            "workers": record.run.topology.workers,
            "learning_rate": workload.optimizer.learning_rate,
            "initial_limit": nan if workload.initial_limit is None else workload.initial_limit,
        }
        columns = {"metric": metric, **run_columns(record), **settings}
        tables.append(pd.DataFrame(values).assign(**columns))
    return concat_tables(tables, _EVALUATION_COLUMNS)


def time_to_loss_by_run(records: Sequence[Record]) -> pd.DataFrame:
    """Find when each run reaches the lowest smoothed loss that every run reached.

    One row per run with losses: ``system, block, target_loss``, and ``time_s`` and ``examples`` of
    the first step with such a loss, NaN without one. A run with fewer steps than are smoothed has
    none: its loss depends on the batches.
    """
    runs = ["system", "block"]
    table = losses(records)
    steps = table.groupby(runs)["step"].transform("size")
    table = smoothed(table[steps >= SMOOTHING_STEPS])
    target_loss = float(table.groupby(runs)["smoothed_loss"].min().max())
    first = table[table["smoothed_loss"] <= target_loss].groupby(runs).head(1)
    every = table[runs].drop_duplicates().assign(target_loss=target_loss)
    return every.merge(first[[*runs, "time_s", "examples"]], "left", runs)


def time_to_loss(records: Sequence[Record]) -> pd.DataFrame:
    """Estimate the training time that each system takes to reach the lowest loss that all reached.

    One row per system: ``target_loss``, of smoothed losses; ``time_s`` with ``time_low_s``,
    ``time_high_s`` and ``level`` (median over the runs), ``examples`` (median), ``reached`` of
    ``planned`` runs.
    """
    first = time_to_loss_by_run(records)
    rows = []
    for system, runs in by_system(records).items():
        known = first[first["system"] == system]
        if known.empty:
            continue
        reached = known.dropna(subset="time_s")
        time = median_interval(reached["time_s"])
        rows.append(
            {
                "system": system,
                "target_loss": known["target_loss"].iloc[0],
                **time.columns("time_s", "time_low_s", "time_high_s", "level"),
                "examples": median(reached["examples"]),
                "reached": len(reached),
                "planned": len(runs),
            }
        )
    return pd.DataFrame(rows)

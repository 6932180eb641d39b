"""How the loss fell, and how good the network was in the end."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from horizont.analysis.frames import identity, of_system, steps_of, systems_of
from horizont.records import Record


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
    tables = [_run_losses(record) for record in _good(records)]
    tables = [table for table in tables if len(table)]
    if not tables:
        return pd.DataFrame(columns=["system", "block", "step", "examples", "time_s", "loss"])
    return pd.concat(tables, ignore_index=True)


def _good(records: Sequence[Record]) -> list[Record]:
    """Pick the runs that went well, in the order of systems and blocks."""
    return [
        record
        for system in systems_of(records)
        for record in of_system(records, system)
        if record.ok
    ]


def _run_losses(record: Record) -> pd.DataFrame:
    steps = steps_of(record)
    if steps.empty:
        return steps
    known = steps[steps["loss"].notna()]
    ends = known.assign(time_s=_trained_s(steps, known["worker"], known["start_s"]))
    ends["time_s"] += ends["step_s"]
    table = ends.groupby("step", as_index=False).agg(
        loss=("loss", "mean"), time_s=("time_s", "max")
    )
    table["examples"] = (table["step"] - steps["step"].min() + 1) * record.run.global_batch
    return table.assign(**identity(record))


def _trained_s(steps: pd.DataFrame, worker: pd.Series, time_s: pd.Series) -> pd.Series:
    """Tell how long a run had trained at some moments of its workers, without their pauses."""
    warmup, bare = (steps[steps["kind"] == kind] for kind in ("warmup", "bare"))
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
MEASURES = {"accuracy": "test_accuracy", "perplexity": "test_perplexity"}


def qualities(records: Sequence[Record]) -> pd.DataFrame:
    """List how good the network of every run was in the end, if that was measured.

    Returns
    -------
    pandas.DataFrame
        ``experiment, workload, system, block, measure`` (accuracy or perplexity) and ``value``.
    """
    rows = [
        {**identity(record), "measure": measure, "value": getattr(record.result, column)}
        for record in _good(records)
        for measure, column in MEASURES.items()
        if getattr(record.result, column) is not None
    ]
    columns = ["experiment", "workload", "system", "block", "measure", "value"]
    return pd.DataFrame(rows, columns=columns)


def looks(records: Sequence[Record]) -> pd.DataFrame:
    """List how good the networks were on their way, of all runs that looked.

    Returns
    -------
    pandas.DataFrame
        A row a look: ``system, block, measure, value``; ``examples`` that the run had seen if its
        workers kept pace; ``time_s`` of training, as of `losses`.
    """
    tables = [_run_looks(record) for record in _good(records)]
    tables = [table for table in tables if len(table)]
    if not tables:
        columns = ["system", "block", "measure", "value", "examples", "time_s"]
        return pd.DataFrame(columns=columns)
    return pd.concat(tables, ignore_index=True)


def _run_looks(record: Record) -> pd.DataFrame:
    told = record.quality()
    if told is None:
        return pd.DataFrame()
    table = told.to_pandas()
    measure = next(name for name, column in MEASURES.items() if column in table)
    looker = pd.Series(0, index=table.index)  # the first worker, or who leads it
    return pd.DataFrame(
        {
            "value": table[MEASURES[measure]],
            "examples": table["step"] * record.run.global_batch,
            "time_s": _trained_s(steps_of(record), looker, table["time_s"]),
        }
    ).assign(measure=measure, **identity(record))

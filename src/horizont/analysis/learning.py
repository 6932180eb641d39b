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
        ``examples``, how many the run had seen by then if its workers kept pace; ``time_s``
        since the first step of the run began.
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
    begin_s = steps["start_s"].min()
    known = steps[steps["loss"].notna()]
    ends = known.assign(time_s=known["start_s"] + known["step_s"] - begin_s)
    table = ends.groupby("step", as_index=False).agg(
        loss=("loss", "mean"), time_s=("time_s", "max")
    )
    table["examples"] = (table["step"] - steps["step"].min() + 1) * record.run.global_batch
    return table.assign(**identity(record))


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


def accuracies(records: Sequence[Record]) -> pd.DataFrame:
    """List the test accuracy of every run that measured it: ``system, block, accuracy``."""
    rows = [
        {**identity(record), "accuracy": record.result.test_accuracy}
        for record in _good(records)
        if record.result.test_accuracy is not None
    ]
    return pd.DataFrame(rows, columns=["experiment", "workload", "system", "block", "accuracy"])

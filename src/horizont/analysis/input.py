"""Input pipelines alone and during training."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Any

import pandas as pd

from horizont.analysis.runs import steps_of, table_order, uses_shared_order
from horizont.records.record import Record

#: The columns of `input_pipelines` that are measured in every run.
MEASURED_COLUMNS = (
    "first_batch_s",
    "first_epoch_s",
    "later_epochs_s",
    "wait_s",
    "wait_fraction",
    "blocked_s",
    "step_s",
    "memory_bytes",
    "page_cache_fraction",
)


def input_pipelines(records: Sequence[Record]) -> pd.DataFrame:
    """Compare the speed of each input pipeline alone with the wait for it during training.

    One row per system and ``input``, medians over the successful runs. Of the pipeline alone, in
    seconds per batch: ``first_batch_s``, ``first_epoch_s`` (mean over the first epoch) and
    ``later_epochs_s`` (mean over the others; NaN without any). Of the training: ``wait_s``, the
    wait for the next batch in an instrumented step, in which the framework has nothing else to do,
    and ``wait_fraction`` of that step; ``blocked_s``, the same line in a timed step (with an
    asynchronous engine it can include computation); ``step_s``, the timed step, and
    ``extra_over_memory_s``, its difference to that with examples in memory. ``memory_bytes`` and
    ``page_cache_fraction``: see :class:`horizont.records.results.InputMeasurement`. Besides
    ``shared_order``, ``ok`` of ``planned`` runs and ``reason``. NaN where not measured.
    """
    if not records:
        return pd.DataFrame()
    by_run = pd.DataFrame([_row(record) for record in records])
    groups = by_run.groupby(["system", "input"], sort=False)
    table = groups["shared_order"].first().to_frame().join(groups[[*MEASURED_COLUMNS]].median())
    table["ok"], table["planned"] = groups["ok"].sum(), groups.size()
    table["reason"] = groups["reason"].agg(lambda reasons: next(filter(None, reasons), ""))
    table = table.reset_index()
    in_memory_s = table[table["input"] == "memory"].set_index("system")["step_s"]
    table["extra_over_memory_s"] = table["step_s"] - table["system"].map(in_memory_s)
    return table.sort_values("system", key=table_order, kind="stable", ignore_index=True)


def waiting_times(records: Sequence[Record]) -> dict[str, dict[str, float | None]]:
    """Return ``wait_s`` of `input_pipelines` by system and input; None where unknown."""
    times_s: dict[str, dict[str, float | None]] = {}
    for row in input_pipelines(records).to_dict(orient="records"):
        wait_s = None if pd.isna(row["wait_s"]) else float(f"{row['wait_s']:.6g}")
        times_s.setdefault(str(row["system"]), {})[str(row["input"])] = wait_s
    return times_s


def _row(record: Record) -> dict[str, Any]:
    run, result = record.run, record.result
    return {
        "system": run.system.name,
        "input": run.input.label(run.system.framework),
        "shared_order": uses_shared_order(run),
        "ok": record.ok,
        "reason": "" if record.ok else f"{result.status}: {result.reason}",
        **dict.fromkeys(MEASURED_COLUMNS, nan),
        **(_measured_columns(record) if record.ok else {}),
    }


def _measured_columns(record: Record) -> dict[str, float]:
    steps = steps_of(record)
    timed, instrumented = (steps[steps["kind"] == kind] for kind in ("timed", "instrumented"))
    values = {
        "wait_s": float(instrumented["load_s"].mean()),
        "wait_fraction": float(instrumented["load_s"].mean() / instrumented["step_s"].mean()),
        "blocked_s": float(timed["load_s"].mean()),
        "step_s": float(timed["step_s"].mean()),
    }
    batches = record.input_batches()
    if batches is not None:
        frame = batches.to_pandas()
        batch_s, is_first = frame["batch_s"], frame["epoch"] == 0
        values["first_batch_s"] = float(batch_s.iloc[0])
        values["first_epoch_s"] = float(batch_s[is_first].mean())
        values["later_epochs_s"] = float(batch_s[~is_first].mean())
    if record.result.input is not None:
        measured = record.result.input.model_dump()
        values |= {name: nan if value is None else value for name, value in measured.items()}
    return values

"""What a pipeline gives by itself, and how long a training waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Any

import pandas as pd

from horizont.analysis.runs import steps_of, system_order, uses_shared_order
from horizont.records.record import Record
from horizont.statistics.intervals import median

#: The columns in which a row of `inputs` differs from run to run.
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
    """Put what each input gives alone beside what the training waits for.

    Returns
    -------
    pandas.DataFrame
        A row a system and input, medians over the runs that went well. Of the pipeline alone, in
        seconds a batch: ``first_batch_s`` (the first batch), ``first_epoch_s`` (mean of the first epoch
        that was drained, its first batch included) and ``later_epochs_s`` (mean of those after it; NaN
        if there were none). Of the training: ``wait_s``, for which the loop waited for its next
        batch in an instrumented step, when the framework has nothing else to do, and
        ``wait_fraction`` of that step; ``blocked_s``, which the same line took in a bare step (of an
        asynchronous engine that can include computing); ``step_s``, the bare step, and ``extra_over_memory_s``,
        what it takes longer than with examples in memory, NaN where that was not run.
        ``memory_bytes`` and ``page_cache_fraction`` as of :class:`horizont.records.results.InputFacts`.
        Beside them ``input``, ``shared_order``, ``ok`` of ``planned`` runs and ``reason``.
    """
    if not records:
        return pd.DataFrame()
    table = pd.DataFrame([_row(record) for record in records])
    grouped = table.groupby(["system", "input"], sort=False)
    rows = [_median_row(own) for _, own in grouped]
    found = pd.DataFrame(rows)
    found["extra_over_memory_s"] = found["step_s"] - found["system"].map(_in_memory_step_s(found))
    place = {name: number for number, name in enumerate(system_order(found["system"]))}
    order = found["system"].map(place).argsort(kind="stable")
    return found.iloc[order].reset_index(drop=True)


def input_metrics(records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    """Reduce the table to numbers by system and input; what is not known is None."""
    found: dict[str, dict[str, Any]] = {}
    for row in input_pipelines(records).to_dict(orient="records"):
        numbers = {name: row[name] for name in (*MEASURED_COLUMNS, "extra_over_memory_s")}
        plain = {name: None if pd.isna(v) else float(f"{v:.6g}") for name, v in numbers.items()}
        found.setdefault(str(row["system"]), {})[str(row["input"])] = plain
    return found


def _row(record: Record) -> dict[str, Any]:
    run = record.run
    return {
        "system": run.system.name,
        "input": run.input.label(run.system.framework),
        "shared_order": uses_shared_order(run),
        "ok": record.ok,
        "reason": "" if record.ok else f"{record.result.status}: {record.result.reason}",
        **dict.fromkeys(MEASURED_COLUMNS, nan),
        **(_measured(record) if record.ok else {}),
    }


def _measured(record: Record) -> dict[str, float]:
    return {**_pipeline_times(record), **_training_times(steps_of(record)), **_resource_use(record)}


def _pipeline_times(record: Record) -> dict[str, float]:
    """Average what the drained batches took."""
    drained = record.input_batches()
    if drained is None:
        return {}
    frame = drained.to_pandas()
    batch_s, first = frame["batch_s"], frame["epoch"] == 0
    return {
        "first_batch_s": float(batch_s.iloc[0]),
        "first_epoch_s": float(batch_s[first].mean()),
        "later_epochs_s": float(batch_s[~first].mean()),
    }


def _training_times(steps: pd.DataFrame) -> dict[str, float]:
    bare, seen = (steps[steps["kind"] == kind] for kind in ("timed", "instrumented"))
    return {
        "wait_s": float(seen["load_s"].mean()),
        "wait_fraction": float(seen["load_s"].mean() / seen["step_s"].mean()),
        "blocked_s": float(bare["load_s"].mean()),
        "step_s": float(bare["step_s"].mean()),
    }


def _resource_use(record: Record) -> dict[str, float]:
    needs = record.result.input
    if needs is None:
        return {}
    return {name: nan if value is None else value for name, value in needs.model_dump().items()}


def _median_row(own: pd.DataFrame) -> dict[str, Any]:
    first = own.iloc[0]
    reasons = [reason for reason in own["reason"] if reason]
    return {
        **{name: first[name] for name in ("system", "input", "shared_order")},
        **{name: median(own[name]) for name in MEASURED_COLUMNS},
        "ok": int(own["ok"].sum()),
        "planned": len(own),
        "reason": reasons[0] if reasons else "",
    }


def _in_memory_step_s(found: pd.DataFrame) -> dict[str, float]:
    """Tell the bare step of each system with its examples in memory."""
    memory = found[found["input"] == "memory"]
    return dict(zip(memory["system"], memory["step_s"], strict=True))

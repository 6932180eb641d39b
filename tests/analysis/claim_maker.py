"""Synthetic runs for the rules of claims: one system at one point, with given times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest import mock

import pyarrow as pa
import record_maker
from record_maker import make_record, make_study

from horizont.analysis.claims.judge import claim_verdicts
from horizont.analysis.claims.rules import parse_rules
from horizont.config.run import Run
from horizont.config.system import parse_system
from horizont.records.files import write_json, write_table
from horizont.records.record import Record, read_record

WORKLOAD = "lenet5-cifar10"
VERIFIED = {WORKLOAD: "verified"}
CLAIM = "N25"

PT, MX = "pytorch/sync/allreduce", "mxnet/sync/parameter_server"
FOUR = (1.0,) * 4
RATIO = {"kind": "ratio", "quantity": "backward_s", "over": PT, "under": MX}


@cache
def _template() -> Run:
    return next(iter(make_study().runs("distributed", WORKLOAD)))


def make_runs(
    store: Path,
    system: str,
    times: Sequence[float | tuple[float, ...]],
    *,
    experiment: str = "distributed",
    workload: str = WORKLOAD,
    workers: int = 2,
    batch: int = 42,
    topology: Mapping[str, Any] = MappingProxyType({}),
    learning_rate: float | None = None,
    **changes: Any,
) -> list[Record]:
    """Write one record per block; every phase of a step takes the block's milliseconds, or its own.

    Further changes are those of the run.
    """
    parsed = parse_system(system)
    template = _template()
    servers = int("server" in parsed.info.roles)
    values = template.model_dump()
    if learning_rate is not None:
        values["workload"]["optimizer"]["learning_rate"] = learning_rate
    folder = store / str(len(list(store.glob("*"))))
    records = []
    for block, time_ms in enumerate(times):
        changed = {
            "experiment": experiment,
            "workload_name": workload,
            "system": parsed,
            "topology": {"workers": workers, "servers": servers, "threads": 1, **topology},
            "global_batch": workers * batch,
            "block": block,
            "seed": block,
            **changes,
        }
        run = Run.model_validate({**values, **changed})
        times_ms = {parsed.framework: time_ms if isinstance(time_ms, tuple) else (time_ms,) * 7}
        with mock.patch.dict(record_maker.PHASES_MS, times_ms):
            records.append(make_record(folder, block, run))
    return records


def with_result(record: Record, **changes: Any) -> Record:
    """Change the result of a record."""
    result = record.result.model_copy(update=changes)
    write_json(record.folder / "result.json", result.model_dump(mode="json"))
    return read_record(record.folder)


def on_cpus(record: Record, count: int, *capabilities: str) -> Record:
    """Set the number of CPUs of the machine of a record."""
    cpu = {**record.environment["cpu"], "affinity": list(range(count))}
    environment = {**record.environment, "cpu": cpu, "capabilities": list(capabilities)}
    write_json(record.folder / "environment.json", environment)
    return read_record(record.folder)


def with_accuracy(record: Record, *accuracies: float) -> Record:
    """Write the accuracies after each 100 steps, of which the last is the final one."""
    count = len(accuracies)
    columns = {
        "step": [100 * (n + 1) for n in range(count)],
        "time_s": [1.0 * n for n in range(count)],
    }
    table = pa.table({**columns, "test_accuracy": list(accuracies)})
    write_table(record.folder / "evaluation.parquet", table)
    return with_result(record, test_accuracy=accuracies[-1])


def verdict(check: dict[str, object], records: list[Record]) -> dict[str, Any]:
    """Compute the verdict on one claim by one rule."""
    full = {"experiments": ["distributed"], "workloads": [WORKLOAD], **check}
    (claim,) = claim_verdicts(records, VERIFIED, parse_rules({CLAIM: [full]}))
    return claim


def only_part(claim: Mapping[str, Any]) -> dict[str, Any]:
    """Return the only part of a claim."""
    (part,) = claim["parts"]
    return dict(part)

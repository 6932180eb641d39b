"""Synthetic runs for the rules of claims: one system at one point, with given times."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from unittest import mock

import record_maker
from record_maker import make_record, make_study

from horizont.config.run import Run
from horizont.config.system import parse_system
from horizont.records.record import Record

WORKLOAD = "lenet5-cifar10"


@cache
def _template() -> Run:
    return next(iter(make_study().runs("distributed", WORKLOAD)))


def make_runs(
    store: Path,
    system: str,
    times: tuple[float, ...],
    *,
    experiment: str = "distributed",
    workload: str = WORKLOAD,
    workers: int = 2,
    batch: int = 42,
) -> list[Record]:
    """Write one record per block; every phase of a step takes the block's milliseconds."""
    parsed = parse_system(system)
    template = _template()
    servers = int("server" in parsed.info.roles)
    topology = {"workers": workers, "servers": servers, "threads": 1}
    folder = store / f"{experiment}-{workload}-{workers}-{batch}"
    records = []
    for block, time_ms in enumerate(times):
        changed = {
            "experiment": experiment,
            "workload_name": workload,
            "system": parsed,
            "topology": topology,
            "global_batch": workers * batch,
            "block": block,
        }
        run = Run.model_validate({**template.model_dump(), **changed})
        times_ms = {parsed.framework: (time_ms,) * 7}
        with mock.patch.dict(record_maker.PHASES_MS, times_ms):
            records.append(make_record(folder, block, run))
    return records

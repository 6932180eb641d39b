"""Made-up runs for the rules of claims: one system at one point, as fast as the test wants it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from unittest import mock

import record_maker
from record_maker import _make, make_study

from horizont.config.run import Run
from horizont.config.system import parse_system
from horizont.records.record import Record

WORKLOAD = "lenet5-cifar10"


@cache
def _plain() -> Run:
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
    """Write a record a block; all parts of a step take their time of the block in milliseconds."""
    parsed = parse_system(system)
    plain = _plain()
    servers = int("server" in parsed.info.roles)
    shape = {"workers": workers, "servers": servers, "threads": 1}
    folder = store / f"{experiment}-{workload}-{workers}-{batch}"
    records = []
    for block, time_ms in enumerate(times):
        changed = {
            "experiment": experiment,
            "workload_name": workload,
            "system": parsed,
            "topology": shape,
            "global_batch": workers * batch,
            "block": block,
        }
        run = Run.model_validate({**plain.model_dump(), **changed})
        parts = {parsed.framework: (time_ms,) * 7}
        with mock.patch.dict(record_maker.PHASES_MS, parts):
            records.append(_make(folder, block, run, (), ()))
    return records

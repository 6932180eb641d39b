"""Every role of every system is killed and stopped at random moments, the launcher included.

Afterwards only the record is left of the run, which says what happened, and the next run works. The
moments are seeded for each case. `make chaos` runs all cases, in a quarter of an hour on two cores;
otherwise the first and the last case of four systems represent the others.
"""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.conftest import small_run
from tests.launchers.chaos import Case, run_case

from horizont.config.system import SYSTEMS
from horizont.launchers.execute import RunPaths, execute
from horizont.records.record import RecordWriter

pytestmark = [pytest.mark.framework, pytest.mark.usefixtures("nothing_left")]

#: Concurrent runs: they wait more than they compute.
CONCURRENT_RUNS = 3

REPRESENTATIVE = ("tensorflow/async/parameter_server", "pytorch/async/parameter_server",
            "pytorch/sync/allreduce", "mxnet/async/parameter_server")  # fmt: skip


def cases(system: str) -> list[Case]:
    """List the cases of a system."""
    roles = ["worker", *SYSTEMS[system].roles]
    listed = []
    for role in roles:
        rank = 1 if role == "worker" and "local" not in system else 0
        # Where workers train on without each other, the others have to complete.
        steps = 200 if "async" in system else 5000
        listed += [Case(system, f"{role}-{rank}", "kill"),
                  Case(system, f"{role}-{rank}", "pause", steps=steps)]  # fmt: skip
    if "allreduce" in system:  # where the others connect to the first worker
        listed += [Case(system, "worker-0", "kill"), Case(system, "worker-0", "pause")]
    if system in REPRESENTATIVE:
        listed += [Case(system, launcher=number) for number in (signal.SIGKILL, signal.SIGTERM)]
        stopped_roles = SYSTEMS[system].service_roles or ("worker",)
        listed += [Case(system, f"{role}-0", "pause", signal.SIGKILL) for role in stopped_roles]
    if system == "pytorch/sync/allreduce":
        listed += [Case(system, launcher=signal.SIGINT),
                  Case(system, "sampler", "kill", steps=200),
                  Case(system, "sampler", "pause", signal.SIGKILL),
                  Case(system, "worker-1", "kill", signal.SIGINT)]  # fmt: skip
    return listed


def test_there_are_enough_cases() -> None:
    listed = [case for system in SYSTEMS for case in cases(system)]
    assert len(listed) == len({(case.system, case.key) for case in listed}) >= 50


ALL = os.environ.get("HORIZONT_CHAOS") == "all"


@pytest.mark.parametrize(
    "system",
    [
        pytest.param(name, marks=pytest.mark.framework(name.partition("/")[0]))
        for name in (SYSTEMS if ALL else REPRESENTATIVE)
    ],
)
def test_only_the_record_is_left(
    system: str, tmp_path: Path, small_cifar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, scratch = tmp_path / "records", tmp_path / "scratch"
    for folder in (store, scratch):
        folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    selected = cases(system)
    if not ALL:
        selected = [selected[0], selected[-1]]
    with ThreadPoolExecutor(CONCURRENT_RUNS) as pool:
        records = list(pool.map(lambda case: run_case(case, store, small_cifar), selected))
    assert not list(scratch.iterdir())
    assert threading.active_count() < 10
    if system.endswith("local"):
        return
    # The next run works, and replaces the record of one that failed.
    RecordWriter.remove_abandoned(store)
    key = next(case.key for case, record in zip(selected, records, strict=True) if record)
    record = execute(small_run(system), key, RunPaths(store, small_cifar, {}), lambda d, p: None)
    assert record.ok, record.result.reason

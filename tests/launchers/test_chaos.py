"""Every role of every system is killed and frozen at random moments, the launcher included.

Afterwards nothing is left of the run but its record, which says what happened, and the next run
works. The moments are drawn from a seed for each case. `make chaos` tries all cases, a quarter of
an hour of two cores; without it the first and the last of four systems stand for the others.
"""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.conftest import small_run
from tests.launchers.chaos import Case, carry_out

from horizont.config.system import SYSTEMS
from horizont.launchers.execute import RunPaths, execute
from horizont.records.record import RecordWriter

pytestmark = [pytest.mark.framework, pytest.mark.usefixtures("nothing_left")]

#: Runs at once: they wait more than they compute.
AT_ONCE = 3

LAUNCHED = ("tensorflow/async/parameter_server", "pytorch/async/parameter_server",
            "pytorch/sync/allreduce", "mxnet/async/parameter_server")  # fmt: skip


def cases(system: str) -> list[Case]:
    """List what is tried on a system."""
    roles = ["worker", *SYSTEMS[system].roles]
    found = []
    for role in roles:
        rank = 1 if role == "worker" and "local" not in system else 0
        # Where workers go on without each other, the others have to come to their end.
        steps = 200 if "async" in system else 5000
        found += [Case(system, f"{role}-{rank}", "kill"),
                  Case(system, f"{role}-{rank}", "pause", steps=steps)]  # fmt: skip
    if "allreduce" in system:  # where the first worker is the meeting place
        found += [Case(system, "worker-0", "kill"), Case(system, "worker-0", "pause")]
    if system in LAUNCHED:
        found += [Case(system, launcher=number) for number in (signal.SIGKILL, signal.SIGTERM)]
        lying = SYSTEMS[system].service_roles or ("worker",)
        found += [Case(system, f"{role}-0", "pause", signal.SIGKILL) for role in lying]
    if system == "pytorch/sync/allreduce":
        found += [Case(system, launcher=signal.SIGINT),
                  Case(system, "sampler", "kill", steps=200),
                  Case(system, "sampler", "pause", signal.SIGKILL),
                  Case(system, "worker-1", "kill", signal.SIGINT)]  # fmt: skip
    return found


def test_there_are_enough_of_them() -> None:
    listed = [case for system in SYSTEMS for case in cases(system)]
    assert len(listed) == len({(case.system, case.key) for case in listed}) >= 50


ALL = os.environ.get("HORIZONT_CHAOS") == "all"


@pytest.mark.parametrize("system", SYSTEMS if ALL else LAUNCHED)
def test_nothing_is_left(
    system: str, tmp_path: Path, small_cifar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, scratch = tmp_path / "records", tmp_path / "scratch"
    for folder in (store, scratch):
        folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    tried = cases(system)
    if not ALL:
        tried = [tried[0], tried[-1]]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        records = list(pool.map(lambda case: carry_out(case, store, small_cifar), tried))
    assert not list(scratch.iterdir())
    assert threading.active_count() < 10
    if system.endswith("local"):
        return
    # The next run works, over the record of one that failed.
    RecordWriter.remove_abandoned(store)
    key = next(case.key for case, record in zip(tried, records, strict=True) if record)
    record = execute(small_run(system), key, RunPaths(store, small_cifar, {}), lambda d, p: None)
    assert record.ok, record.result.reason

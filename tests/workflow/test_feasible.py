"""What is done where emulated hosts cannot be had: really tried by a user who is not root."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import small_run

from horizont.config.run import Run
from horizont.config.topology import Topology
from horizont.data.prepared import load
from horizont.launchers.emulated import _try_unavailable_reason
from horizont.records.provenance import run_key
from horizont.records.record import RecordWriter
from horizont.records.results import RunResult
from horizont.workflow import measure
from horizont.workflow.check import skip_reason, with_local_fallback
from horizont.workflow.paths import Paths
from horizont.workflow.provenance import run_provenance

NOBODY = 65534

FREE = Topology(launcher="emulated", workers=2)
LIMITED = Topology(launcher="emulated", workers=2, cpus_per_host=0.5)


def of(topology: Topology) -> Run:
    return small_run("pytorch/sync/allreduce", topology=topology)


def as_nobody(ask: Callable[[], str]) -> str:
    """Ask in a process of a user without rights; what is known of this one is forgotten there."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            _try_unavailable_reason.cache_clear()
            if os.geteuid() == 0:
                os.seteuid(NOBODY)
            os.write(writer, ask().encode())
        finally:
            os._exit(0)  # never on into the other tests
    os.close(writer)
    with os.fdopen(reader) as told:
        answer = told.read()
    os.waitpid(child, 0)
    return answer


def test_a_user_without_rights_is_told_what_is_left_out() -> None:
    run = of(LIMITED)
    skip_reason(run)  # asks for the framework, too, as long as all files may be read
    assert as_nobody(lambda: skip_reason(run)) == "emulated hosts need root"


def test_without_rights_free_hosts_become_the_loopback_and_the_record_says_so() -> None:
    engines = "{0.topology.launcher} {1.topology.launcher} {0.topology.workers}"
    told = as_nobody(
        lambda: engines.format(with_local_fallback(of(FREE)), with_local_fallback(of(LIMITED)))
    )
    assert told == "local emulated 2"


def test_a_finished_record_is_kept_where_the_run_could_not_be_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, small_cifar: Path
) -> None:
    run, about, paths = of(LIMITED), load(small_cifar).description, Paths(tmp_path)
    key = run_key(run, run_provenance(run, about))
    store = paths.records(run.experiment, run.workload_name)
    monkeypatch.setattr(measure, "skip_reason", lambda run: "emulated hosts need root")
    assert measure.execute_runs([run], about, paths)[0].result.status == "skipped"
    writer = RecordWriter(store, key)
    writer.start(run, {})
    writer.finish(RunResult(status="ok", wall_s=7.0))
    (kept,) = measure.execute_runs([run], about, paths)
    assert kept.result == RunResult(status="ok", wall_s=7.0)


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_commands_that_are_not_there_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    _try_unavailable_reason.cache_clear()
    try:
        assert skip_reason(of(FREE)).startswith("emulated hosts need the commands ip, ")
    finally:
        _try_unavailable_reason.cache_clear()

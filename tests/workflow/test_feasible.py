"""Runs where emulated hosts are unavailable, tested by a process that is not root."""

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


def without_privileges(answer: Callable[[], str]) -> str:
    """Return an answer that is computed by a process of an unprivileged user."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            _try_unavailable_reason.cache_clear()
            if os.geteuid() == 0:
                os.seteuid(NOBODY)
            os.write(writer, answer().encode())
        finally:
            os._exit(0)  # it must not continue with the other tests
    os.close(writer)
    with os.fdopen(reader) as stream:
        text = stream.read()
    os.waitpid(child, 0)
    return text


@pytest.mark.framework("pytorch")
def test_an_unprivileged_user_gets_the_reason_of_a_skipped_run() -> None:
    run = of(LIMITED)
    skip_reason(run)  # queries the framework, too, as long as all files are readable
    assert without_privileges(lambda: skip_reason(run)) == "emulated hosts need root"


def test_without_privileges_unlimited_hosts_fall_back_to_the_local_launcher() -> None:
    launchers = "{0.topology.launcher} {1.topology.launcher} {0.topology.workers}"
    text = without_privileges(
        lambda: launchers.format(with_local_fallback(of(FREE)), with_local_fallback(of(LIMITED)))
    )
    assert text == "local emulated 2"


def test_a_finished_record_is_used_where_the_run_could_not_be_repeated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, small_cifar: Path
) -> None:
    run, dataset, paths = of(LIMITED), load(small_cifar).description, Paths(tmp_path)
    key = run_key(run, run_provenance(run, dataset))
    store = paths.records(run.experiment, run.workload_name)
    monkeypatch.setattr(measure, "skip_reason", lambda run: "emulated hosts need root")
    assert measure.execute_runs([run], dataset, paths)[0].result.status == "skipped"
    writer = RecordWriter(store, key)
    writer.start(run, {})
    writer.finish(RunResult(status="ok", wall_s=7.0))
    (record,) = measure.execute_runs([run], dataset, paths)
    assert record.result == RunResult(status="ok", wall_s=7.0)


@pytest.mark.framework("pytorch")
@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_missing_commands_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    _try_unavailable_reason.cache_clear()
    try:
        assert skip_reason(of(FREE)).startswith("emulated hosts need the commands ip, ")
    finally:
        _try_unavailable_reason.cache_clear()

"""The protocol of launchers: all that are registered, and one from outside the package.

The outside launcher is one file, `tests.launchers.copying_launcher`, and one line in `LAUNCHERS`.
"""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import small_run

from horizont.config.topology import Capability, Topology
from horizont.errors import UserError
from horizont.launchers import LAUNCHERS
from horizont.launchers.base import (
    OPTIONAL_SETTINGS,
    check_run,
    check_topology,
    get_launcher,
    unavailable_reason,
)
from horizont.launchers.execute import RunPaths, execute
from horizont.records.record import Record
from horizont.workflow.check import load_study
from horizont.workflow.paths import Paths

ASYNCHRONOUS = "pytorch/async/parameter_server"


@pytest.fixture(autouse=True)
def copying_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LAUNCHERS, "copying", "tests.launchers.copying_launcher")


def run_remotely(system: str, folder: Path, data: Path, **changes: object) -> Record:
    servers = 1 if "parameter_server" in system else 0
    topology = {"launcher": "copying", "workers": 2, "servers": servers}
    run = small_run(system, topology=topology, **changes)
    return execute(run, "key", RunPaths(folder, data, {}), lambda done, planned: None)


@pytest.mark.parametrize("name", [*LAUNCHERS, "copying"])
def test_a_launcher_follows_the_protocol(name: str) -> None:
    launcher = get_launcher(name)
    assert launcher.capabilities <= set(typing.get_args(Capability))
    assert launcher.settings <= set(OPTIONAL_SETTINGS)
    assert ("link" in launcher.settings) == ("link_limits" in launcher.capabilities)
    assert ("cpus_per_host" in launcher.settings) == ("cpu_quota" in launcher.capabilities)
    assert isinstance(unavailable_reason(Topology(launcher=name)), str)
    check_topology(Topology(launcher=name))


def test_an_unknown_launcher_is_an_error() -> None:
    with pytest.raises(UserError, match=r"topology\.launcher: 'slrum' .* local"):
        check_run(small_run(topology={"launcher": "slrum"}))


def test_options_are_validated_by_the_launcher() -> None:
    check_topology(Topology(launcher="copying", options={"prefix": "node-"}))
    with pytest.raises(UserError, match=r"topology\.options\.prefxi: .* prefix"):
        check_topology(Topology(launcher="copying", options={"prefxi": "node-"}))


@pytest.mark.parametrize(
    ("experiment", "changes", "message"),
    [
        ("distributed", {"launcher": "cloud"}, r"topology\.launcher: 'cloud' .* local"),
        ("distributed", {"cpus_per_host": 0.5}, r"topology\.cpus_per_host: 0\.5 .* emulated"),
        (
            "distributed",
            {"link": {"rate_mbit": 100}},
            r"topology\.link: {rate_mbit: 100\.0} .* emulated",
        ),
        ("scaling", {"launcher": "local"}, r"topology\.placement: 'dedicated' .* emulated"),
    ],
)
def test_a_study_is_checked_against_its_launchers(
    study_folder: Paths, experiment: str, changes: dict[str, Any], message: str
) -> None:
    values = yaml.safe_load(study_folder.params.read_text())
    values["experiments"][experiment]["topology"] |= changes
    study_folder.params.write_text(yaml.safe_dump(values))
    with pytest.raises(UserError, match=rf"^experiments\.{experiment}\.{message}"):
        load_study(study_folder)


@pytest.mark.framework("pytorch")
@pytest.mark.usefixtures("nothing_left")
def test_a_launcher_needs_no_shared_file_system(tmp_path: Path, small_cifar: Path) -> None:
    record = run_remotely(ASYNCHRONOUS, tmp_path, small_cifar, save_weights=True)
    assert record.ok, record.result.reason
    steps = record.steps().to_pandas()
    assert steps.groupby("worker").size().to_dict() == {0: 7, 1: 7}
    assert (record.folder / "weights.npz").exists()
    assert set(record.result.startup_s) >= {"interpreter", "framework", "data", "network"}
    assert not record.has("shared_clock")
    ends_s = steps["start_s"] + steps["step_s"]
    timed = steps["kind"] == "timed"
    durations_s = [
        ends_s[timed & own].max() - steps["start_s"][timed & own].min()
        for own in (steps["worker"] == 0, steps["worker"] == 1)
    ]
    assert record.result.train_s == pytest.approx(max(durations_s))


@pytest.mark.framework("pytorch")
@pytest.mark.usefixtures("nothing_left")
def test_a_fault_is_observed_without_a_shared_file_system(
    tmp_path: Path, small_cifar: Path
) -> None:
    record = run_remotely(
        "pytorch/sync/allreduce", tmp_path, small_cifar, stall_timeout_s=5,
        steps={"warmup": 1, "timed": 5000}, fault={"kind": "kill", "target": "worker", "rank": 1},
    )  # fmt: skip
    report = record.fault_report()
    assert report is not None, record.result.reason
    assert report.at_step >= 10
    assert report.first_failure is not None
    assert report.first_failure.process == "worker-0"
    assert record.result.reason.startswith("worker-1 was killed at step")

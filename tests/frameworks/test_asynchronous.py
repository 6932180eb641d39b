"""Asynchronous training is what it says: every update told, replayed, and computed again."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.conftest import ROOT, small_run
from tests.frameworks.rules import RULES

from horizont.analysis.communication import staleness
from horizont.config.base import parse_config
from horizont.config.run import Run
from horizont.config.system import SYSTEMS, installed_version
from horizont.equivalence.compare import float32_bound
from horizont.equivalence.replay import compare_replay
from horizont.errors import UserError
from horizont.launchers.base import open_cluster
from horizont.launchers.execute import RunPaths, execute
from horizont.launchers.plan import plan_run, role_assignment
from horizont.launchers.process import ProcessGroup, terminating
from horizont.launchers.supervisor import RunFailed, supervise
from horizont.launchers.update_order import match_updates
from horizont.networks.catalogue import build_network
from horizont.networks.weights import initial_weights
from horizont.records.files import write_table
from horizont.records.record import Record

pytestmark = pytest.mark.framework

#: System, servers, update rule.
SHOWING = [
    ("pytorch/async/parameter_server", 2, "adam"),
    ("mxnet/async/parameter_server", 1, "nesterov"),
]
STEPS = {"warmup": 1, "timed": 3, "instrumented": 2}
EACH = sum(STEPS.values())

#: Where the two largest values under a pooling window are within rounding of each other, either
#: may be chosen, and the gradient jumps; by some 1e-4 of itself here, beyond any rounding.
JUMP = 1e-3


def first_weights(record: Record) -> dict[str, Any]:
    return initial_weights(build_network("lenet5", (3, 32, 32), 10), record.run.seed)


@pytest.fixture(scope="module", params=SHOWING, ids=[name for name, _, _ in SHOWING])
def record(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, small_cifar: Path
) -> Record:
    """A run of two workers with small batches, its gradients recorded."""
    system, servers, rule = request.param
    if installed_version(system.split("/")[0]) is None:
        pytest.skip(f"{system} is not installed")
    run = small_run(
        system,
        topology={"workers": 2, "servers": servers},
        workload={"network": "lenet5", "dataset": "cifar10", "optimizer": RULES[rule]},
        steps=STEPS,
        record_updates="gradients",
    )
    place = RunPaths(tmp_path_factory.mktemp("store"), small_cifar, {})
    made = execute(run, run.system.slug, place, lambda done, planned: None)
    assert made.ok, made.result.reason
    return made


def test_every_update_is_told_with_its_version(record: Record) -> None:
    updates = record.updates().to_pandas()
    if "pytorch" in record.run.system.name:
        assert set(updates["part"]) == {"0:31003", "31003:62006"}  # equally long
    for _, part in updates.groupby("part"):
        told = list(zip(part["worker"], part["step"], strict=True))
        assert sorted(told) == [(worker, step) for worker in (0, 1) for step in range(EACH)]
        assert (part["version"] + part["staleness"]).tolist() == list(range(2 * EACH))
        for _, own in part.groupby("worker"):  # a worker never gets older weights than before
            assert own["step"].is_monotonic_increasing
            assert own["version"].is_monotonic_increasing
    assert (updates["staleness"] >= 0).all()
    assert set(updates["server"]) == set(range(record.run.topology.servers))
    counted = staleness([record])
    assert counted["updates"].sum() == len(updates)
    assert counted["fraction"].sum() == pytest.approx(1)


def test_the_servers_weights_are_those_of_the_replay(record: Record) -> None:
    compared = compare_replay(record, first_weights(record))
    assert len(compared) == 10
    assert all(tensor.ok for tensor in compared), compared
    assert all(tensor.bound < 1e-3 for tensor in compared)  # it could not hide an update


def test_every_gradient_was_computed_on_the_version_that_is_told(
    record: Record, small_cifar: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.frameworks.recompute", record.folder, small_cifar],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.strip().splitlines()[-1])
    assert len(told["gradients"]) == 2 * EACH
    for found in told["gradients"].values():
        # What explains the distance would not explain that of a neighbouring version.
        bound = max(JUMP, float32_bound([found["noise"]], []))
        assert found["distance"] <= bound < 0.1 * found["from_next"], found
    within = [
        found["distance"] <= float32_bound([found["noise"]], [])
        for found in told["gradients"].values()
    ]
    assert np.mean(within) >= 0.5  # without a jump it is rounding indeed
    assert max(told["rules"].values()) < 1e-13, told["rules"]
    # Other code than in float64, for MXNet; rounding gives some 1e-6.
    assert max(told["float32_rules"].values()) < 1e-5, told["float32_rules"]


@pytest.mark.parametrize("description", ["twice", "order", "left out"])
def test_a_wrong_order_is_no_replay(record: Record, mistake: str, tmp_path: Path) -> None:
    rows = record.updates().to_pylist()
    part = [place for place, row in enumerate(rows) if row["part"] == rows[0]["part"]]
    if mistake == "twice":
        rows.insert(part[2], rows[part[2]])
    elif mistake == "order":
        rows[part[2]], rows[part[-1]] = rows[part[-1]], rows[part[2]]
    else:
        del rows[part[2]]
    wrong = dataclasses.replace(record, folder=tmp_path)
    (tmp_path / "gradients").symlink_to(record.folder / "gradients")
    write_table(tmp_path / "updates.parquet", pa.Table.from_pylist(rows))
    assert not all(tensor.ok for tensor in compare_replay(wrong, first_weights(record)))


PUSHED = [
    {"rank": 0, "step": 0, "part": "p", "on": "w0", "gradient": "a"},
    {"rank": 1, "step": 0, "part": "p", "on": "w0", "gradient": "b"},
]
APPLIED = [
    {"rank": 0, "part": "p", "before": "w0", "gradient": "a", "after": "w1"},
    {"rank": 0, "part": "p", "before": "w1", "gradient": "b", "after": "w2"},
]


def test_updates_are_matched_by_content() -> None:
    told = [
        (row["worker"], row["version"], row["staleness"]) for row in match_updates(PUSHED, APPLIED)
    ]
    assert told == [(0, 0, 0), (1, 0, 1)]


@pytest.mark.parametrize(
    ("pushed", "applied", "words"),
    [
        (PUSHED, [*APPLIED, {**APPLIED[1], "before": "w2"}], "no worker pushed, or pushed only once"),
        (PUSHED, APPLIED[:1], "1 gradients were pushed but never applied"),
        (PUSHED, [APPLIED[0], {**APPLIED[1], "before": "w9"}], "did not produce"),
        ([PUSHED[0], {**PUSHED[1], "on": "w9"}], APPLIED, "never had \\(worker-1, step 0\\)"),
        # From the future: the weights after the update itself.
        ([PUSHED[0], {**PUSHED[1], "on": "w2"}], APPLIED, "never had"),
    ],
)
def test_what_fits_nowhere_fails_the_run(pushed: Any, applied: Any, words: str) -> None:
    with pytest.raises(RunFailed, match=words):
        match_updates(pushed, applied)


@pytest.mark.parametrize("name", [name for name in SYSTEMS if not SYSTEMS[name].records_updates])
def test_updates_are_recorded_only_where_they_can_be_seen(name: str) -> None:
    values = small_run(name).model_dump() | {"record_updates": "order"}
    with pytest.raises(UserError, match="record_updates: 'order'"):
        parse_config(Run, values)


def test_tensorflows_workers_in_turns_are_one_process(tmp_path: Path, small_cifar: Path) -> None:
    if installed_version("tensorflow") is None:
        pytest.skip("tensorflow is not installed")
    workload = {"network": "lenet5", "dataset": "cifar10", "optimizer": RULES["momentum"]}
    steps = {"warmup": 30, "timed": 1, "instrumented": 0}
    run = small_run("tensorflow/async/parameter_server", workload=workload, steps=steps)
    hosts = [host for _, _, host in role_assignment(run)]
    groups: list[ProcessGroup] = []
    with open_cluster(run.topology, tmp_path) as machine, terminating(groups):
        places = machine.endpoints(hosts)
        for process in plan_run(run, tmp_path, small_cifar.resolve(), places).processes:
            planned = process
            if process.name == "chief-0":
                words = (sys.executable, "-m", "tests.frameworks.turns", process.argv[-1])
                path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
                environment = {**process.environment, "PYTHONPATH": path}
                planned = dataclasses.replace(process, argv=words, environment=environment)
            groups.append(ProcessGroup(planned, tmp_path / f"{process.name}.log"))
        supervise(groups, run.timeout_s, lambda: None)
    told = json.loads((tmp_path / "processes" / "chief-0" / "told.json").read_text())
    assert set(told["takers"]) == {0, 1}
    for tensor, (distance, noise) in told["tensors"].items():
        # An update more or less would be a tenth and more.
        assert distance <= max(JUMP, float32_bound([noise], [])) < 1e-2, tensor

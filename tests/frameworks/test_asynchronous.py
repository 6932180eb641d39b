"""Asynchronous training: every update is recorded, replayed, and computed again."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.conftest import PROGRAM_PATH, run_in_framework, small_run
from tests.frameworks.rules import RULES

from horizont.analysis.communication import staleness
from horizont.config.base import parse_config
from horizont.config.run import Run
from horizont.config.system import SYSTEMS, installed_version
from horizont.equivalence.bounds import float32_bound
from horizont.equivalence.replay import compare_replay
from horizont.errors import UserError
from horizont.launchers.base import open_cluster
from horizont.launchers.execute import RunPaths, execute
from horizont.launchers.plan import plan_run, role_assignment
from horizont.launchers.process import ProcessGroup, terminating
from horizont.launchers.supervisor import supervise
from horizont.networks.catalogue import build_network
from horizont.networks.weights import initial_weights
from horizont.records.files import write_table
from horizont.records.record import Record

pytestmark = pytest.mark.framework

#: System, servers, update rule.
RECORDED_SYSTEMS = [
    ("pytorch/async/parameter_server", 2, "adam"),
    ("mxnet/async/parameter_server", 1, "nesterov"),
]
STEPS = {"warmup": 1, "timed": 3, "instrumented": 2}
STEPS_PER_WORKER = sum(STEPS.values())

#: Where the two largest values of a pooling window differ by rounding only, either can be the
#: maximum, and the gradient jumps: here by a relative 1e-4, more than any rounding.
JUMP = 1e-3


def first_weights(record: Record) -> dict[str, Any]:
    return initial_weights(build_network("lenet5", (3, 32, 32), 10), record.run.seed)


@pytest.fixture(
    scope="module", params=RECORDED_SYSTEMS, ids=[name for name, _, _ in RECORDED_SYSTEMS]
)
def record(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, small_cifar: Path
) -> Record:
    """Run two workers with small batches and recorded gradients."""
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


def test_every_update_is_recorded_with_its_version(record: Record) -> None:
    updates = record.updates().to_pandas()
    if "pytorch" in record.run.system.name:
        assert set(updates["part"]) == {"0:31003", "31003:62006"}  # equally long
    for _, part in updates.groupby("part"):
        pushed = list(zip(part["worker"], part["step"], strict=True))
        assert sorted(pushed) == [
            (worker, step) for worker in (0, 1) for step in range(STEPS_PER_WORKER)
        ]
        assert (part["version"] + part["staleness"]).tolist() == list(range(2 * STEPS_PER_WORKER))
        for _, own in part.groupby("worker"):  # a worker never receives older weights than before
            assert own["step"].is_monotonic_increasing
            assert own["version"].is_monotonic_increasing
    assert (updates["staleness"] >= 0).all()
    assert set(updates["server"]) == set(range(record.run.topology.servers))
    counted = staleness([record])
    assert counted["updates"].sum() == len(updates)
    assert counted["fraction"].sum() == pytest.approx(1)


def test_the_replay_reproduces_the_weights_of_the_servers(record: Record) -> None:
    compared = compare_replay(record, first_weights(record))
    assert len(compared) == 10
    assert all(tensor.ok for tensor in compared), compared
    assert all(tensor.bound < 1e-3 for tensor in compared)  # smaller than any update


def test_every_gradient_was_computed_on_the_recorded_version(
    record: Record, small_cifar: Path
) -> None:
    words = ("-m", "tests.frameworks.recompute", record.folder, small_cifar)
    printed = run_in_framework(record.run.system.framework, *words)
    results = json.loads(printed.strip().splitlines()[-1])
    assert len(results["gradients"]) == 2 * STEPS_PER_WORKER
    is_distinct = []
    for found in results["gradients"].values():
        bound = max(JUMP, float32_bound([found["noise"]], []))
        assert found["distance"] <= bound, found
        assert found["distance"] < 0.5 * found["from_next"], found
        is_distinct.append(bound < 0.1 * found["from_next"])
    # The bound is too small for the gradient of a neighbouring version, but where rounding has
    # flipped a unit in the rerun that shows the noise.
    assert np.mean(is_distinct) >= 0.8
    within = [
        found["distance"] <= float32_bound([found["noise"]], [])
        for found in results["gradients"].values()
    ]
    assert np.mean(within) >= 0.5  # without a jump the distance is rounding
    assert max(results["rules"].values()) < 1e-13, results["rules"]
    # MXNet has other code for float32 than for float64; rounding gives about 1e-6.
    assert max(results["float32_rules"].values()) < 1e-5, results["float32_rules"]


@pytest.mark.parametrize("mistake", ["twice", "order", "left out"])
def test_a_wrong_order_fails_the_replay(record: Record, mistake: str, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("name", [name for name in SYSTEMS if not SYSTEMS[name].records_updates])
def test_updates_are_recorded_only_by_systems_that_can(name: str) -> None:
    values = small_run(name).model_dump() | {"record_updates": "order"}
    with pytest.raises(UserError, match="record_updates: 'order'"):
        parse_config(Run, values)


def test_tensorflow_workers_taking_turns_train_like_one_process(
    tmp_path: Path, small_cifar: Path
) -> None:
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
                python, *_, job = process.argv
                argv = (python, "-m", "tests.frameworks.turns", job)
                environment = {**process.environment, "PYTHONPATH": PROGRAM_PATH}
                planned = dataclasses.replace(process, argv=argv, environment=environment)
            groups.append(ProcessGroup(planned, tmp_path / f"{process.name}.log"))
        supervise(groups, run.timeout_s, lambda: None)
    turns = json.loads((tmp_path / "processes" / "chief-0" / "turns.json").read_text())
    assert set(turns["workers_of_steps"]) == {0, 1}
    for tensor, (distance, noise) in turns["tensors"].items():
        # One update more or less would be a distance of at least a tenth.
        assert distance <= max(JUMP, float32_bound([noise], [])) < 1e-2, tensor

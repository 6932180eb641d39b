"""Every system with real processes: its steps, its phases and its weights."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.conftest import EXTENDED, assert_nothing_left, small_run

from horizont.config.run import Run
from horizont.config.system import SYSTEMS, all_systems, installed_version, parse_system
from horizont.launchers.execute import RunPaths, execute
from horizont.records.record import Record
from horizont.records.schema import PHASES

pytestmark = [pytest.mark.framework, pytest.mark.usefixtures("nothing_left")]

SYNC = [name for name in SYSTEMS if "/sync/" in name]
VARIANTS = [
    name
    for name in all_systems()
    if "+" in name and "/local" not in name and "cpu" in parse_system(name).devices
]


#: Both carry an error into later steps: momentum adds past gradients, Adam divides by them.
RULES = {
    "momentum": {"learning_rate": 0.02, "momentum": 0.9, "weight_decay": 1e-3},
    "adam": {"name": "adam", "learning_rate": 1e-3, "epsilon": 1e-3},
}

#: Executes a run of a system with an update rule.
ExecuteOnce = Callable[[str, str], Record]


def executed(run: Run, store: Path, data: Path) -> Record:
    if installed_version(run.system.framework) is None:
        pytest.skip(f"{run.system.framework} is not installed")
    key = run.workload.optimizer.name + run.system.slug
    record = execute(run, key, RunPaths(store, data, {}), lambda done, planned: None)
    assert record.ok, record.result.reason
    return record


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, small_cifar: Path) -> ExecuteOnce:
    """Execute each run once for all tests, since starting frameworks takes most of the time."""
    store = tmp_path_factory.mktemp("trained")

    @functools.cache
    def execute_once(name: str, rule: str) -> Record:
        workload = {"network": "lenet5", "dataset": "cifar10", "optimizer": RULES[rule]}
        # With this seed no pooling window has two values so close that rounding picks another one.
        settings = {
            "evaluation": {"examples": 64},
            "sampler_hz": 5,
            "save_weights": True,
            "seed": 2,
        }
        record = executed(small_run(name, workload=workload, **settings), store, small_cifar)
        assert_nothing_left(store)
        return record

    return execute_once


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_runs_its_steps(name: str, trained: ExecuteOnce) -> None:
    record = trained(name, "momentum")
    run, steps = record.run, record.steps().to_pandas()
    check_counts(run, steps)
    check_phases(run, steps)
    check_start(run, steps)
    assert steps["loss"].notna().all()
    assert record.result.test_accuracy is not None
    assert {"interpreter", "framework", "network"} <= set(record.result.startup_s)
    samples = record.samples().to_pandas()
    workers = {f"worker-{rank}" for rank in range(run.topology.workers)}
    assert workers <= set(samples["name"])
    assert not (record.folder / "processes").exists()
    check_exchange(record)


def check_exchange(record: Record) -> None:
    """Check the times of the exchange, if the framework measures it."""
    exchange_s, overlap_s = record.result.exchange_s, record.result.overlap_s
    if record.run.system.name.startswith("pytorch/sync/allreduce"):
        assert exchange_s is not None
        assert overlap_s is not None
        assert 0 <= overlap_s <= exchange_s
        assert exchange_s > 0
    else:
        assert exchange_s is None
        assert overlap_s is None


def check_counts(run: Run, steps: pd.DataFrame) -> None:
    """Check that all steps of all segments ran, by whichever worker was free."""
    counts = steps.groupby("kind")["step"].count()
    for kind, settings in run.steps.segments():
        assert counts.get(kind, 0) == settings * run.topology.workers
    assert (steps["examples"] == run.local_batch).all()
    assert (steps["step_s"] > 0).all()


def check_start(run: Run, steps: pd.DataFrame) -> None:
    """Check that no asynchronous worker starts timed steps before all have warmed up."""
    if run.system.sync == "async":
        ends = steps.assign(end_s=steps["start_s"] + steps["step_s"])
        warmed_up_s = ends.loc[ends["kind"] == "warmup", "end_s"].max()
        assert (ends.loc[ends["kind"] == "timed", "start_s"] >= warmed_up_s).all()


def check_phases(run: Run, steps: pd.DataFrame) -> None:
    """Check that exactly the phases of the system were measured."""
    timed = steps[steps["kind"] == "instrumented"]
    for phase in PHASES:
        measured = timed[f"{phase}_s"].notna()
        if phase in run.system.info.phases:
            assert measured.all(), phase
        else:
            assert not measured.any(), phase
    total = timed[[f"{phase}_s" for phase in PHASES]].sum(axis=1)
    assert (total <= timed["step_s"] * 1.001).all()
    if "waiting" in run.system.info.phases:
        check_waiting(timed)


def check_waiting(timed: pd.DataFrame) -> None:
    """Check that workers wait for the slowest one, whose waiting is zero, before the transfer."""
    for _, rows in timed.groupby("step"):
        behind_s = rows["gradients_ready_s"].max() - rows["gradients_ready_s"]
        exchange_s = rows["waiting_s"] + rows["communication_s"]
        assert np.allclose(rows["waiting_s"], np.minimum(behind_s, exchange_s), atol=1e-9)
        assert (exchange_s > 0).all()
        computed_s = rows[["load_s", "forward_s", "backward_s"]].sum(axis=1)
        assert np.allclose(rows["gradients_ready_s"], rows["start_s"] + computed_s, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "rule"),
    # Servers receive the rule, so both rules are tested with a server.
    [
        *((name, "momentum") for name in SYNC),
        *(pytest.param(name, "momentum", marks=EXTENDED) for name in VARIANTS),
        ("mxnet/sync/parameter_server", "adam"),
    ],
)
def test_synchronous_training_is_single_process_training(
    name: str, rule: str, trained: ExecuteOnce
) -> None:
    alone = f"{parse_system(name).framework}/local"
    weights = [np.load(trained(each, rule).folder / "weights.npz") for each in (name, alone)]
    assert set(weights[0]) == set(weights[1])
    for tensor in weights[0]:
        # Two partial sums of a batch differ from one sum by float32 rounding, over seven steps.
        np.testing.assert_allclose(weights[0][tensor], weights[1][tensor], rtol=0, atol=2e-6)

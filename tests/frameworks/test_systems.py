"""Every system, by real processes: the steps it was asked for, its phases, its weights."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.conftest import assert_nothing_left, small_run

from horizont.config.run import Run
from horizont.config.system import SYSTEMS, all_systems, installed_version, parse_system
from horizont.launchers.execute import RunPaths, execute
from horizont.records.schema import PHASES
from horizont.records.record import Record

pytestmark = [pytest.mark.framework, pytest.mark.usefixtures("nothing_left")]

SYNC = [name for name in SYSTEMS if "/sync/" in name]
BUILT = [name for name in all_systems() if "+" in name and "/local" not in name]


#: Momentum carries a mistake of one step into the next; Adam divides by what it remembers.
RULES = {
    "momentum": {"learning_rate": 0.02, "momentum": 0.9, "weight_decay": 1e-3},
    "adam": {"name": "adam", "learning_rate": 1e-3, "epsilon": 1e-3},
}

#: Carries out a run of a system by a rule.
CarryOut = Callable[[str, str], Record]


def carried_out(run: Run, store: Path, data: Path) -> Record:
    if installed_version(run.system.framework) is None:
        pytest.skip(f"{run.system.framework} is not installed")
    key = run.workload.optimizer.name + run.system.slug
    record = execute(run, key, RunPaths(store, data, {}), lambda done, planned: None)
    assert record.ok, record.result.reason
    return record


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, small_cifar: Path) -> CarryOut:
    """Make each run once for all tests: starting frameworks is what takes the time."""
    store = tmp_path_factory.mktemp("trained")

    @functools.cache
    def carry_out(name: str, rule: str) -> Record:
        workload = {"network": "lenet5", "dataset": "cifar10", "optimizer": RULES[rule]}
        asked = {"evaluation": {"examples": 64}, "sampler_hz": 5, "save_weights": True}
        record = carried_out(small_run(name, workload=workload, **asked), store, small_cifar)
        assert_nothing_left(store)
        return record

    return carry_out


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_makes_its_steps(name: str, trained: CarryOut) -> None:
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
    """Whoever takes the times of an exchange beside the backward pass tells possible ones."""
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
    """All steps of all segments were made; where workers are free, by whichever was."""
    counts = steps.groupby("kind")["step"].count()
    for kind, asked in run.steps.segments():
        assert counts.get(kind, 0) == asked * run.topology.workers
    assert (steps["examples"] == run.local_batch).all()
    assert (steps["step_s"] > 0).all()


def check_start(run: Run, steps: pd.DataFrame) -> None:
    """Nobody who is free to go on makes a bare step before all have warmed up."""
    if run.system.sync == "async":
        ends = steps.assign(end_s=steps["start_s"] + steps["step_s"])
        warmed_up_s = ends.loc[ends["kind"] == "warmup", "end_s"].max()
        assert (ends.loc[ends["kind"] == "timed", "start_s"] >= warmed_up_s).all()


def check_phases(run: Run, steps: pd.DataFrame) -> None:
    """The phases that the system declares were measured, and no other was made up."""
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
    """In each step somebody is the last, for whom nobody waits; no transfer is before that."""
    for _, rows in timed.groupby("step"):
        behind_s = rows["gradients_ready_s"].max() - rows["gradients_ready_s"]
        exchange_s = rows["waiting_s"] + rows["communication_s"]
        assert np.allclose(rows["waiting_s"], np.minimum(behind_s, exchange_s), atol=1e-9)
        assert (exchange_s > 0).all()
        computed_s = rows[["load_s", "forward_s", "backward_s"]].sum(axis=1)
        assert np.allclose(rows["gradients_ready_s"], rows["start_s"] + computed_s, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "rule"),
    # Servers have to be told the rule, so there both are tried.
    [
        *((name, "momentum") for name in (*SYNC, *BUILT)),
        ("mxnet/sync/parameter_server", "adam"),
    ],
)
def test_synchronous_training_is_single_process_training(
    name: str, rule: str, trained: CarryOut
) -> None:
    alone = f"{parse_system(name).framework}/local"
    weights = [np.load(trained(each, rule).folder / "weights.npz") for each in (name, alone)]
    assert set(weights[0]) == set(weights[1])
    for tensor in weights[0]:
        # Sums over two halves of a batch against one sum, in float32, over seven steps.
        np.testing.assert_allclose(weights[0][tensor], weights[1][tensor], rtol=0, atol=2e-6)

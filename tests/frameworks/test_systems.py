"""Every system, by real processes: the steps it was asked for, its phases, its weights."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.conftest import ROOT, small_run

from horizont.cluster import Place, execute
from horizont.equivalence.distance import relative_distance
from horizont.measure import PHASES
from horizont.networks import build_network, initial_weights
from horizont.records import Record
from horizont.spec import SYSTEMS, Run, all_systems, installed_version, parse_system

pytestmark = [pytest.mark.framework, pytest.mark.usefixtures("nothing_left")]

SYNC = [name for name in SYSTEMS if "/sync/" in name]
BUILT = [name for name in all_systems() if "+" in name and "/local" not in name]


def carried_out(run: Run, store: Path, data: Path) -> Record:
    if installed_version(run.system.framework) is None:
        pytest.skip(f"{run.system.framework} is not installed")
    record = execute(run, f"{run.system.slug}", Place(store, data, {}), lambda done, planned: None)
    assert record.ok, record.result.reason
    return record


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_makes_its_steps(name: str, tmp_path: Path, small_cifar: Path) -> None:
    run = small_run(name, evaluate_examples=64, sampler_hz=5)
    record = carried_out(run, tmp_path, small_cifar)
    steps = record.steps().to_pandas()
    check_counts(run, steps)
    check_phases(run, steps)
    assert steps["loss"].notna().all()
    assert record.result.test_accuracy is not None
    assert {"interpreter", "framework", "network"} <= set(record.result.startup_s)
    samples = record.samples().to_pandas()
    trained = {f"worker-{rank}" for rank in range(run.topology.workers)}
    assert trained <= set(samples["name"])
    assert not (record.folder / "processes").exists()


def check_counts(run: Run, steps: pd.DataFrame) -> None:
    """All steps of all segments were made; where workers are free, by whichever was."""
    counts = steps.groupby("kind")["step"].count()
    for kind, asked in run.steps.kinds():
        assert counts[kind] == asked * run.topology.workers
    assert (steps["examples"] == run.local_batch).all()
    assert (steps["step_s"] > 0).all()


def check_phases(run: Run, steps: pd.DataFrame) -> None:
    """The phases that the system declares were measured, and no other was made up."""
    timed = steps[steps["kind"] == "instrumented"]
    for phase in PHASES:
        measured = timed[f"{phase}_s"].notna()
        if phase in run.system.traits.measures:
            assert measured.all(), phase
        else:
            assert not measured.any(), phase
    total = timed[[f"{phase}_s" for phase in PHASES]].sum(axis=1)
    assert (total <= timed["step_s"] * 1.001).all()


#: Momentum carries a mistake of one step into the next; Adam divides by what it remembers.
RULES = {
    "momentum": {"learning_rate": 0.02, "momentum": 0.9, "weight_decay": 1e-3},
    "adam": {"name": "adam", "learning_rate": 1e-3, "epsilon": 1e-3},
}


@pytest.mark.parametrize(
    ("name", "rule"),
    # Servers have to be told the rule, so there both are tried.
    [
        *((name, "momentum") for name in (*SYNC, *BUILT)),
        ("mxnet/sync/parameter_server", "adam"),
    ],
)
def test_synchronous_training_is_single_process_training(
    name: str, rule: str, tmp_path: Path, small_cifar: Path
) -> None:
    workload = {"network": "lenet5", "dataset": "cifar10", "optimizer": RULES[rule]}
    together = small_run(name, keep_weights=True, workload=workload)
    local = f"{parse_system(name).framework}/local"
    alone = small_run(local, keep_weights=True, workload=workload)
    weights = [
        np.load(carried_out(run, tmp_path, small_cifar).folder / "weights.npz")
        for run in (together, alone)
    ]
    assert set(weights[0]) == set(weights[1])
    for tensor in weights[0]:
        # Sums over two halves of a batch against one sum, in float32, over seven steps.
        np.testing.assert_allclose(weights[0][tensor], weights[1][tensor], rtol=0, atol=2e-6)


NORMED = {"network": "resnet18", "dataset": "cifar10", "optimizer": {"learning_rate": 1e-3}}


def normed_run(system: str) -> Run:
    """Describe two steps of a network with batch norm: more would drown in its rounding."""
    steps = {"warmup": 1, "bare": 1, "instrumented": 0}
    return small_run(system, workload=NORMED, steps=steps, keep_weights=True, global_batch=32)


@pytest.fixture(scope="module")
def ghost(tmp_path_factory: pytest.TempPathFactory, small_cifar: Path) -> dict[str, np.ndarray]:
    """Make the steps by hand, each worker's share on its own."""
    if installed_version("pytorch") is None:
        pytest.skip("pytorch is not installed")
    folder = tmp_path_factory.mktemp("ghost")
    (folder / "run.json").write_text(normed_run("pytorch/sync/allreduce").model_dump_json())
    command = [sys.executable, "-m", "tests.frameworks.ghost", str(folder / "run.json")]
    subprocess.run([*command, str(small_cifar), str(folder / "out.npz")], cwd=ROOT, check=True)
    return dict(np.load(folder / "out.npz"))


@pytest.mark.parametrize("name", SYNC)
def test_each_worker_normalises_over_its_own_examples(
    name: str, tmp_path: Path, small_cifar: Path, ghost: dict[str, np.ndarray]
) -> None:
    run = normed_run(name)
    record = carried_out(run, tmp_path, small_cifar)
    network = build_network("resnet18", (3, 32, 32), 10)
    first = initial_weights(network, run.seed)
    weights = np.load(record.folder / "weights.npz")
    apart = {
        tensor: relative_distance(weights[tensor] - first[tensor].astype("float32"), update, update)
        for tensor, update in ghost.items()
    }
    # Float32 against float64, so some rounding. Had the whole batch been normalised at once,
    # the worst tensor would be apart by 1.3.
    assert max(apart.values()) < 0.02, max(apart.items(), key=lambda item: item[1])

"""The comparator on real trainings: sameness is proven, and every mistake is caught."""

from __future__ import annotations

import shutil

import pytest
from tests.conftest import ROOT

from horizont.cluster import RunFailed
from horizont.pipeline import Paths, prove
from horizont.pipeline.profile import use_profile
from horizont.pipeline.prove import PASSES, Prover, Told, prover_of
from horizont.spec import FRAMEWORKS, installed_version
from horizont.worker.faults import FAULTS

pytestmark = pytest.mark.framework

#: fault -> quantity and tensor at which it must show first.
FIRST = {
    "padding": ("logits", "logits"),
    "flatten_order": ("logits", "logits"),
    "loss_reduction": ("loss", "loss"),
    "initial_weights": ("initial", "fc3.weight"),
    "learning_rate": ("update", "conv1.weight"),
    "label_shift": ("loss", "loss"),
    "data_order": ("update", "conv1.weight"),
}


def test_every_fault_has_an_expectation() -> None:
    assert set(FIRST) == set(FAULTS)


@pytest.fixture(scope="module")
def study_root(tmp_path_factory: pytest.TempPathFactory) -> Paths:
    root = tmp_path_factory.mktemp("study")
    shutil.copytree(ROOT / "profiles", root / "profiles")
    paths = Paths(root)
    use_profile(paths, "tiny")
    return paths


@pytest.fixture(scope="module")
def prover(study_root: Paths) -> Prover:
    return prover_of("lenet5-cifar10", study_root)


@pytest.fixture(scope="module")
def told(prover: Prover) -> dict[str, Told]:
    """Train in every framework once, without a fault."""
    missing = [name for name in FRAMEWORKS if installed_version(name) is None]
    if missing:
        pytest.skip(f"{missing} not installed")
    return {framework: prover.train(framework) for framework in FRAMEWORKS}


def test_the_frameworks_train_the_same_network(prover: Prover, told: dict[str, Told]) -> None:
    proof = prover.proof(told)
    assert proof.ok, proof.verdict
    assert {row["pair"] for row in proof.rows} == {
        "mxnet-pytorch",
        "mxnet-tensorflow",
        "pytorch-tensorflow",
    }
    assert {row["dtype"] for row in proof.rows} == {"float32", "float64"}


# Faults are dealt to the frameworks in turn: each framework is broken at least twice.
DEALT = list(zip(FIRST, list(FRAMEWORKS) * 3, strict=False))


@pytest.mark.parametrize(("fault", "framework"), DEALT)
def test_a_fault_is_caught(
    prover: Prover, told: dict[str, Told], fault: str, framework: str
) -> None:
    exact = PASSES[:1]  # float64, which is the proof
    broken = {framework: prover.train(framework, fault, exact)}
    others = {name: {exact[0]: passes[exact[0]]} for name, passes in told.items()}
    proof = prover.proof({**others, **broken})
    assert not proof.ok
    row = proof.first_departure
    assert row is not None
    assert (row["quantity"], row["tensor"]) == FIRST[fault]
    assert framework in row["pair"]


def test_a_proof_with_a_fault_is_not_kept(study_folder: Paths) -> None:
    assert not prove("lenet5-cifar10", study_folder, faults={"pytorch": "label_shift"}).ok
    assert not study_folder.proof("lenet5-cifar10").exists()


def test_an_unknown_fault_is_named(prover: Prover) -> None:
    with pytest.raises(RunFailed, match="'gremlin'"):
        prover.train("pytorch", "gremlin")

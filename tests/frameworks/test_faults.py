"""The comparator on real trainings: sameness is proven, and every mistake is caught."""

from __future__ import annotations

import shutil

import pytest
import yaml
from tests.conftest import ROOT

from horizont.cluster import RunFailed
from horizont.pipeline import Paths, prove, try_faults
from horizont.pipeline.faults import FaultTried
from horizont.pipeline.profile import use_profile
from horizont.pipeline.prover import PASSES, prover_of
from horizont.spec import FAULT_INFOS, FRAMEWORKS, TracePass, installed_version
from horizont.worker.faults import FAULTS

pytestmark = pytest.mark.framework

#: The first tensor that each mistake must show in, by the quantity where it shows.
TENSORS = {
    "initial": "fc3.weight",
    "logits": "logits",
    "loss": "loss",
    "gradient": "conv2.weight",
    "update": "conv1.weight",
    "statistics": "stem_norm.mean",
}
NORMED = {name for name, info in FAULT_INFOS.items() if info.needs == "batch norm"}


def test_every_fault_is_described() -> None:
    assert set(FAULTS) == set(FAULT_INFOS)


@pytest.fixture(scope="module")
def study_root(tmp_path_factory: pytest.TempPathFactory) -> Paths:
    missing = [name for name in FRAMEWORKS if installed_version(name) is None]
    if missing:
        pytest.skip(f"{missing} not installed")
    root = tmp_path_factory.mktemp("study")
    shutil.copytree(ROOT / "profiles", root / "profiles")
    paths = Paths(root)
    use_profile(paths, "tiny")
    values = yaml.safe_load(paths.params.read_text())
    adam = {"name": "adam", "learning_rate": 1e-3}
    values["workloads"]["lenet5-cifar10"]["optimizer"] = adam
    paths.params.write_text(yaml.safe_dump(values))
    return paths


def test_the_frameworks_train_the_same_network(study_root: Paths) -> None:
    proof = prove("lenet5-cifar10", study_root)
    assert proof.ok, proof.verdict
    assert {row["pair"] for row in proof.rows} == {
        "mxnet-pytorch",
        "mxnet-tensorflow",
        "pytorch-tensorflow",
    }
    assert {row["dtype"] for row in proof.rows} == {"float32", "float64"}
    remembered = {row["tensor"] for row in proof.rows if row["quantity"] == "optimizer"}
    assert {"conv1.weight.first", "conv1.weight.second"} <= remembered


def test_every_fault_is_caught(study_root: Paths) -> None:
    tried = try_faults("lenet5-cifar10", study_root)
    assert len(tried) == sum(info.needs in ("", "images") for info in FAULT_INFOS.values())
    check(tried)


def test_every_fault_of_batch_norm_is_caught(study_root: Paths) -> None:
    tried = try_faults("resnet18-cifar10", study_root, only=NORMED)
    assert len(tried) == len(NORMED)
    check(tried)


def check(tried: list[FaultTried]) -> None:
    for row in tried:
        assert row.caught, row
        first = "conv1.bias" if "decay" in row.mistake else TENSORS[row.quantity]
        assert row.tensor == first, row


def test_a_proof_with_a_fault_is_not_kept(
    study_folder: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("horizont.pipeline.prover.PASSES", PASSES[:1])
    assert not prove("lenet5-cifar10", study_folder, faults={"pytorch": "label_shift"}).ok
    assert not study_folder.proof("lenet5-cifar10").exists()


def test_an_unknown_fault_is_named(study_root: Paths) -> None:
    gremlin = [TracePass(dtype="float64", fault="gremlin")]
    with pytest.raises(RunFailed, match="'gremlin'"):
        prover_of("lenet5-cifar10", study_root).train({"pytorch": gremlin}, "tried")

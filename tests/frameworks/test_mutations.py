"""The comparator on real training: equivalence is verified, and every mutation is detected."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
import yaml
from tests.conftest import EXTENDED, tiny_study_of_all_frameworks

from horizont.config.jobs import TraceRun
from horizont.config.mutations import MUTATIONS
from horizont.config.system import FRAMEWORKS
from horizont.launchers.supervisor import RunFailed
from horizont.training.mutations import MUTATIONS_BY_NAME
from horizont.workflow.mutation_test import run_mutation_tests
from horizont.workflow.paths import Paths
from horizont.workflow.verify import TRACE_RUNS, checker_for, verify_workload

pytestmark = [pytest.mark.framework, pytest.mark.usefixtures("small_networks")]

#: The first tensor in which each mutation must show, by the quantity.
TENSORS = {
    "initial": "fc3.weight",
    "logits": "logits",
    "loss": "loss",
    "gradient": "conv2.weight",
    "evaluation": "original",
    "update": "conv1.weight",
    "batch": "conv1.weight",
    "statistics": "first_norm.mean",
}
NORMED = {name for name, info in MUTATIONS.items() if info.requires == "batch norm"}


def test_every_mutation_is_described() -> None:
    assert set(MUTATIONS_BY_NAME) == set(MUTATIONS)


@pytest.fixture(scope="module")
def study_root(tmp_path_factory: pytest.TempPathFactory, small_networks: None) -> Paths:
    paths = tiny_study_of_all_frameworks(tmp_path_factory)
    values = yaml.safe_load(paths.params.read_text())
    adam = {"name": "adam", "learning_rate": 1e-3}
    values["workloads"]["lenet5-cifar10"]["optimizer"] = adam
    values["workloads"]["normed-cifar10"] = {
        "network": "normed", "dataset": "cifar10", "optimizer": {"learning_rate": 0.01}
    }  # fmt: skip
    paths.params.write_text(yaml.safe_dump(values))
    return paths


@EXTENDED  # the whole study has a certificate of the same network with another rule
def test_the_frameworks_train_the_same_network(study_root: Paths) -> None:
    certificate = verify_workload("lenet5-cifar10", study_root)
    assert certificate.ok, certificate.verdict
    pairs = {row["pair"] for row in certificate.rows if row["check"] == "frameworks"}
    assert pairs == {f"{one}-{other}" for one, other in combinations(sorted(FRAMEWORKS), 2)}
    assert {row["check"] for row in certificate.rows} == {
        *("frameworks", "reference", "repeat", "rows", "instrumented", "profiled")
    }
    batches = {row["step"] for row in certificate.rows if row["quantity"] == "batch"}
    assert batches == set(certificate.timed_batches)
    assert batches
    assert {row["dtype"] for row in certificate.rows} == {"float32", "float64"}
    states = {row["tensor"] for row in certificate.rows if row["quantity"] == "optimizer"}
    assert {"conv1.weight.first", "conv1.weight.second"} <= states


def test_every_mutation_is_detected(study_root: Paths) -> None:
    results = run_mutation_tests("lenet5-cifar10", study_root)
    assert len(results) == sum(
        info.requires in ("", "images", "large batches") for info in MUTATIONS.values()
    )
    check(results)


def test_every_mutation_of_batch_norm_is_detected(study_root: Paths) -> None:
    results = run_mutation_tests("normed-cifar10", study_root, only=NORMED)
    assert len(results) == len(NORMED)
    check(results)


def check(results: list[dict[str, Any]]) -> None:
    for row in results:
        assert row["detected"], row
        first = "conv1.bias" if "decay" in row["description"] else TENSORS[row["quantity"]]
        assert row["tensor"] == first, row


def test_a_certificate_with_a_mutation_is_not_written(
    study_folder: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("horizont.workflow.verify.TRACE_RUNS", TRACE_RUNS[:1])
    assert not verify_workload(
        "lenet5-cifar10", study_folder, mutations={"pytorch": "label_shift"}
    ).ok
    assert not study_folder.certificate("lenet5-cifar10").exists()


def test_an_unknown_mutation_is_an_error(study_root: Paths) -> None:
    unknown = [TraceRun(dtype="float64", mutation="unknown")]
    with pytest.raises(RunFailed, match="'unknown'"):
        checker_for("lenet5-cifar10", study_root).train({"pytorch": unknown}, "results")

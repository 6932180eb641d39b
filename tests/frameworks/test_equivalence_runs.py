"""Scores, gradients and first steps of the deep networks are the same in all frameworks."""

from __future__ import annotations

import pytest
import yaml
from tests.conftest import cases, tiny_study_of_all_frameworks

from horizont.config.system import FRAMEWORKS
from horizont.equivalence.certificate import write_certificate
from horizont.networks.catalogue import NETWORKS
from horizont.workflow.paths import Paths
from horizont.workflow.publish import certificate_status
from horizont.workflow.verify import TRACE_RUNS, VARIANT_TRACE_RUNS, checker_for, variants_of

pytestmark = [pytest.mark.framework, pytest.mark.usefixtures("small_networks")]

#: Update rules of the networks that are compared whole, which takes minutes. The full AlexNet has
#: the layers of the small one, ResNet-50 those of ResNet-18. AlexNet, whose weights take half a
#: gigabyte, has a rule without state.
WHOLE = {
    "alexnet-small": {"learning_rate": 1e-3},
    "inception": {"learning_rate": 1e-3, "momentum": 0.9, "nesterov": True},
    "resnet18": {"learning_rate": 1e-3, "momentum": 0.9},
}
#: A network of all their blocks. Other tests compare the LeNets and the language model.
RULES = {"blocks": {"learning_rate": 1e-3, "momentum": 0.9, "nesterov": True}, **WHOLE}


@pytest.fixture(scope="module")
def study_root(tmp_path_factory: pytest.TempPathFactory, small_networks: None) -> Paths:
    paths = tiny_study_of_all_frameworks(tmp_path_factory)
    values = yaml.safe_load(paths.params.read_text())
    values["equivalence"] = {"batch": 4, "at_steps": [1], "workloads": ["lenet5-cifar10"]}
    values["workloads"]["blocks-cifar10"] = {
        "network": "blocks", "dataset": "cifar10", "upscale": 4
    }  # fmt: skip
    for network, rule in RULES.items():
        values["workloads"][f"{network}-cifar10"]["optimizer"] = rule
    paths.params.write_text(yaml.safe_dump(values))
    return paths


@pytest.mark.parametrize("network", cases(["blocks", *WHOLE], "blocks"))
def test_all_frameworks_train_the_same_network(network: str, study_root: Paths) -> None:
    checker = checker_for(f"{network}-cifar10", study_root)
    traces = checker.train(dict.fromkeys(FRAMEWORKS, TRACE_RUNS[:1]), "compared")
    certificate = checker.certificate(traces)
    assert certificate.ok, certificate.verdict
    quantities = {row["quantity"] for row in certificate.rows}
    assert {"gradient", "update"} <= quantities
    assert ("optimizer" in quantities) == ("momentum" in RULES[network])
    assert ("statistics" in quantities) == (network != "alexnet-small")


def test_a_variant_has_its_own_certificate(study_root: Paths) -> None:
    values = yaml.safe_load(study_root.params.read_text())
    values["experiments"]["local"]["systems"] += [
        "mxnet/local+dynamic_alloc",
        "pytorch/local+channels_last",
    ]
    study_root.params.write_text(yaml.safe_dump(values))
    checker = checker_for("lenet5-cifar10", study_root)
    assert variants_of(checker.study, checker.workload) == [
        "mxnet+dynamic_alloc",
        "pytorch+channels_last",
    ]
    compared = ["mxnet", "pytorch", "mxnet+dynamic_alloc"]
    traces = checker.train(dict.fromkeys(compared, VARIANT_TRACE_RUNS[:1]), "compared")
    write_certificate(study_root.certificate("lenet5-cifar10"), checker.certificate(traces))
    status = certificate_status("lenet5-cifar10", study_root)
    assert status["mxnet+dynamic_alloc"] == "verified"
    assert status["pytorch+channels_last"] == "not comparable: no certificate for this variant"


def test_trainings_in_more_processes_are_the_same(
    study_root: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine with many CPUs, where each precision has a process of its own."""
    checker = checker_for("lenet5-cifar10", study_root)
    runs = [run for run in TRACE_RUNS if (run.path, run.perturbation) == ("plain", "none")]
    together = checker.train({"pytorch": runs}, "together")
    monkeypatch.setattr("horizont.workflow.verify.MANY_CPUS", 1)
    divided = checker.train({"pytorch": runs}, "divided")
    assert list(divided["pytorch"]) == list(together["pytorch"]) == runs
    for run in runs:
        tensors = together["pytorch"][run]
        for name, other in divided["pytorch"][run].items():
            assert other.dtype == tensors[name].dtype
            assert (other == tensors[name]).all(), name


def test_every_kind_of_network_is_compared_somewhere() -> None:
    assert set(NETWORKS) >= {*WHOLE, "lenet", "lenet5", "lstm"}


def test_a_step_is_compared_at_each_swept_learning_rate(study_root: Paths) -> None:
    values = yaml.safe_load(study_root.params.read_text())
    values["experiments"]["scaling"] |= {
        "systems": ["pytorch/local"],
        "sweep": {"learning_rate": [0.025, 0.1]},
        "topology": {"workers": 1},
        "local_batch": 8,
    }
    study_root.params.write_text(yaml.safe_dump(values))
    checker = checker_for("lenet5-cifar10", study_root)
    runs = [run for run in TRACE_RUNS[:1] + TRACE_RUNS[6:7] if run.dtype == "float64"]
    traces = checker.train(dict.fromkeys(FRAMEWORKS, runs), "compared")
    certificate = checker.certificate(traces)
    assert certificate.ok, certificate.verdict
    assert certificate.learning_rates == (0.025, 0.1)
    rows = [row for row in certificate.rows if row["quantity"] == "rate"]
    assert {row["step"] for row in rows} == {1, 2}
    assert all(row["is_evidence"] for row in rows)
    for by_run in traces.values():
        tensors = by_run[runs[1]]
        low, high = (tensors[f"rate/{number}/conv1.weight"] for number in (1, 2))
        assert high == pytest.approx(4 * low, rel=1e-6)

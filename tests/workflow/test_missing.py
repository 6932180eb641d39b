"""A framework that is not installed: rows with the reason, and the rest of the study runs."""

from __future__ import annotations

import re

import pytest
import yaml

from horizont.analysis.throughput import throughput_by_system
from horizont.config.system import FRAMEWORKS, framework_info, installed_version
from horizont.workflow.measure import run_experiment
from horizont.workflow.paths import Paths
from horizont.workflow.progress import PROGRESS_VARIABLE
from horizont.workflow.publish import certificate_status
from horizont.workflow.verify import TRACE_RUNS, verify_workload

pytestmark = pytest.mark.framework("pytorch", "tensorflow")

WORKLOAD = "lenet5-cifar10"


@pytest.fixture
def without_mxnet(study_folder: Paths, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """Let MXNet need a distribution that is not installed."""
    changes = {"distributions": ("mxnet-that-is-not-there",)}
    absent = framework_info("mxnet").model_copy(update=changes)
    monkeypatch.setattr("horizont.frameworks.mxnet.info.INFO", absent)
    values = yaml.safe_load(study_folder.params.read_text())
    values["experiments"]["local"]["systems"] = ["pytorch/local", "mxnet/local"]
    study_folder.params.write_text(yaml.safe_dump(values))
    return study_folder


def test_its_runs_are_rows_with_a_reason(
    without_mxnet: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay = without_mxnet.root / "progress"
    monkeypatch.setenv(PROGRESS_VARIABLE, str(relay))
    records = run_experiment("local", WORKLOAD, without_mxnet)
    status = {record.run.system.name: record.result for record in records}
    assert status["pytorch/local"].status == "ok"
    assert status["mxnet/local"].status == "skipped"
    assert status["mxnet/local"].reason == "mxnet is not installed"
    printed = relay.read_text()
    assert "mxnet/local, block 1: skipped, mxnet is not installed" in printed
    assert re.search("1 run executed in .* 1 skipped", printed)
    table = throughput_by_system(records).set_index("system")
    assert "mxnet is not installed" in table.loc["mxnet/local", "reason"]
    assert table.loc["pytorch/local", "examples_per_s"] > 0


def test_the_certificate_names_it_as_missing(
    without_mxnet: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("horizont.workflow.verify.TRACE_RUNS", TRACE_RUNS[:1])
    certificate = verify_workload(WORKLOAD, without_mxnet)
    assert certificate.ok, certificate.verdict
    missing = [name for name in FRAMEWORKS if installed_version(name) is None]
    assert set(certificate.frameworks) == set(FRAMEWORKS) - set(missing)
    assert certificate.missing == {name: f"{name} is not installed" for name in missing}
    assert "mxnet" in missing
    status = certificate_status(WORKLOAD, without_mxnet)
    assert status["pytorch"] == "verified"
    assert status["mxnet"].startswith("not comparable")

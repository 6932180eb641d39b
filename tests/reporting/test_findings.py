"""What a page found, from the records of the reference and from few or failed ones."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pandas as pd
import pytest
from record_maker import make_records

from horizont.analysis.faults import continued
from horizont.records.results import RunResult
from horizont.reporting.findings import NOTHING, finding
from horizont.workflow.paths import study_paths
from horizont.workflow.reference import open_pack

LENET, RESNET = "lenet5-cifar10", "resnet18-cifar10"


@pytest.mark.parametrize(
    ("experiment", "workload", "kind", "expected"),
    [
        ("local", "alexnet-cifar10", "training", "TensorFlow trains fastest, by a factor of 1.17 "),
        ("local", "alexnet-cifar10", "training", "operators of the class weight update."),
        ("local", RESNET, "training", "No system is clearly the fastest: MXNet is ahead of PyTor"),
        ("local", RESNET, "operators", "in convolution backward (TensorFlow 62%, "),
        ("local", RESNET, "verdicts", "Of 15 pairs of systems, 10 differ clearly, 1 is equally fa"),
        ("cluster", RESNET, "resources", "up to 717 MiB with MXNet (one process), and up to 5,453"),
        (
            "ring_servers",
            RESNET,
            "sweep",
            "PyTorch (synchronous, all-reduce) is clearly the fastest at 3 of 3 settings.",
        ),
        ("scaling_pytorch", "lenet-fashion-mnist", "sweep", "from 365 (1 x 128) to 3,471 examples"),
        (
            "learning_25",
            "lenet-fashion-mnist",
            "sweep",
            "All 5 trainings learn. The final test accur",
        ),
        (
            "learning",
            "lenet-fashion-mnist",
            "sweep",
            "All 40 trainings learn. The final test accu",
        ),
        ("input", LENET, "input", "A step waits for its batch from 0% of its time in MXNet"),
        (
            "lost_worker",
            LENET,
            "faults",
            "Training continues in 15 of 48 runs with a fault: always",
        ),
        ("faults", LENET, "faults", "Training continues in 20 of 63 runs with a fault, with no"),
        ("threads", RESNET, "sweep", "with 2 threads instead of 1 is 1.47 (MXNet) to 1.72 (JAX)."),
        ("staleness", LENET, "sweep", "The mean staleness of an update is for PyTorch "),
        ("gpu", "resnet50-cifar10", "training", "No system is clearly the fastest: PyTorch (one p"),
        ("gpu", "resnet50-cifar10", "training", "Without a valid certificate and not compared: JA"),
        ("gpu", "resnet50-cifar10", "verdicts", "Of 3 pairs of systems, 1 is not settled, 2 are n"),
        ("gpu", "lstm-ptb", "training", "No system is clearly the fastest: JAX is ahead of PyTo"),
    ],
)
def test_the_reference_is_summed_up(
    experiment: str, workload: str, kind: str, expected: str
) -> None:
    pack, _ = open_pack(experiment, study_paths())
    certificate = pack.manifest.certificates[workload]
    assert expected in finding(kind, pack.records(workload), certificate)


def test_losses_of_several_points_are_not_mixed() -> None:
    pack, _ = open_pack("equal_updates", study_paths())
    (workload,) = pack.manifest.certificates
    records = pack.records(workload)
    losses = finding("sweep", records, {})
    assert losses.startswith("After 100 updates the training loss is 0.725 with TensorFlow (sync")
    topology = records[0].run.topology.model_copy(update={"threads": 2})
    other = records[0].run.model_copy(update={"topology": topology})
    two = [dataclasses.replace(records[0], run=other), *records[1:]]
    assert "loss" not in finding("sweep", two, {})


def test_one_system_alone(tmp_path: Path) -> None:
    records = make_records(tmp_path, "local", blocks=2)
    own = [record for record in records if record.run.system.name == "pytorch/local"]
    assert finding("training", own, {}) == "Only PyTorch (one process) was measured."
    assert finding("verdicts", own, {}) == "There are no two systems to compare."


def test_one_pair_of_systems(tmp_path: Path) -> None:
    records = make_records(tmp_path, "local", blocks=1)
    pair = [record for record in records if record.run.system.framework in ("pytorch", "mxnet")]
    assert finding("verdicts", pair, {}) == "The only pair of systems is not comparable."


def test_without_a_result_it_says_so(tmp_path: Path) -> None:
    failed = [
        dataclasses.replace(record, result=RunResult(status="failed", reason="why"))
        for record in make_records(tmp_path, "local", blocks=1)
    ]
    for kind in ("training", "sweep", "input", "operators", "resources", "verdicts"):
        assert finding(kind, failed, {}) == NOTHING
    assert "No run with a fault" in finding("faults", failed, {})


def test_a_fault_without_a_report_has_no_outcome() -> None:
    """Such a table has no column of outcomes at all."""
    rows = [{"system": "jax/local", "fault": "worker killed", "reason": "why"}]
    assert continued(pd.DataFrame(rows)).empty
    assert continued(pd.DataFrame()).empty


def test_it_is_the_first_sentence_of_its_page() -> None:
    page = study_paths().executed_notebooks / "reference" / "gpu"
    cells = json.loads((page / "reference-gpu-resnet50-cifar10.ipynb").read_text())["cells"]
    declared = [
        output["metadata"]["horizont"]
        for cell in cells
        for output in cell.get("outputs", ())
        if "horizont" in output.get("metadata", {})
    ]
    assert declared[0]["finding"].startswith("No system is clearly the fastest")


def test_an_unstable_training_is_not_blamed_on_a_certificate(tmp_path: Path) -> None:
    records = make_records(tmp_path, "local", blocks=1, systems=("pytorch/local", "mxnet/local"))
    for record in records:
        steps = pd.read_parquet(record.path("steps.parquet"))
        steps.loc[steps["step"] >= 4, "loss"] *= 50
        steps.to_parquet(record.path("steps.parquet"))
    found = finding("training", records, {})
    assert found.startswith(
        "The training is unstable, as the loss of step 5 is more than 10 times the first; a smaller"
        " optimizer.learning_rate, or optimizer.clip_norm, prevents that. "
    )
    assert " had the highest throughput, " in found
    assert "certificate" not in found

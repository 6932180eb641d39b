"""Packed records of a study: what is packed, what is refused, and how it is restored."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import nbformat
import pyarrow as pa
import pytest
import yaml
from tests.analysis.all_quantities import assert_equal_quantities
from tests.analysis.record_maker import make_record
from tests.conftest import ROOT, prepare_few_images

from horizont.analysis.advice import Question
from horizont.analysis.claims.costs import with_repetition_costs
from horizont.analysis.runs import by_workload
from horizont.cli import main
from horizont.config.study import read_study
from horizont.data.prepared import read_description
from horizont.equivalence.certificate import EquivalenceCertificate, write_certificate
from horizont.errors import UserError
from horizont.records.files import read_json, write_json, write_table
from horizont.records.pack import MANIFEST
from horizont.records.packed_record import Pack
from horizont.records.provenance import run_key
from horizont.reporting.figures.equivalence import certificate_table, margin_figure
from horizont.reporting.overview import origin_message, step_metrics
from horizont.workflow.book import page_sources, planned_pages
from horizont.workflow.compare import read_folder
from horizont.workflow.crate import write_crate
from horizont.workflow.pages import open_page
from horizont.workflow.paths import Paths
from horizont.workflow.provenance import run_provenance
from horizont.workflow.publish import NO_CERTIFICATE
from horizont.workflow.reference import open_pack, reference_certificates
from horizont.workflow.reported import open_reported_study
from horizont.workflow.results import recommendation_for

WORKLOAD, OTHER = "lenet5-cifar10", "resnet18-cifar10"

#: Of all packs and their pages in git.
LARGEST_BYTES = 40 * 2**20


@pytest.fixture
def measured(study_folder: Paths) -> Paths:
    """Write a study of three systems and one block."""
    write_study(study_folder, ["tensorflow/local", "pytorch/local", "mxnet/local"])
    return study_folder


def write_study(study_folder: Paths, systems: list[str], blocks: int = 1) -> None:
    """Write data and synthetic records for the experiment `local` of the tiny profile."""
    values = yaml.safe_load(study_folder.params.read_text())
    values["experiments"]["local"] |= {"systems": systems, "blocks": blocks}
    study_folder.params.write_text(yaml.safe_dump(values))
    prepare_few_images(study_folder)
    for number, run in enumerate(read_study(study_folder.params).runs("local", WORKLOAD)):
        make_record(study_folder.records("local", WORKLOAD), number, run)


def test_an_experiment_is_packed_and_restored(
    measured: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pack", "local"]) == 0
    assert "3 runs (3 ok)" in capsys.readouterr().out
    pack = Pack(measured.pack("local"))
    assert pack.manifest.machines == {WORKLOAD: ""}
    assert pack.manifest.datasets["cifar10"]["source"] == "synthetic"
    assert pack.read("params.yaml") == measured.params.read_bytes()
    assert main(["unpack", "local", str(tmp_path / "restored")]) == 0
    assert "3 records" in capsys.readouterr().out
    names = [
        sorted(record.folder.name for record in read_folder(folder))
        for folder in (tmp_path / "restored", measured.all_records, measured.reference)
    ]
    assert names[0] == names[1] == names[2]
    assert main(["compare", str(measured.all_records), str(measured.reference)]) == 0
    assert main(["unpack", "local", str(tmp_path / "restored")]) == 2
    assert "does not exist yet" in capsys.readouterr().err


def test_a_pack_has_the_status_of_its_own_systems_alone(measured: Paths) -> None:
    """A certificate without the others says nothing against their runs in other packs."""
    assert main(["pack", "local"]) == 0
    pack = Pack(measured.pack("local"))
    trainers = {record.run.trainer_name for record in pack.records()}
    assert pack.manifest.certificates[WORKLOAD].keys() == trainers
    assert "jax" not in trainers


def test_a_changed_pack_restores_nothing(
    measured: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pack", "local"]) == 0
    with (measured.pack("local") / "steps.parquet").open("ab") as file:
        file.write(b"0")
    assert main(["unpack", "local", str(tmp_path / "restored")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "error: SHA-256 of" in line
    assert not (tmp_path / "restored").exists()


def test_missing_records_are_counted(measured: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    store = measured.records("local", WORKLOAD)
    next(store.iterdir()).rename(store / ".interrupted.1.tmp")
    assert main(["pack", "local"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "records of local: 1 of 3 runs on lenet5-cifar10 have none" in line
    assert not measured.reference.exists()


@pytest.fixture
def two_planned(measured: Paths) -> Paths:
    """Add a workload without records to the study."""
    values = yaml.safe_load(measured.params.read_text())
    other = {**values["workloads"][WORKLOAD], "network": "resnet18"}
    values["workloads"][OTHER] = other
    values["equivalence"]["workloads"].append(OTHER)
    values["experiments"]["local"]["workloads"] = [OTHER, WORKLOAD]
    measured.params.write_text(yaml.safe_dump(values))
    return measured


def test_only_the_measured_workloads_are_packed(
    two_planned: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = two_planned
    assert main(["pack", "local"]) == 2
    assert "3 of 3 runs on resnet18-cifar10 have none" in capsys.readouterr().err
    assert main(["pack", "local", "alexnet-cifar10"]) == 2
    assert "resnet18-cifar10" in capsys.readouterr().err
    assert main(["pack", "local", WORKLOAD]) == 0
    _, study = open_pack("local", measured)
    assert study.experiment("local").workloads == (WORKLOAD,)
    assert list(open_reported_study(measured).study.equivalence.workloads) == [WORKLOAD]


def test_other_workloads_remain_in_the_pack(
    two_planned: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also from another machine, and without their records."""
    assert main(["pack", "local", WORKLOAD]) == 0
    shutil.rmtree(two_planned.records("local", WORKLOAD))
    for number, run in enumerate(read_study(two_planned.params).runs("local", OTHER)):
        folder = make_record(two_planned.records("local", OTHER), number, run).folder
        facts = {**read_json(folder / "environment.json"), "provenance": {"machine": "Another"}}
        write_json(folder / "environment.json", facts)
    before = Pack(shutil.copytree(two_planned.pack("local"), tmp_path / "before")).records()
    file = two_planned.pack("local") / MANIFEST
    older = read_json(file)
    for description in older["datasets"].values():
        del description["class_names"]  # the pack is older than this field
    write_json(file, older)
    assert main(["pack", "local", OTHER]) == 0
    assert "6 runs (6 ok)" in capsys.readouterr().out
    pack = Pack(two_planned.pack("local"))
    pack.check()
    assert pack.manifest.machines == {OTHER: "Another", WORKLOAD: ""}
    assert pack.manifest.certificates.keys() == {OTHER, WORKLOAD}
    assert_equal_quantities(pack.records(WORKLOAD), before)
    reported = open_reported_study(two_planned)
    assert list(reported.environments) == [f"One process ({OTHER})", f"One process ({WORKLOAD})"]

    values = yaml.safe_load(two_planned.params.read_text())
    values["experiments"]["local"]["steps"]["timed"] += 1
    two_planned.params.write_text(yaml.safe_dump(values))
    manifest = (pack.folder / MANIFEST).read_bytes()
    shutil.rmtree(two_planned.records("local", OTHER))
    for number, run in enumerate(read_study(two_planned.params).runs("local", OTHER)):
        make_record(two_planned.records("local", OTHER), number, run)
    assert main(["pack", "local", OTHER]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{WORKLOAD} in" in line
    assert "with other settings than now" in line
    assert (pack.folder / MANIFEST).read_bytes() == manifest


def test_the_newest_record_of_a_run_is_packed(measured: Paths) -> None:
    store = measured.records("local", WORKLOAD)
    old = next(record for record in read_folder(store) if record.run.system.framework == "mxnet")
    new = old.folder.rename(old.folder.with_name("a-new-one"))
    make_record(store, 9, old.run)
    events = (new / "events.jsonl").read_text()
    (new / "events.jsonl").write_text(events.replace('"time_unix_s": ', '"time_unix_s": 1'))
    other = {**read_json(new / "spec.json"), "seed": 1}
    (store / "of-another-study").mkdir()
    for path in new.glob("*.json"):
        write_json(store / "of-another-study" / path.name, read_json(path))
    write_json(store / "of-another-study" / "spec.json", other)
    assert main(["pack", "local"]) == 0
    names = [record.folder.name for record in Pack(measured.pack("local")).records()]
    assert len(names) == 3
    assert "a-new-one" in names
    assert old.folder.name not in names
    assert "of-another-study" not in names


def _rename_as_measured(paths: Paths) -> None:
    """Rename synthetic records: they get the names of those of the current code and machine."""
    for record in read_folder(paths.all_records):
        dataset = read_description(paths.prepared(record.run.workload.dataset))
        key = run_key(record.run, run_provenance(record.run, dataset))
        record.folder.rename(record.folder.with_name(key))


def test_the_exit_status_is_that_of_the_comparison(
    measured: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce"]) == 2
    assert "no runs with the settings" in capsys.readouterr().out
    _rename_as_measured(measured)
    assert main(["pack", "local"]) == 0
    assert main(["reproduce"]) == 0  # one block decides nothing
    assert " other." in capsys.readouterr().out


def test_a_slower_study_is_different(
    study_folder: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    write_study(study_folder, ["pytorch/local"], blocks=6)
    _rename_as_measured(study_folder)
    assert main(["pack", "local"]) == 0
    assert main(["reproduce"]) == 0
    for record in read_folder(study_folder.all_records):
        steps = record.steps().to_pandas()
        times = [name for name in steps if name.endswith("_s")]
        steps[times] *= 3.0
        table = pa.Table.from_pandas(steps, preserve_index=False)
        write_table(record.folder / "steps.parquet", table)
    capsys.readouterr()
    assert main(["reproduce"]) == 1
    assert " slower" in capsys.readouterr().out


def test_pages_of_the_reference_need_its_pack_only(measured: Paths) -> None:
    assert main(["pack", "local"]) == 0
    measured.params.write_text(measured.params.read_text().replace("seed: ", "seed: 1"))
    shutil.rmtree(measured.all_records)
    shutil.rmtree(measured.prepared_sets)
    page = open_page("local", WORKLOAD, reference=True)
    assert [record.run.seed for record in page.records] == [page.study.seed] * 3
    assert page.dataset.source == "synthetic"
    assert set(page.certificate.values()) == {NO_CERTIFICATE}
    page.publish()
    assert not measured.metrics("local").exists()
    study = read_study(measured.params)
    pages = [path for _, path in planned_pages(study, measured)]
    own = measured.page("local", WORKLOAD, reference=True)
    executed = measured.executed_notebooks
    order = [executed / "certificates.ipynb", own, executed / "your-run.ipynb"]
    assert sorted(order, key=pages.index) == order
    assert measured.page("local", WORKLOAD, "verdicts", reference=True) in pages
    assert page_sources(study, measured)[own.stem] == "reports/reference/local"
    shutil.rmtree(measured.reference)
    assert not [path for _, path in planned_pages(study, measured) if "reference" in path.stem]


def test_an_experiment_that_only_the_reference_has_is_reported_from_it(measured: Paths) -> None:
    assert main(["pack", "local"]) == 0
    shutil.rmtree(measured.all_records)
    assert open_page("local", WORKLOAD, reference=True).note == ""
    values = yaml.safe_load(measured.params.read_text())
    values["experiments"]["other"] = values["experiments"].pop("local")
    measured.params.write_text(yaml.safe_dump(values))
    page = open_page("local", WORKLOAD)
    assert len(page.records) == 3
    assert "has no experiment local" in page.note
    with pytest.raises(UserError, match="experiment: 'locale' is not possible"):
        open_page("locale", WORKLOAD)


def test_the_report_is_about_the_reference_if_it_has_packs(measured: Paths) -> None:
    _rename_as_measured(measured)
    own = open_reported_study(measured)
    assert not own.is_reference
    assert "From 3 runs of 1 experiment," in origin_message(own.records, False).text
    assert main(["pack", "local"]) == 0
    shutil.rmtree(measured.all_records)
    shutil.rmtree(measured.prepared_sets)
    reported = open_reported_study(measured)
    assert reported.is_reference
    assert open_reported_study(measured, kind="training").is_reference
    assert not open_reported_study(measured, kind="sweep").is_reference
    assert "reports/reference" in origin_message(reported.records, True).text
    assert list(reported.study.experiments) == ["local"]
    assert reported.sources == {"cifar10": "synthetic"}
    (group,) = by_workload(reported.records).items()
    assert (group[0], len(group[1])) == (("local", WORKLOAD), 3)
    (title,) = step_metrics(reported.study, *reported.results, reported.sources)
    assert title.startswith("LeNet-5 on CIFAR-10 (synthetic")
    for question in (Question("lenet5"), Question("lenet5", objective="memory")):
        recommendation = recommendation_for(question, measured)
        assert len(recommendation.ranking)
        assert recommendation.basis.endswith("; records in reports/reference")


def test_a_claim_names_the_commands_that_repeat_its_runs(measured: Paths) -> None:
    assert main(["pack", "local"]) == 0
    records = open_reported_study(measured).records
    names = [record.folder.name for record in records[:2]]
    (claim, without) = with_repetition_costs([{"records": names}, {"records": []}], records)
    assert without["repetition"] == []
    (cost,) = claim["repetition"]
    assert (cost["experiment"], cost["workload"], cost["runs"]) == ("local", WORKLOAD, 3)
    assert cost["minutes"] == round(sum(record.result.wall_s for record in records) / 60, 1)
    assert cost["memory_mib"] > 0
    assert cost["disk_mib"] > 0


def test_the_report_is_described_as_a_crate(measured: Paths) -> None:
    assert main(["pack", "local"]) == 0
    measured.claims.write_text("[]")
    write_crate(measured)
    entities = {entity["@id"]: entity for entity in read_json(measured.crate)["@graph"]}
    root = entities["./"]
    parts = [part["@id"] for part in root["hasPart"]]
    assert "claims.json" in parts
    assert "horizont.pdf" not in parts  # which does not exist
    assert "reference/local/" in parts
    assert all((measured.reports / part).exists() for part in parts)
    assert root["datePublished"].count("-") == 2
    (action,) = (entities[one["@id"]] for one in root["mentions"])
    assert action["result"] == {"@id": "reference/local/"}
    content = measured.crate.read_bytes()
    write_crate(measured)
    assert measured.crate.read_bytes() == content


def test_certificates_are_packed_and_checked(measured: Paths) -> None:
    assert main(["pack", "local"]) == 0
    assert reference_certificates(measured) == []
    row = {"check": "frameworks", "quantity": "logits", "dtype": "float64", "subject": ""}
    row |= {"ok": True, "is_evidence": True, "distance": 1e-15, "bound": 1e-12, "tensor": "logits"}
    certificate = EquivalenceCertificate(
        workload=WORKLOAD,
        network="lenet5",
        dataset="cifar10",
        source="synthetic",
        provenance={},
        frameworks=("tensorflow", "pytorch"),
        missing={},
        rows=(row,),
    )
    write_certificate(measured.certificate(WORKLOAD), certificate)
    assert main(["pack", "local"]) == 0
    assert reference_certificates(measured) == [certificate]
    packed = measured.reference_certificate(WORKLOAD)
    content = packed.read_bytes()
    assert main(["pack", "local"]) == 0
    assert packed.read_bytes() == content
    narrower = certificate.model_copy(update={"frameworks": ("tensorflow",)})
    write_certificate(measured.certificate(WORKLOAD), narrower)
    assert main(["pack", "local"]) == 0
    assert reference_certificates(measured) == [certificate]
    assert WORKLOAD not in certificate_table([certificate]).html()
    assert "LeNet-5 on CIFAR-10" in certificate_table([certificate]).html()
    assert "LeNet-5 on CIFAR-10" in margin_figure([certificate]).svg()
    packed.write_bytes(content[:-9])
    with pytest.raises(UserError, match="intact certificate"):
        reference_certificates(measured)
    packed.write_bytes(gzip.compress(b'{"format": 0}'))
    with pytest.raises(UserError, match=f"{packed}: format: 0"):
        reference_certificates(measured)


def test_notebooks_are_executed_on_packed_records(measured: Paths) -> None:
    values = yaml.safe_load(measured.params.read_text())
    values["experiments"]["local"]["views"] = []
    measured.params.write_text(yaml.safe_dump(values))
    assert main(["pack", "local"]) == 0
    shutil.rmtree(measured.all_records)
    path = measured.notebooks / "training.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = notebook.cells[:3]  # the parameters, and the page with its title
    nbformat.write(notebook, path)
    assert main(["experiment", "local", "--reference"]) == 0
    (executed,) = measured.reference_pages.rglob("*.ipynb")
    assert executed == measured.page("local", WORKLOAD, reference=True)
    assert "LeNet-5 on CIFAR-10 (synthetic stand-in)" in executed.read_text()
    assert not measured.all_records.exists()
    assert list(measured.executed_notebooks.iterdir()) == [measured.reference_pages]


def test_the_packs_of_the_project_are_intact_and_small() -> None:
    """DVC accepts a changed pack, and executes its pages again."""
    folder = ROOT / "reports" / "reference"
    packs = [Pack(manifest.parent) for manifest in sorted(folder.glob(f"*/{MANIFEST}"))]
    for pack in packs:
        pack.check()
        assert len(pack.records()) == pack.manifest.runs
    (listed,) = yaml.safe_load((ROOT / "dvc.yaml").read_text())["vars"]
    assert {pack.folder.name for pack in packs} == set(listed["reference"])
    sizes = (path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert sum(sizes) <= LARGEST_BYTES

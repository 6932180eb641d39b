"""The whole study by DVC on the tiny profile: real processes of all frameworks, no mocks."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.analysis.all_quantities import assert_equal_quantities
from tests.browser import BROWSER, open_browser
from tests.conftest import ROOT, git, horizont_processes
from tests.page_problems import page_problems

from horizont.config.study import read_study
from horizont.config.system import FRAMEWORKS, SYSTEMS, installed_version
from horizont.launchers.base import unavailable_reason
from horizont.records.pack import PackContext, write_pack
from horizont.records.packed_record import Pack
from horizont.workflow.compare import read_folder
from horizont.workflow.paths import Paths

pytestmark = pytest.mark.pipeline

TIMEOUT_S = 900

#: The only pack of the copy, since the pages of all of them would take longer than the study.
PACK = "learning_25"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the files of the project, as a clone would have them, to a repository of its own."""
    root = tmp_path_factory.mktemp("clone") / "horizont"
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if files.returncode:
        pytest.skip("not a git checkout")
    for name in files.stdout.splitlines():
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
    for folder in (root / "reports/reference", root / "reports/notebooks/reference"):
        for part in folder.iterdir():
            if part.is_dir() and part.name not in (PACK, "equivalence"):
                shutil.rmtree(part)
    stages = root / "dvc.yaml"
    stages.write_text(re.sub(r"- reference: \[.*\]", f"- reference: [{PACK}]", stages.read_text()))
    git(root, "init", "-q")
    assert horizont(root, "config", "use", "tiny").returncode == 0
    git(root, "add", "-A")
    git(root, "commit", "-qm", "tiny")
    return root


def environment(root: Path) -> dict[str, str]:
    """Return an environment with the code of the copy and the programs of this interpreter."""
    programs = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(root / "src"),
        "HORIZONT_ROOT": str(root),
    }


def horizont(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(root, sys.executable, "-m", "horizont.cli", *words)


def run(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=root, env=environment(root), capture_output=True, text=True,
        timeout=TIMEOUT_S, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def done(copy: Path) -> Iterator[subprocess.CompletedProcess[str]]:
    """Run the study once for all tests of this module."""
    yield horizont(copy, "repro")
    assert not horizont_processes(copy)


def test_the_study_runs_to_its_end(copy: Path, done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    (stages,) = set(re.findall(r"\[\d+/(\d+)\]", done.stdout))
    assert f"/{stages}] prepare@cifar10" in done.stdout
    assert f"/{stages}] experiment@local" in done.stdout
    assert f"/{stages}] views@local" in done.stdout
    assert f"[{stages}/{stages}] book" in done.stdout
    assert "run 4/4" in done.stderr
    assert "The report: " in done.stdout
    assert "one process" in done.stdout
    assert (copy / "reports" / "book" / "index.html").exists()
    for page in ("glossary", "local-lenet5-cifar10", "verdicts-distributed-lenet5-cifar10"):
        assert (copy / "reports" / "book" / f"{page}.html").exists()
    assert (copy / "reports" / "horizont.pdf").stat().st_size > 100_000


@pytest.mark.usefixtures("done")
@pytest.mark.skipif(BROWSER is None, reason="no chromium here to open the pages with")
def test_the_pages_are_sound_on_a_desk_and_on_a_phone(copy: Path, tmp_path: Path) -> None:
    pages = sorted((copy / "reports" / "book").glob("*.html"))
    with open_browser(tmp_path / "profile") as page:
        assert page_problems(page, pages) == []


@pytest.mark.usefixtures("done")
def test_every_planned_run_has_its_record(copy: Path) -> None:
    paths = Paths(copy)
    study = read_study(paths.params)
    for experiment in study.experiments_on("lenet5-cifar10"):
        records = [
            json.loads(path.read_text())
            for path in paths.records(experiment, "lenet5-cifar10").glob("*/result.json")
        ]
        assert len(records) == len(list(study.runs(experiment, "lenet5-cifar10")))
        skipped = missing() or unavailable_reason(study.experiment(experiment).topology)
        expected = {"ok"} | ({"skipped"} if skipped else set())
        assert {record["status"] for record in records} <= expected


@pytest.mark.usefixtures("done")
def test_packed_records_give_the_same_numbers(copy: Path, tmp_path: Path) -> None:
    paths = Paths(copy)
    for experiment in read_study(paths.params).experiments:
        originals = read_folder(paths.all_records / experiment)
        write_pack(tmp_path / experiment, originals, PackContext("", "", {}, {}))
        assert_equal_quantities(Pack(tmp_path / experiment).records(), originals)


@pytest.mark.usefixtures("done")
def test_a_clone_with_packs_does_not_measure_them_again(copy: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(copy, "clone", "-q", str(copy), str(clone))
    assert horizont(copy, "pack", "local").returncode == 0
    shutil.move(Paths(copy).pack("local"), Paths(clone).pack("local"))
    git(copy, "checkout", "--", "reports/reference")  # the certificates, which are packed, too
    pipeline = (clone / "dvc.yaml").read_text()
    pipeline = re.sub(r"reference: \[.*\]", "reference: [local]", pipeline)
    (clone / "dvc.yaml").write_text(pipeline)
    command = (sys.executable, "-m", "dvc", "repro", "--single-item", "reference_pages@local")
    for words in ("horizont experiment local --reference", "didn't change"):
        ran = run(clone, *command)
        assert ran.returncode == 0, ran.stderr
        assert words in ran.stdout
        with (clone / "src" / "horizont" / "training" / "loop.py").open("a") as code:
            code.write("CHANGED = True\n")
    Pack(Paths(clone).pack("local")).check()
    assert not (clone / "records").exists()


def missing() -> list[str]:
    return [name for name in FRAMEWORKS if installed_version(name) is None]


@pytest.mark.usefixtures("done")
def test_asynchronous_training_was_replayed(copy: Path) -> None:
    found = Paths(copy).records("replay", "lenet5-cifar10").glob("*/updates.parquet")
    recording = [name for name, info in SYSTEMS.items() if info.records_updates]
    assert len(list(found)) == sum(name.split("/")[0] not in missing() for name in recording)
    chapter = (copy / "reports/notebooks/equivalence-lenet5-cifar10.ipynb").read_text()
    assert ("replayed to the same weights" in chapter) == bool(set(FRAMEWORKS) - set(missing()))


@pytest.mark.usefixtures("done")
def test_a_second_time_runs_nothing(copy: Path) -> None:
    again = horizont(copy, "repro")
    assert again.returncode == 0, again.stdout + again.stderr
    assert not [line for line in again.stdout.splitlines() if line.startswith("[")]


@pytest.mark.usefixtures("done")
def test_metrics_are_known_to_dvc(copy: Path) -> None:
    shown = run(copy, sys.executable, "-m", "dvc", "metrics", "show", "--json")
    assert shown.returncode == 0, shown.stderr
    metrics = json.loads(shown.stdout)[""]["data"]
    local = metrics[str(Path("reports/metrics/local.json"))]["data"]
    if not missing():
        assert local["examples_per_s"]["lenet5-cifar10"]["pytorch/local"] > 0
        systems = len(local["examples_per_s"]["lenet5-cifar10"])
        assert local["comparable"]["lenet5-cifar10"] == f"{systems} of {systems}"
    table = run(copy, sys.executable, "-m", "dvc", "metrics", "show", "--md")
    assert 5 < table.stdout.splitlines()[0].count("|") < 40, "one number for each system"
    diff = run(copy, sys.executable, "-m", "dvc", "metrics", "diff", "--json")
    assert diff.returncode == 0, diff.stderr


@pytest.mark.usefixtures("done")
def test_plots_are_drawn_by_dvc(copy: Path) -> None:
    shown = run(copy, sys.executable, "-m", "dvc", "plots", "show", "-o", "plots")
    assert shown.returncode == 0, shown.stderr
    page = (copy / "plots" / "index.html").read_text()
    assert "pytorch/local" in page


@pytest.mark.usefixtures("done")
def test_records_and_certificates_of_other_code_do_not_count(copy: Path) -> None:
    before = horizont(copy, "summary").stdout
    assert "not comparable" not in before
    adapter = copy / "src" / "horizont" / "frameworks" / "torch" / "model.py"
    text = adapter.read_text()
    adapter.write_text(text + "\nCHANGED = True\n")
    try:
        after = horizont(copy, "summary").stdout
    finally:
        adapter.write_text(text)
    assert "without a record yet: " in after


@pytest.mark.usefixtures("done")
def test_dvc_exp_run_changes_a_setting(copy: Path) -> None:
    git(copy, "add", "-A")
    git(copy, "commit", "-qm", "results")
    words = (
        "exp",
        "run",
        "-S",
        "experiments.local.steps.timed=9",
        "data@cifar10",
        "prepare@cifar10",
    )
    ran = run(copy, sys.executable, "-m", "dvc", *words)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert read_study(Paths(copy).params).experiment("local").steps.timed == 9


@pytest.mark.usefixtures("done")
def test_the_book_needs_no_records(copy: Path) -> None:
    """A clone has the executed notebooks, but not the records."""
    shutil.rmtree(copy / "reports" / "book")
    records = (copy / "records").rename(copy / "no-records")
    try:
        built = horizont(copy, "book")
    finally:
        records.rename(copy / "records")
    assert built.returncode == 0, built.stderr
    assert (copy / "reports" / "book" / "index.html").exists()

"""A framework, a launcher, a network, an experiment and a figure from outside the package.

`outside/` holds what would be added to the package, and `study.yaml` the settings. A tiny study
runs through them; each test names the files that its extension needed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest
from tests.conftest import ROOT, assert_nothing_left

from horizont.config.system import installed_version
from horizont.equivalence.certificate import read_certificate
from horizont.records.files import read_events, read_json, read_table
from horizont.reporting.output import FIGURE_MIME
from horizont.workflow.paths import Paths

pytestmark = pytest.mark.framework

HERE = Path(__file__).parent
OUTSIDE = HERE / "outside"

#: Files of each extension, besides one line in a registry.
FILES = {
    "framework": ["toy/__init__.py", "toy/info.py", "toy/adapter.py"],
    "launcher": ["low_priority.py"],
    "network": ["perceptron.py"],
    "figure": ["final_losses.py"],
}

#: The cell of a page that shows the figure; the function may as well be defined in the cell.
CELLS = (
    'experiment, workload = "toys", "lenet5-cifar10"',
    "import final_losses\n\nfrom horizont.workflow.pages import open_page\n\n"
    'open_page(experiment, workload).show("final_losses")',
)

WORKLOADS = ("lenet5-cifar10", "perceptron-cifar10")


def run(*command: str, root: Path) -> subprocess.CompletedProcess[str]:
    """Run a Python module in a process that knows the extensions."""
    path = os.pathsep.join([str(OUTSIDE), str(ROOT / "src"), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=root,
        env={**os.environ, "PYTHONPATH": path, "HORIZONT_ROOT": str(root)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paths]:
    """Run the study once."""
    if installed_version("pytorch") is None:
        pytest.skip("pytorch is not installed, with which the toy framework is compared")
    root = tmp_path_factory.mktemp("extension")
    shutil.copy(HERE / "study.yaml", root / "params.yaml")
    shutil.copy(ROOT / "dvc.yaml", root)
    shutil.copytree(ROOT / "notebooks", root / "notebooks")
    assert run("dvc", "init", "--no-scm", "--quiet", root=root).returncode == 0
    for command in (["config", "check"], ["verify", WORKLOADS[0]], ["experiment", "toys"]):
        done = run("horizont.cli", *command, root=root)
        assert done.returncode == 0, done.stdout + done.stderr
    yield Paths(root)
    assert_nothing_left(root)


def records(paths: Paths, workload: str, system: str) -> Path:
    (record,) = paths.records("toys", workload).glob(f"{system}-local-*")
    return record


def test_the_files_are_all_that_the_extensions_needed() -> None:
    files = [path for path in OUTSIDE.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    named = [name for names in FILES.values() for name in names]
    assert {path.relative_to(OUTSIDE).as_posix() for path in files} == {*named, "sitecustomize.py"}


def test_a_framework_is_three_files_and_a_line(tmp_path: Path) -> None:
    done = run("tests.frameworks.conformance", "toy", root=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.strip().splitlines()[-1])
    for name in ("logits", "loss", "predict", "padded"):
        assert found[name] < 1e-12, name
    assert found["update"] < 1e-14
    assert found["marks"] == ["forward", "backward", "update"]


def test_the_comparator_verifies_the_framework(study: Paths) -> None:
    certificate = read_certificate(study.certificate(WORKLOADS[0]))
    assert certificate is not None
    assert set(certificate.frameworks) == {"toy", "pytorch"}
    assert certificate.ok, certificate.verdict


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("system", ["toy", "pytorch"])
def test_the_framework_trains_the_networks(study: Paths, workload: str, system: str) -> None:
    record = records(study, workload, system)
    assert read_json(record / "result.json")["status"] == "ok"
    steps = read_table(record / "steps.parquet").to_pandas()
    assert len(steps) == 10
    assert steps["loss"].notna().all()


def test_both_frameworks_have_the_same_losses(study: Paths) -> None:
    for workload in WORKLOADS:
        losses = [
            read_table(records(study, workload, system) / "steps.parquet")["loss"].to_numpy()
            for system in ("toy", "pytorch")
        ]
        assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_a_launcher_is_one_file_and_a_line(study: Paths) -> None:
    record = records(study, WORKLOADS[0], "toy")
    started = [
        event for event in read_events(record / "events.jsonl") if event["event"] == "started"
    ]
    assert [event["niceness"] for event in started if "niceness" in event] == [5]
    assert read_json(record / "environment.json")["capabilities"] == ["shared_clock"]
    done = run("horizont.cli", "run", "toys", WORKLOADS[0], "--dry-run", root=study.root)
    assert "launcher low_priority" in done.stdout


def test_an_option_of_a_launcher_is_checked(study: Paths, tmp_path: Path) -> None:
    text = study.params.read_text().replace("niceness: 5", "niceness: 50")
    (tmp_path / "params.yaml").write_text(text)
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    done = run("horizont.cli", "config", "check", root=tmp_path)
    assert done.returncode == 2
    assert "topology.options.niceness" in done.stderr


def test_a_network_is_one_file_and_a_line(study: Paths) -> None:
    record = records(study, WORKLOADS[1], "toy")
    assert read_json(record / "spec.json")["workload"]["network"] == "perceptron"


def test_an_experiment_is_yaml_alone(study: Paths) -> None:
    again = run("horizont.cli", "run", "toys", root=study.root)
    assert again.returncode == 0
    assert "2 available before" in again.stderr
    stages = run("dvc", "stage", "list", "--name-only", root=study.root)
    assert {"experiment@toys", "views@toys"} <= set(stages.stdout.split()), stages.stderr
    for workload in WORKLOADS:
        assert "toy" in study.page("toys", workload).read_text(encoding="utf-8")


def test_a_figure_is_a_function_and_a_cell(study: Paths) -> None:
    parameters, show = map(nbformat.v4.new_code_cell, CELLS)
    parameters.metadata["tags"] = ["parameters"]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    page = nbformat.v4.new_notebook(cells=[parameters, show], metadata=kernel)
    nbformat.write(page, study.notebooks / "losses.ipynb")
    done = run("horizont.cli", "notebook", "losses", root=study.root)
    assert done.returncode == 0, done.stderr
    executed = nbformat.read(study.executed_notebooks / "losses.ipynb", as_version=4)
    outputs = [output for cell in executed.cells for output in cell.get("outputs", [])]
    (data,) = [output["data"] for output in outputs if FIGURE_MIME in output.get("data", {})]
    content = data[FIGURE_MIME]
    assert content["name"] == "final_losses"
    assert content["caption"].startswith("Training loss of the last step.")
    csv = unquote(data["text/html"].partition("data:text/csv")[2])
    assert csv.partition(",")[2].startswith("system,loss\n")
    assert "toy/local" in csv
    assert "<svg" in data["text/html"]

"""The files of the repository: clean notebooks, no traces of a machine, valid targets and links."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import get_args

import nbformat
import pytest
import yaml

from horizont.config.study import read_study
from horizont.workflow.provenance import run_files

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").rglob("*.ipynb"))

#: Folders of single machines, and hosts that packages come from.
TRACES = re.compile(
    r"(?<![\w.])/(work|root|home/\w+|tmp/lock)/|/opt/(wheels|pypi)"
    r"|files\.pythonhosted|\bpypi\.org|download\.pytorch|\banaconda\.(org|com)"
)


def committed() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def test_every_kind_and_view_has_a_notebook() -> None:
    from horizont.config.experiment import Kind, View

    names = {path.relative_to(ROOT / "notebooks").as_posix() for path in NOTEBOOKS}
    assert {f"{kind}.ipynb" for kind in get_args(Kind)} <= names
    assert {f"views/{view}.ipynb" for view in get_args(View)} <= names


def test_dvc_has_one_stage_for_all_experiments() -> None:
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    assert len(stages) <= 12
    text = re.sub(r"notebooks/\w+|- reference: \[.*\]", "", (ROOT / "dvc.yaml").read_text())
    experiments = yaml.safe_load((ROOT / "params.yaml").read_text())["experiments"]
    assert not re.search(rf"\b({'|'.join(experiments)})\b(?!:)", text)


def test_an_experiment_depends_on_all_code_of_its_runs() -> None:
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    watched = [ROOT / each for each in stages["experiment"]["do"]["deps"] if "$" not in each]
    study = read_study(ROOT / "params.yaml")
    files = {
        file
        for workload in study.workloads
        for experiment in study.experiments_on(workload)
        for run in study.runs(experiment, workload)
        for file in run_files(run)
    }
    assert files
    assert not [f for f in files if not any(f.is_relative_to(each) for each in watched)]


def test_the_site_is_not_committed() -> None:
    generated = [path for path in committed() if path.suffix in (".html", ".js", ".woff2")]
    assert [path for path in generated if "reports" in path.parts] == []


def test_no_notebook_has_outputs() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "notebooks.py", "--check"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_the_check_for_outputs_finds_them(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "notebooks").mkdir()
    tool = tmp_path / "tools" / "notebooks.py"
    tool.write_text((ROOT / "tools" / "notebooks.py").read_text())
    copy = tmp_path / "notebooks" / NOTEBOOKS[0].name
    copy.write_text(NOTEBOOKS[0].read_text())

    def status(word: str) -> int:
        return subprocess.run([sys.executable, tool, word], check=False).returncode

    assert status("--check") == 0
    notebook = nbformat.read(copy, as_version=4)
    code = next(cell for cell in notebook.cells if cell.cell_type == "code")
    code.outputs = [nbformat.v4.new_output("stream", text="traces")]
    nbformat.write(notebook, copy)
    assert status("--check") == 1
    assert status("--strip") == 0
    assert status("--check") == 0


def test_no_file_names_a_machine_or_a_registry() -> None:
    found = []
    for path in committed():
        if path == Path(__file__):
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in TRACES.finditer(text)]
    assert found == []


def test_no_file_has_the_marks_of_an_unfinished_merge() -> None:
    found = [
        path.relative_to(ROOT).as_posix()
        for path in committed()
        if re.search(rb"^(<<<<<<<|>>>>>>>) ", path.read_bytes(), re.MULTILINE)
    ]
    assert found == []


def test_the_readme_names_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    named = set(re.findall(r"`?make ([a-z]+)`?", (ROOT / "README.md").read_text()))
    assert named
    assert named <= targets


def test_links_of_pages_are_valid() -> None:
    dead = []
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/howto").glob("*.md")]
    for page in pages:  # Sphinx checks the links of docs/book
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            dead += [] if (page.parent / target).exists() else [f"{page.name}: {target}"]
    assert dead == []


def test_the_citation_file_is_valid() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors", "version", "license"} <= set(citation)
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
    assert project["version"] in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_ci_runs_with_and_without_optional_tools() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    commands = [step.get("run") for job in workflow["jobs"].values() for step in job["steps"]]
    assert {"bash .ci/run bare", "bash .ci/run complete", "make book"} <= set(commands)
    refused = subprocess.run(
        ["bash", ".ci/run", "partial"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (refused.returncode, refused.stderr) == (2, "usage: .ci/run [complete|bare|extended]\n")

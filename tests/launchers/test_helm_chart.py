"""The Helm chart: rendered by Helm, and valid for Kubernetes by its schemas, without a cluster."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import ROOT, wait_for

from horizont.launchers.agent.wire import SECRET_VARIABLE, is_secret
from horizont.launchers.standby import AGENTS_VARIABLE

CHART = ROOT / "deploy" / "helm"
MANIFEST = ROOT / "deploy" / "kubernetes" / "horizont.yaml"
PROGRAMS = ROOT / ".venv" / "deploy" / "bin"

pytestmark = pytest.mark.skipif(
    not (PROGRAMS / "helm").exists(), reason="no Helm here: run `python tools/deploy.py`"
)

#: Versions of Kubernetes, from the oldest that the chart names to the newest that has schemas.
VERSIONS = ("1.25", "1.29", "1.33", "1.37")

CHANGED = ("hosts=50", "cpus=0.5", "oneOnEachNode=false", "image=example.org/horizont:1")


def run(program: str, *words: object) -> subprocess.CompletedProcess[str]:
    command = [PROGRAMS / program, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def render(*settings: str, release: str = "horizont") -> str:
    options = [word for setting in settings for word in ("--set", setting)]
    done = run("helm", "template", release, CHART, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rendered(*settings: str) -> dict[str, Any]:
    return {each["kind"]: each for each in yaml.safe_load_all(render(*settings))}


def problems(text: str, version: str, tmp_path: Path) -> str:
    """Return what the schemas of a version refuse in a manifest; empty if nothing."""
    path = tmp_path / "manifest.yaml"
    path.write_text(text, encoding="utf-8")
    done = run("kubernetes-validate", "--strict", "--kubernetes-version", version, path)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_helm_finds_no_fault_in_the_chart() -> None:
    done = run("helm", "lint", "--strict", CHART)
    assert done.returncode == 0, done.stdout


def test_the_manifest_is_what_the_chart_renders() -> None:
    header, _, content = MANIFEST.read_text(encoding="utf-8").partition("---\n")
    assert "helm template" in header
    assert "---\n" + content == render("existingSecret=horizont")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("settings", [(), CHANGED], ids=["as it is", "changed"])
def test_manifests_are_valid(version: str, settings: tuple[str, ...], tmp_path: Path) -> None:
    assert not problems(render(*settings, release="study"), version, tmp_path)


def test_a_manifest_with_a_misspelt_field_is_not_valid(tmp_path: Path) -> None:
    text = render().replace("completions:", "completion:")
    assert "completion" in problems(text, VERSIONS[0], tmp_path)


def test_the_job_has_a_pod_for_each_host_and_one_that_runs_the_study() -> None:
    found = rendered("hosts=5")
    job = found["Job"]["spec"]
    assert job["completions"] == job["parallelism"] == 6
    (container,) = job["template"]["spec"]["containers"]
    names = {each["name"]: each.get("value") for each in container["env"]}
    assert names == {AGENTS_VARIABLE: "5", SECRET_VARIABLE: None}
    subprocess.run(["sh", "-n", "-c", container["args"][0]], check=True)
    assert is_secret(found["Secret"]["stringData"]["secret"])
    assert "Secret" not in rendered("existingSecret=mine")


#: Stands for `horizont` in the first pod.
STUDY = """#!/bin/sh
echo "$@" >> called
[ "$1" = repro ] || exit 0
trap 'echo ended >> called; exit 1' TERM
echo > started
[ -e quick ] && exit 3
sleep 60 & wait
"""


@pytest.fixture
def pod(tmp_path: Path) -> Callable[[], subprocess.Popen[bytes]]:
    """Return what starts the command of the first pod with another program as the study."""
    program = tmp_path / ".venv" / "bin" / "horizont"
    program.parent.mkdir(parents=True)
    program.write_text(STUDY)
    program.chmod(0o755)
    (container,) = rendered("keepSeconds=0")["Job"]["spec"]["template"]["spec"]["containers"]
    command = [*container["command"], *container["args"]]
    variables = os.environ | {"JOB_COMPLETION_INDEX": "0"}
    return lambda: subprocess.Popen(command, cwd=tmp_path, env=variables)


def test_the_first_pod_ends_with_the_status_of_the_study(pod: Any, tmp_path: Path) -> None:
    (tmp_path / "quick").touch()
    assert pod().wait(20) == 3
    called = (tmp_path / "called").read_text().splitlines()
    assert called == ["config use quick --launcher standby", "repro"]


def test_the_first_pod_ends_the_study_if_it_is_deleted(pod: Any, tmp_path: Path) -> None:
    started = pod()
    wait_for((tmp_path / "started").exists, "the study starts", 20)
    started.terminate()
    assert started.wait(20) == 143
    assert (tmp_path / "called").read_text().splitlines()[-1] == "ended"


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("hosts=0", "hosts: Must be greater than or equal to 1"),
        ("hosts=many", "hosts: Invalid type. Expected: integer"),
        ("host=3", "Additional property host is not allowed"),
        ("memory=8", "memory: Invalid type. Expected: string"),
        ("cpus=half", "cpus: Does not match pattern"),
    ],
)
def test_impossible_values_are_refused(setting: str, words: str) -> None:
    done = run("helm", "template", "horizont", CHART, "--set", setting)
    assert done.returncode != 0
    assert words in done.stderr

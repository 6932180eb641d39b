"""Files and folders of the project that are missing: which, and the command that restores them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.conftest import change_setting

from horizont.cli import main
from horizont.config.system import unusable_reason
from horizont.config.topology import Topology
from horizont.launchers.base import unavailable_reason
from horizont.workflow.paths import Paths


@pytest.mark.parametrize("is_dead_link", [False, True])
def test_settings_that_are_missing_are_written_again(
    study_folder: Paths,
    refused: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    is_dead_link: bool,
) -> None:
    monkeypatch.delenv("HORIZONT_ROOT")
    monkeypatch.chdir(study_folder.notebooks)
    settings = study_folder.params.read_text()
    study_folder.params.unlink()
    if is_dead_link:
        study_folder.params.symlink_to(study_folder.root / "no-such-file")
    line = refused("config", "check")
    assert "params.yaml: missing" in line
    assert "`horizont config use quick` writes it, or `git checkout params.yaml`" in line
    assert main(["config", "use", "tiny"]) == 0
    assert study_folder.params.read_text() == settings
    assert not study_folder.params.is_symlink()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("profiles", ["config", "list"]),
        ("profiles", ["config", "use", "quick"]),
        ("notebooks", ["notebook", "data"]),
    ],
)
def test_a_missing_folder_is_named(
    study_folder: Paths, refused: Callable[..., str], name: str, words: list[str]
) -> None:
    shutil.rmtree(study_folder.root / name)
    line = refused(*words)
    assert re.search(f"/{name}: missing; needed: .*`git checkout {name}`$", line), line


def test_the_line_of_a_key_twice_has_its_file(
    study_folder: Paths, refused: Callable[..., str]
) -> None:
    study_folder.params.write_text(study_folder.params.read_text() + "\nseed: 3\n")
    number = len(study_folder.params.read_text().splitlines())
    line = refused("config", "check")
    assert line.startswith(f"error: {study_folder.params}, line {number}: 'seed' ")


def test_an_interpreter_without_its_framework_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORIZONT_MXNET_PYTHON", "/bin/true")
    reason = unusable_reason("mxnet")
    assert reason == "mxnet is not installed in /bin/true (HORIZONT_MXNET_PYTHON)"


def test_hosts_that_are_not_given_are_missing() -> None:
    options = {"command": "env A={host}"}
    topology = Topology(launcher="command", workers=2, hosts=2, options=options)
    reason = "topology.options.hosts: missing; 2 names are needed"
    assert unavailable_reason(topology) == reason
    given = topology.model_copy(update={"options": {**options, "hosts": ["north"]}})
    assert "has 1 name, and 2 are needed" in unavailable_reason(given)


def test_the_images_of_the_user_are_named_by_their_own_setting(
    study_folder: Paths, refused: Callable[..., str]
) -> None:
    values = yaml.safe_load(study_folder.params.read_text())
    values["data"] |= {"own": {"shapes": {"kind": "image", "path": "no/such/folder"}}}
    study_folder.params.write_text(yaml.safe_dump(values))
    change_setting(study_folder, "datasets", ["shapes"])
    change_setting(study_folder, "workloads.lenet5-cifar10.dataset", "shapes")
    line = refused("config", "check")
    folder = Path("no", "such", "folder")
    assert re.match(f"error: data.own.shapes.path: .*{folder} does not exist", line), line

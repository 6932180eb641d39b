"""The pages name files, commands, options, settings and stages that exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import typer
import yaml

from horizont.cli import app

ROOT = Path(__file__).parents[2]
HOWTO = ROOT / "docs" / "howto"
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(path for path in (ROOT / "docs").rglob("*.md") if "book" not in path.parts),
    ]
)

#: Files that the reader creates.
CREATED = {
    "src/horizont/networks/mlp.py",
    "profiles/shapes.yaml",
    "profiles/ssh.yaml",
    "profiles/tales.yaml",
}

#: The start of a path in this repository.
FOLDERS = r"(?:src|tests|profiles|notebooks|docs|tools|\.dvc)/"


def code_of(page: Path) -> str:
    """Join what a page sets as code: words in backticks, and blocks."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.M | re.S)
    return "\n".join([*re.findall(r"`([^`\n]+)`", text), *blocks])


def commands() -> dict[str, set[str]]:
    """Return the options of each command by its name, `group name` in a group."""
    found: dict[str, set[str]] = {}
    group = typer.main.get_command(app)
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        members = getattr(command, "commands", {})
        for inner, member in {f"{name} {key}": each for key, each in members.items()}.items():
            found[inner] = {option for parameter in member.params for option in parameter.opts}
        found[name] = {option for parameter in command.params for option in parameter.opts}
    return found


def test_there_is_a_page_for_everything_promised() -> None:
    named = re.findall(r"\]\((\w+\.md)\)", (HOWTO / "index.md").read_text())
    assert {*named, "index.md"} == {page.name for page in HOWTO.glob("*.md")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_named_file_exists(page: Path) -> None:
    named = set(re.findall(rf"(?<![\w/.<>]){FOLDERS}[\w./-]*(?![\w<])", code_of(page)))
    missing = [
        name
        for name in named - CREATED
        if not (ROOT / name.rstrip(".")).exists() and name[-1] != "-"
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_named_command_exists(page: Path) -> None:
    code = code_of(page)
    known = commands()
    for line in re.findall(r"\bhorizont ([a-z].*)", code):
        name, *words = re.split(r" -- | && |#", line)[0].split()
        if words and f"{name} {words[0]}" in known:
            name = f"{name} {words[0]}"
        assert name in known, line
        options = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", " ".join(words)))
        assert options <= known[name], line
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"\bmake ([a-z]+)\b", code)) <= targets
    created = {Path(name) for name in CREATED if name.startswith("profiles/")}
    profiles = {path.stem for path in [*(ROOT / "profiles").glob("*.yaml"), *created]}
    named = set(re.findall(r"(?:horizont config use |PROFILE=)([a-z][\w-]*)", code))
    assert named <= profiles
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    assert set(re.findall(r"(?:-s |^)(\w+)@\w", code)) <= set(stages)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_setting_given_to_dvc_exists(page: Path) -> None:
    params = yaml.safe_load((ROOT / "profiles" / "quick.yaml").read_text())
    for path in re.findall(r"-S '?([\w.]+)=", code_of(page)):
        values = params
        for name in path.split("."):
            assert name in values, path
            values = values[name]


def test_settings_name_every_profile_and_field() -> None:
    from horizont.config.experiment import Experiment
    from horizont.config.faults import FaultSpec
    from horizont.config.input import InputPipeline
    from horizont.config.topology import Topology

    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    # Without the profiles of a user.
    listed = subprocess.run(
        ["git", "ls-files", "profiles"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    profiles = {Path(line).stem for line in listed.stdout.splitlines()}
    fields = {
        name
        for model in (Experiment, FaultSpec, InputPipeline, Topology)
        for name in model.model_fields
    }
    assert {name for name in profiles | fields if name not in text} == set()


def test_missing_files_and_commands_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("See `src/horizont/nowhere.py`.\n\n```sh\nhorizont fly tests/none\n```\n")
    with pytest.raises(AssertionError, match=r"nowhere"):
        test_each_named_file_exists(page)
    with pytest.raises(AssertionError, match=r"fly"):
        test_each_named_command_exists(page)
    page.write_text("```sh\nhorizont verify lenet5 --fault x\n```\n")
    with pytest.raises(AssertionError, match=r"--fault"):
        test_each_named_command_exists(page)
    page.write_text("`dvc exp run -S local.blocks=8`\n")
    with pytest.raises(AssertionError, match=r"local"):
        test_each_setting_given_to_dvc_exists(page)

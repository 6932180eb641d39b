"""The commands that the README shows print what it shows."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from tests.conftest import ROOT

from horizont.config.system import FRAMEWORKS, framework_info
from horizont.workflow.paths import Paths
from horizont.workflow.reference import open_packs

_LABELS = "|".join(framework_info(name).label for name in FRAMEWORKS)


def examples() -> dict[str, tuple[list[str], list[str]]]:
    """Return the commands and the output of each thing to do, by its name."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition("\n## Three things to do with it\n")[2].partition("\n## ")[0]
    found = re.findall(
        r"^\*\*(.*?)\.\*\*.*?^```sh\n(.*?)^```\n\n```text\n(.*?)^```", section, re.M | re.S
    )
    return {name: (code.splitlines(), output.splitlines()) for name, code, output in found}


def test_the_readme_names_the_cores_of_the_reference() -> None:
    packs = [pack for pack, _ in open_packs(Paths(ROOT)).values()]
    machines = [record.environment["cpu"] for pack in packs for record in pack.records()]
    words = {2: "two", 4: "four"}
    cores = " or ".join(words[one] for one in sorted({len(cpu["affinity"]) for cpu in machines}))
    assert f"virtual machines with {cores} cores" in (ROOT / "README.md").read_text("utf-8")


def beginning(line: str) -> str:
    """Return a line up to its first number or semicolon, whichever framework it names.

    What follows, and which framework is fastest, depends on the machine; the next command depends
    on what has been done before.
    """
    line = re.sub(_LABELS, "FRAMEWORK", line)
    start = re.split(r"[\d;…]|(?<=^next: .venv/bin/horizont )", line)[0]
    return " ".join(start.split())


@pytest.mark.framework("tensorflow", "pytorch", "mxnet", "jax")
@pytest.mark.parametrize("name", examples())
def test_the_readme_shows_what_its_commands_print(name: str, study_folder: Paths) -> None:
    commands, shown = examples()[name]
    shutil.copytree(ROOT / "docs" / "examples", study_folder.root / "docs" / "examples")
    script = study_folder.root / ".venv" / "bin" / "horizont"
    script.parent.mkdir(parents=True)
    code = "from horizont.cli import main\nraise SystemExit(main())\n"
    script.write_text(f"#!{sys.executable}\n{code}")
    script.chmod(0o755)
    output = ""
    for command in commands:
        words = shlex.split(command)
        assert words[0] == ".venv/bin/horizont"
        done = subprocess.run(
            words,
            env={**os.environ, "HORIZONT_ROOT": str(study_folder.root)},
            cwd=study_folder.root, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode in {0, 1}, done.stderr  # 1: two models differ
        output += done.stdout
    printed = {beginning(line) for line in output.splitlines()}
    assert {beginning(line) for line in shown if line != "..."} <= printed


def test_there_are_three_examples() -> None:
    assert len(examples()) == 3

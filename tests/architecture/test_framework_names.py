"""Framework names stay in the framework's folder: everything else reads its ``info`` module."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from horizont.config.system import FRAMEWORKS, framework_info

SOURCE = Path(__file__).parents[2] / "src" / "horizont"

#: The only file with the names of all frameworks.
REGISTRY = "config/system.py"

#: Files with a name in a comment, docstring or caption, and why it is needed there.
ALLOWED = {
    "networks/layers.py": "the definition of a layer says where a framework's default differs",
    "monitoring/process_control.py": "which framework imports the modules that are hidden",
    "launchers/process.py": "the format of a framework's error messages",
    "launchers/supervisor.py": "the framework that never detects a lost process",
    "frameworks/updates.py": "the framework whose server does not know the sender of a gradient",
    "reporting/figures/communication.py": "captions: what is counted, and by whose clock",
    "reporting/tensorboard.py": "the framework that TensorBoard must not load",
}


def names() -> set[str]:
    """List what a framework is called: in settings, in tables, and in imports."""
    infos = {framework: framework_info(framework) for framework in FRAMEWORKS}
    return {
        name.lower()
        for framework, info in infos.items()
        for name in (framework, info.label, *info.import_names)
    }


def mentions(path: Path) -> Iterator[tuple[int, str]]:
    """Find framework names in a file: line and name."""
    pattern = re.compile(rf"(?i)(?<![a-z])({'|'.join(sorted(names()))})(?![a-z])")
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        for found in pattern.finditer(token.string):
            yield token.start[0], found[0]


def own_folders() -> tuple[str, ...]:
    packages = (package.removeprefix("horizont.") for package in FRAMEWORKS.values())
    return tuple(f"{package.replace('.', '/')}/" for package in packages)


def test_no_source_file_outside_its_folder_names_a_framework() -> None:
    elsewhere = []
    for path in sorted(SOURCE.rglob("*.py")):
        file = path.relative_to(SOURCE).as_posix()
        if file != REGISTRY and file not in ALLOWED and not file.startswith(own_folders()):
            elsewhere += [f"{file}:{line}: {name}" for line, name in mentions(path)]
    assert elsewhere == []


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_framework_names_another_one_in_code(framework: str) -> None:
    info = framework_info(framework)
    folder = SOURCE.parent / FRAMEWORKS[framework].replace(".", "/")
    own = {framework, *info.import_names}
    others = {module for other in FRAMEWORKS for module in framework_info(other).import_names}
    for path in folder.glob("*.py"):
        imported = re.findall(r"^\s*(?:import|from) (\w+)", path.read_text(), re.MULTILINE)
        assert not (set(imported) & others) - own, path


def test_the_list_of_exceptions_is_short_and_needed() -> None:
    for file in ALLOWED:
        assert not (SOURCE / file).exists() or list(mentions(SOURCE / file)), f"{file} needs none"


def test_a_name_is_found(tmp_path: Path) -> None:
    framework = next(iter(FRAMEWORKS))
    path = tmp_path / "module.py"
    path.write_text(f"#: A comment.\nDEFAULT_{framework.upper()} = f'{framework}/{{0}}'\n")
    assert [line for line, _ in mentions(path)] == [2, 2]


def test_packages_of_frameworks_have_the_same_files_and_import_nothing() -> None:
    folders = [SOURCE.parent / package.replace(".", "/") for package in FRAMEWORKS.values()]
    for folder in folders:
        assert (folder / "__init__.py").read_bytes() == b""
        modules = {path.stem for path in folder.glob("*.py")}
        assert {"info", "adapter", "model", "optimizer", "input", "train", "profiler"} <= modules

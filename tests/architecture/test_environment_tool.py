"""`tools/environment.py` with the real pip and venv, on an index of tiny packages.

The index has hashes, as real ones do, and the folder of PIP_FIND_LINKS has none: that difference
once made pip prefer PyTorch's build for accelerators.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from horizont.config.system import FRAMEWORKS

ROOT = Path(__file__).parents[2]

#: The smallest package that pip can build without the network.
PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
BACKEND = """\
import zipfile
def build_editable(folder, settings=None, metadata=None):
    name = "horizont-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as file:
        file.writestr("horizont.py", "")
        about = "Metadata-Version: 2.1\\nName: horizont\\nVersion: 1\\n"
        file.writestr("horizont-1.dist-info/METADATA", about)
        file.writestr("horizont-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        file.writestr("horizont-1.dist-info/RECORD", "")
    return name
"""


def wheel(folder: Path, name: str, version: str, code: str, requires: str = "") -> str:
    """Write a wheel of one module; return its hash."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    path = folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{name.removesuffix('-cpu')}.py", code)
        file.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
        )
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Project:
    """A tree with the tool, a lock, an index and a folder of wheels."""

    def __init__(self, root: Path) -> None:
        self.root, self.index, self.links = root / "tree", root / "index", root / "links"
        self.lock: dict[str, list[str]] = {}
        self.links.mkdir()
        for name, text in {"pyproject.toml": PROJECT, "backend.py": BACKEND}.items():
            self.write(name, text)
        infos = (f"src/{package.replace('.', '/')}/info.py" for package in FRAMEWORKS.values())
        for file in ("tools/environment.py", "src/horizont/config/system.py", *infos):
            self.write(file, (ROOT / file).read_text(encoding="utf-8"))
        self.offer("numpy", "1", "bool_ = bool")
        self.offer("tensorflow-cpu", "1", "")
        self.offer("torch", "2", "import nvidia", requires="nvidia")
        self.offer("nvidia", "1", "", locked=False)
        self.offer("mxnet", "1", "import numpy; numpy.bool")

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text, encoding="utf-8")

    def offer(
        self, name: str, version: str, code: str, requires: str = "", locked: bool = True
    ) -> None:
        """Add a package to the index, with its hash in the link, and to the lock."""
        page = self.index / name
        value = wheel(page, name, version, code, requires)
        file = next(page.glob("*.whl")).name
        (page / "index.html").write_text(f'<a href="{file}#sha256={value}">{file}</a>')
        if locked:
            self.lock[f"{name}=={version}"] = [value]
            self.write_lock()

    def write_lock(self) -> None:
        entries = (
            name + "".join(f" \\\n    --hash=sha256:{value}" for value in values)
            for name, values in self.lock.items()
        )
        self.write("requirements.lock", "# a lock\n" + "\n".join(entries) + "\n")

    def make(self, *words: str) -> str:
        """Run the tool and return what it printed."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_"))}
        done = subprocess.run(
            [sys.executable, "tools/environment.py", *words],
            cwd=self.root, capture_output=True, text=True, check=False, timeout=300,
            env={**clean, "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": self.index.as_uri(),
                 "PIP_FIND_LINKS": str(self.links)},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def installed(self) -> dict[str, str]:
        words = [self.root / ".venv/bin/python", "-m", "pip", "list", "--format=freeze"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        pairs = (line.split("==") for line in done.stdout.splitlines())
        return {name: version for name, version in pairs if name not in ("pip", "setuptools")}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("making"))


def test_the_other_build_is_completed_and_then_nothing_is_left_to_do(project: Project) -> None:
    output = project.make()
    assert "pip finds only PyTorch's build for accelerators" in output
    assert set(project.installed()) == {
        "horizont", "mxnet", "numpy", "nvidia", "tensorflow-cpu", "torch",
    }  # fmt: skip
    assert project.make() == ""


def test_the_cpu_build_is_taken_where_there_is_one(project: Project) -> None:
    project.lock["torch==2"].append(wheel(project.links, "torch", "2+cpu", ""))
    project.write_lock()
    assert "accelerators" not in project.make()
    assert project.installed()["torch"] == "2+cpu"


def test_what_is_left_out_stays_out(project: Project) -> None:
    assert "without mxnet" in project.make("--without", "mxnet")
    assert "mxnet" not in project.installed()
    assert project.make() == ""
    project.make("--without", "none")
    assert "mxnet" in project.installed()


def test_a_framework_that_does_not_work_is_named_with_the_reason(project: Project) -> None:
    page = project.index / "mxnet"
    shutil.rmtree(page)
    del project.lock["mxnet==1"]
    project.offer("mxnet", "2", "raise OSError('no libgomp')")
    output = project.make()
    assert "mxnet does not work here, continuing without it: OSError: no libgomp" in output
    assert "mxnet" not in project.installed()
    assert "mxnet could not be installed; remove .venv/.created-from.json" in project.make()


def test_a_framework_that_cannot_be_had_stops_nothing(project: Project) -> None:
    project.lock["mxnet==2"] = ["0" * 64]
    project.write_lock()
    assert "mxnet could not be installed; continuing without it" in project.make()
    del project.lock["mxnet==2"]
    project.write_lock()
    assert "mxnet is not in the lock file; continuing without it" in project.make()
    assert {"torch", "tensorflow-cpu"} <= set(project.installed())


def test_an_environment_left_half_made_is_made_anew(project: Project) -> None:
    shutil.rmtree(next((project.root / ".venv/lib").glob("python*/site-packages/pip")))
    (project.root / ".venv/.created-from.json").write_text("")
    assert "creating .venv" in project.make()
    assert "torch" in project.installed()

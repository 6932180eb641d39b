"""`tools/environment.py` with the real uv, pip and venv, on an index of tiny packages.

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
from tests.conftest import cases
from uv import find_uv_bin

from horizont.config.system import FRAMEWORKS, framework_info

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


def wheel(
    folder: Path, name: str, version: str, code: str, requires: str = "", module: str = ""
) -> str:
    """Write a wheel of one module; return its hash."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    path = folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{module or name}.py", code)
        file.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
        )
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


#: Passes its arguments to the real uv, whose wheel is too large for an index of tiny packages.
UV = """\
import os, sys
os.execv({uv!r}, [{uv!r}, *sys.argv[1:]])
"""


class Project:
    """A tree with the tool, lock files, an index and a folder of wheels."""

    def __init__(self, root: Path, *, with_uv: bool) -> None:
        self.root, self.index, self.links = root / "tree", root / "index", root / "links"
        self.locks: dict[str, dict[str, list[str]]] = {"laboratory": {}}
        self.links.mkdir()
        for name, text in {"pyproject.toml": PROJECT, "backend.py": BACKEND}.items():
            self.write(name, text)
        infos = (f"src/{package.replace('.', '/')}/info.py" for package in FRAMEWORKS.values())
        tools = ("tools/environment.py", "tools/installer.py", "src/horizont/config/system.py")
        for file in (*tools, *infos):
            self.write(file, (ROOT / file).read_text(encoding="utf-8"))
        self.offer("laboratory", "numpy", "1", "bool_ = bool")
        if with_uv:
            self.offer("laboratory", "uv", "1", UV.format(uv=find_uv_bin()))
        for framework in FRAMEWORKS:
            info = framework_info(framework)
            if framework not in ("pytorch", "mxnet"):
                self.offer(framework, info.distributions[0], "1", "", module=info.import_names[0])
        self.offer("pytorch", "torch", "2", "import nvidia", requires="nvidia")
        self.offer("", "nvidia", "1", "")
        self.offer("mxnet", "mxnet", "1", "import numpy; numpy.bool")
        self.offer("mxnet", "numpy", "0", "bool = bool")

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text, encoding="utf-8")

    def offer(
        self, lock: str, name: str, version: str, code: str, requires: str = "", module: str = ""
    ) -> None:
        """Add a package to the index, with its hash in the link, and to the lock, if any."""
        page = self.index / name
        value = wheel(page, name, version, code, requires, module or name)
        links = []
        for file in page.glob("*.whl"):
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            links.append(f'<a href="{file.name}#sha256={digest}">{file.name}</a>')
        (page / "index.html").write_text("\n".join(links))
        if lock:
            self.locks.setdefault(lock, {})[f"{name}=={version}"] = [value]
            self.write_locks()

    def write_locks(self) -> None:
        for lock, packages in self.locks.items():
            entries = (
                name + "".join(f" \\\n    --hash=sha256:{value}" for value in values)
                for name, values in packages.items()
            )
            self.write(f"locks/{lock}.txt", "# a lock\n" + "\n".join(entries) + "\n")

    def make(self, *words: str) -> str:
        """Run the tool and return what it printed."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_"))}
        done = subprocess.run(
            [sys.executable, "tools/environment.py", *words],
            cwd=self.root, capture_output=True, text=True, check=False, timeout=300,
            env={**clean, "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": self.index.as_uri(),
                 "PIP_FIND_LINKS": str(self.links), "UV_CACHE_DIR": str(self.root / "cache")},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def installed(self, environment: str = "") -> dict[str, str]:
        folder = self.root / ".venv" / (f"frameworks/{environment}" if environment else "")
        infos = folder.glob("lib/python*/site-packages/*.dist-info")
        found = (path.stem.replace("_", "-").rpartition("-") for path in infos)
        return {name: version for name, _, version in found if name not in ("pip", "setuptools")}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("making"), with_uv=True)


@pytest.mark.parametrize("installer", cases(["uv", "pip"], "uv"))
def test_each_framework_has_an_environment_of_its_own(
    installer: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    is_uv = installer == "uv"
    project = request.getfixturevalue("project") if is_uv else Project(tmp_path, with_uv=False)
    # pip takes ten times as long as uv.
    excluded = [] if is_uv else [name for name in FRAMEWORKS if name not in ("pytorch", "mxnet")]
    output = project.make(*(word for name in excluded for word in ("--without", name)))
    assert "Only PyTorch's build for accelerators was found" in output
    assert set(project.installed()) - {"uv"} == {"horizont", "numpy"}
    assert set(project.installed("pytorch")) == {"torch", "nvidia"}
    assert set(project.installed("mxnet")) == {"mxnet", "numpy"}
    for framework in FRAMEWORKS:
        folder = project.root / ".venv/frameworks" / framework
        assert folder.is_dir() == (framework not in excluded)
    assert project.make() == ""


def test_a_new_lock_remakes_only_its_environment(project: Project) -> None:
    project.locks["pytorch"]["torch==2"].append(wheel(project.links, "torch", "2+cpu", ""))
    project.write_locks()
    output = project.make()
    assert "installing pytorch" in output
    assert "installing mxnet" not in output
    assert "accelerators" not in output  # the CPU build is installed where there is one
    assert project.installed("pytorch") == {"torch": "2+cpu"}


def test_an_excluded_framework_remains_excluded(project: Project) -> None:
    assert "without mxnet" in project.make("--without", "mxnet")
    assert not project.installed("mxnet")
    assert project.make() == ""
    project.make("--without", "none")
    assert "mxnet" in project.installed("mxnet")


def test_a_framework_that_does_not_work_is_named_with_the_reason(project: Project) -> None:
    shutil.rmtree(project.index / "mxnet")
    del project.locks["mxnet"]["mxnet==1"]
    project.offer("mxnet", "mxnet", "2", "raise OSError('no libgomp')")
    output = project.make()
    assert "mxnet does not work here (OSError: no libgomp); continuing without it" in output
    assert not project.installed("mxnet")
    assert "mxnet could not be installed; remove .venv/.created-from.json" in project.make()


def test_a_framework_that_cannot_be_downloaded_stops_nothing(project: Project) -> None:
    project.locks["mxnet"]["mxnet==2"] = ["0" * 64]
    project.write_locks()
    assert "mxnet could not be installed; continuing without it" in project.make()
    del project.locks["mxnet"]["mxnet==2"]
    project.write_locks()
    assert "mxnet is not in its lock file; continuing without it" in project.make()
    assert "torch" in project.installed("pytorch")


def test_an_interrupted_laboratory_is_created_again(project: Project) -> None:
    shutil.rmtree(next((project.root / ".venv/lib").glob("python*/site-packages/pip")))
    (project.root / ".venv/.created-from.json").write_text("")
    assert "creating .venv" in project.make()
    assert "torch" in project.installed("pytorch")


def test_the_frameworks_are_created_for_an_existing_environment(
    project: Project, tmp_path: Path
) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "other"], check=True)
    environment = {"PIP_INDEX_URL": project.index.as_uri(), "PIP_FIND_LINKS": str(project.links)}
    subprocess.run(
        [tmp_path / "other/bin/python", "tools/environment.py", "--here"],
        cwd=project.root, check=True, env={**os.environ, **environment},
        capture_output=True,
    )  # fmt: skip
    assert (tmp_path / "other/frameworks/pytorch/bin/python").exists()

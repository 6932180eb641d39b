"""The information about frameworks, which is read without loading one."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest
from tests.conftest import ROOT, small_run

from horizont.config.framework import FrameworkInfo, SystemInfo
from horizont.config.interpreters import interpreter_path, query_interpreter
from horizont.config.system import (
    FRAMEWORKS,
    READERS,
    SYSTEMS,
    framework_info,
    framework_python,
    installed_version,
    parse_system,
)
from horizont.errors import UserError
from horizont.launchers.execute import RunPaths, execute
from horizont.launchers.plan import plan_run
from horizont.reporting import labels, style
from horizont.workflow.check import skip_reason

LOADED = """
import sys
from horizont.config.system import FRAMEWORKS, READERS, SYSTEMS, framework_info
names = {name for each in FRAMEWORKS for name in framework_info(each).import_names}
assert len(SYSTEMS) and len(READERS)
print(sorted(names & sys.modules.keys()))
"""


def run(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_reading_all_infos_loads_no_framework() -> None:
    assert run(LOADED) == "[]"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_importing_a_framework_package_or_its_info_first_loads_nothing(framework: str) -> None:
    package = FRAMEWORKS[framework]
    names = framework_info(framework).import_names
    heavy = ("numpy", "pyarrow", "horizont.data", "horizont.networks", *names)
    program = f"import sys, {package}, {package}.info; print(*filter(sys.modules.get, {heavy}))"
    assert run(program) == ""


def test_what_identifies_a_framework_differs() -> None:
    infos = [framework_info(name) for name in FRAMEWORKS]
    for field in ("label", "distributions", "colour", "marker"):
        assert len({getattr(info, field) for info in infos}) == len(infos), field
    readers = [reader for info in infos for reader in info.readers]
    assert sorted(readers) == sorted(READERS), "readers of two frameworks have the same name"


def test_variants_belong_to_systems_that_exist() -> None:
    for framework in FRAMEWORKS:
        info = framework_info(framework)
        assert {name for each in info.variants.values() for name in each.systems} <= set(
            info.systems
        )
        assert all(each.label and each.systems for each in info.variants.values())


def test_an_unknown_framework_is_an_error_with_the_known_ones() -> None:
    with pytest.raises(UserError, match=", ".join(FRAMEWORKS)):
        framework_info("caffe")


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FrameworkInfo:
    """Register a framework from outside the package."""
    folder = tmp_path / "toyframework"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "info.py").write_text(
        "from horizont.config.framework import FrameworkInfo, SystemInfo\n"
        "INFO = FrameworkInfo(label='Toy', distributions=('toy-of-nobody', 'numpy'),\n"
        "    import_names=(), colour='#112233', marker='v',\n"
        "    systems={'local': SystemInfo(mechanism='NumPy')})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(FRAMEWORKS, "toy", "toyframework")
    return framework_info("toy")


def test_one_line_registers_a_framework(toy: FrameworkInfo) -> None:
    assert SYSTEMS["toy/local"] == toy.systems["local"] == SystemInfo(mechanism="NumPy")
    assert parse_system("toy/local").mechanism == "NumPy"
    assert labels.system_label("toy/local") == "Toy, one process"
    assert style.marker_style("toy/local")["marker"] == "v"
    assert installed_version("toy") is not None
    with pytest.raises(UserError, match="toy/local"):
        parse_system("toy/local+compiled")


def test_versions_are_those_of_the_framework_interpreter(
    toy: FrameworkInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert interpreter_path("toy", toy) == sys.executable
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    for value, expected in ((str(python), installed_version("toy")), ("/no/such/python", None)):
        other = toy.model_copy(update={"python": value})
        monkeypatch.setattr("toyframework.info.INFO", other)
        assert installed_version("toy") == expected


@pytest.mark.framework
@pytest.mark.usefixtures("nothing_left")
def test_workers_run_on_the_interpreter_of_their_framework(
    tmp_path: Path, small_cifar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if installed_version("pytorch") is None:
        pytest.skip("pytorch is not installed")
    python = tmp_path / "python"
    usual = framework_python("pytorch")
    python.write_text(f'#!/bin/sh\ntouch {tmp_path}/started\nexec {usual} "$@"\n')
    python.chmod(0o755)
    info = framework_info("pytorch").model_copy(update={"python": str(python)})
    monkeypatch.setattr("horizont.frameworks.torch.info.INFO", info)
    run = small_run("pytorch/local")
    (process,) = plan_run(run, tmp_path / "record", small_cifar, ["localhost:0"]).processes
    assert process.argv[0] == str(python)
    assert process.environment["PYTHONPATH"].split(":")[0] == str(ROOT / "src")
    record = execute(run, "key", RunPaths(tmp_path, small_cifar, {}), lambda done, planned: None)
    assert record.ok, record.result.reason
    assert (tmp_path / "started").exists()


def test_an_environment_without_the_packages_of_a_worker_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path, symlinks=True)
    (packages,) = tmp_path.glob("lib/python*/site-packages")
    for name, metadata in (("jax", "Name: jax\nVersion: 9.0\n"), ("numpy", "Version: 2.0\n")):
        (packages / f"{name}-1.dist-info").mkdir()
        (packages / f"{name}-1.dist-info" / "METADATA").write_text(metadata)
    monkeypatch.setenv("HORIZONT_JAX_PYTHON", str(tmp_path / "bin" / "python"))
    assert installed_version("jax") == "9.0"
    reason = "jax: its environment lacks psutil, pyarrow, pydantic, PyYAML"
    assert skip_reason(small_run("jax/local")) == reason


def test_the_interpreter_of_a_framework_is_found(
    toy: FrameworkInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = tmp_path / "frameworks/toy/bin/python"
    created.parent.mkdir(parents=True)
    created.symlink_to(sys.executable)
    monkeypatch.setattr("horizont.config.interpreters.sys.prefix", str(tmp_path))
    assert interpreter_path("toy", toy) == str(created)
    monkeypatch.setenv("HORIZONT_TOY_PYTHON", sys.executable)
    assert interpreter_path("toy", toy) == sys.executable
    monkeypatch.setenv("HORIZONT_TOY_PYTHON", str(tmp_path))
    with pytest.raises(UserError, match="HORIZONT_TOY_PYTHON"):
        interpreter_path("toy", toy)


def test_another_interpreter_reports_its_own_versions() -> None:
    here = query_interpreter(sys.executable, ("no-such-package",))
    assert here is not None
    assert "no-such-package" not in here.packages
    there = query_interpreter(f"{sys.base_prefix}/bin/python3", ("no-such-package",))
    assert there is not None
    assert there.python == here.python
    assert here.packages["numpy"]

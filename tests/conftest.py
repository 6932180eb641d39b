"""Shared by the tests of several packages: a small run, a study in its own folder."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from horizont.config.run import Run
from horizont.config.system import (
    FRAMEWORKS,
    framework_python,
    installed_version,
    parse_system,
)
from horizont.data.preparation import prepare
from horizont.networks.catalogue import NETWORKS
from horizont.workflow.paths import Paths
from horizont.workflow.profiles import apply_profile

ROOT = Path(__file__).parents[1]

#: Where the interpreters of the frameworks find Horizont and the programs of the tests.
PROGRAM_PATH = os.pathsep.join([str(ROOT / "src"), str(ROOT)])

#: Registers small networks in every process that has the folder on its path.
SMALL_NETWORKS = ROOT / "tests" / "frameworks" / "small_networks"

#: Marks of tests that take long, the longest first.
URGENT = ("pipeline", "framework")

#: A test that repeats for one more system, build or engine what another test covers.
EXTENDED = pytest.mark.extended


def cases(names: Iterable[Any], *representative: Any) -> list[Any]:
    """Return the cases of a test for all names, those that are not representative as extended."""
    names = list(names)
    assert set(representative) <= set(names)
    return [pytest.param(name, marks=() if name in representative else EXTENDED) for name in names]


def small_run(system: str = "pytorch/local", **changes: Any) -> Run:
    """Return a run that takes seconds."""
    workers = 1 if "local" in system else 2
    servers = 1 if "parameter_server" in system else 0
    values: dict[str, Any] = {
        "experiment": "test",
        "workload_name": "lenet5-cifar10",
        "workload": {
            "network": "lenet5",
            "dataset": "cifar10",
            "optimizer": {"learning_rate": 0.05},
        },
        "system": parse_system(system),
        "topology": {"workers": workers, "servers": servers},
        "steps": {"warmup": 1, "timed": 4, "instrumented": 2},
        "global_batch": 16,
        "block": 0,
        "seed": 7,
        "sampler_hz": 0,
        "timeout_s": 240,  # reached only by a run that hangs, however busy the machine
    }
    return Run.model_validate({**values, **changes})


def pytest_configure(config: pytest.Config) -> None:
    """Set the variables of all test processes and of what they start."""
    if hasattr(config, "workerinput"):
        return  # a test process inherits the variables
    folder = tempfile.TemporaryDirectory(prefix="horizont-programs-")
    config.add_cleanup(folder.cleanup)
    # JAX compiles no program twice.
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", folder.name)
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    # Two test processes share the cores, where threads of BLAS would wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the files that take longest first, so that short ones balance the test processes.

    Extended tests are skipped unless ``-m`` selects them.
    """
    if EXTENDED.name not in config.option.markexpr:
        for item in items:
            if item.get_closest_marker(EXTENDED.name):
                item.add_marker(pytest.mark.skip(reason="`make extended` runs it"))
    urgency: dict[Path, int] = {}
    for item in items:
        marked = (rank for rank, mark in enumerate(URGENT) if item.get_closest_marker(mark))
        rank = next(marked, len(URGENT))
        urgency[item.path] = min(rank, urgency.get(item.path, rank))
    items.sort(key=lambda item: urgency[item.path])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that starts processes of frameworks, its marks' arguments, without these."""
    named = {name: None for mark in item.iter_markers("framework") for name in mark.args}
    if missing := [name for name in named if installed_version(name) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")


@pytest.fixture(scope="session", autouse=True)
def own_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give each test process its own temporary folder."""
    folder = tmp_path_factory.mktemp("tmp")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", None)
        yield


@pytest.fixture
def study_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """Create a study with the tiny profile, without code of its own."""
    shutil.copytree(ROOT / "profiles", tmp_path / "profiles")
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    monkeypatch.setenv("HORIZONT_ROOT", str(tmp_path))
    paths = Paths(tmp_path)
    apply_profile(paths, "tiny")
    return paths


def set_value(values: Any, path: str, value: object) -> None:
    """Set the value at a path of keys, joined by dots, in nested mappings."""
    *parents, last = path.split(".")
    for parent in parents:
        values = values[parent]
    values[last] = value


def prepare_few_images(paths: Paths) -> None:
    """Prepare a few images for a study in a folder of its own."""
    prepare(
        "cifar10", "synthetic", paths.raw, paths.prepared_sets, train_examples=64, test_examples=16
    )


def change_setting(paths: Paths, path: str, value: object) -> None:
    """Set the value at a path of keys, joined by dots, in ``params.yaml``."""
    values = yaml.safe_load(paths.params.read_text())
    set_value(values, path, value)
    paths.params.write_text(yaml.safe_dump(values))


def tiny_study_of_all_frameworks(tmp_path_factory: pytest.TempPathFactory) -> Paths:
    """Create the settings of a tiny study; skip the test if a framework is not installed."""
    missing = [name for name in FRAMEWORKS if installed_version(name) is None]
    if missing:
        pytest.skip(f"{missing} not installed")
    root = tmp_path_factory.mktemp("study")
    shutil.copytree(ROOT / "profiles", root / "profiles")
    paths = Paths(root)
    apply_profile(paths, "tiny")
    return paths


@pytest.fixture(scope="session")
def small_cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepare a small synthetic CIFAR-10 and return its folder."""
    from horizont.data.preparation import prepare

    out = tmp_path_factory.mktemp("prepared")
    prepare("cifar10", "synthetic", out / "raw", out, train_examples=512, test_examples=64)
    return out / "cifar10"


@pytest.fixture(scope="module")
def small_networks() -> Iterator[None]:
    """Register `normed`, with batch norm, and `blocks`, with the blocks of the deep networks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SMALL_NETWORKS)
        patch.setenv("PYTHONPATH", str(SMALL_NETWORKS))
        for name in ("normed", "blocks"):
            build = getattr(importlib.import_module(name), f"build_{name}")
            patch.setitem(NETWORKS, name, build)
        yield


def run_in_framework(framework: str, *words: str | Path, timeout_s: float = 300) -> str:
    """Run Python with arguments in the environment of a framework, and return what it prints."""
    done = subprocess.run(
        [framework_python(framework), *words],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": f"{PROGRAM_PATH}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        },
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def horizont_processes(folder: Path) -> list[psutil.Process]:
    """List the workers and samplers whose files are below a folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        ours = any(word.startswith("horizont.") for word in words)
        if ours and any(word.startswith(str(folder)) for word in words):
            found.append(process)
    return found


@pytest.fixture
def nothing_left(tmp_path: Path) -> Iterator[None]:
    """Fail if a worker or a sampler outlives the test."""
    yield
    assert_nothing_left(tmp_path)


def assert_nothing_left(folder: Path) -> None:
    _, alive = psutil.wait_procs(horizont_processes(folder), timeout=3)
    assert not alive, [" ".join(process.cmdline()) for process in alive]


def is_running(pid: int) -> bool:
    """Return whether a process runs: a killed one stays a zombie until it is reaped."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def wait_for(condition: Callable[[], bool], message: str, timeout_s: float = 300) -> None:
    """Wait until a condition holds; fail with a message after a time."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, message
        time.sleep(0.1)


def git(root: Path, *words: str) -> None:
    """Run git in a repository, with a name of its own for commits."""
    names = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    subprocess.run(["git", *names, *words], cwd=root, check=True, capture_output=True)

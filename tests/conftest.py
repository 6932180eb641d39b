"""What several floors' tests share: a small run, and a study in a folder of its own."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from horizont.config.run import Run
from horizont.config.system import parse_system
from horizont.workflow.paths import Paths
from horizont.workflow.profiles import apply_profile

ROOT = Path(__file__).parents[1]

#: Marks of tests that take long, the longest first.
URGENT = ("pipeline", "framework")


def small_run(system: str = "pytorch/local", **changes: Any) -> Run:
    """Describe a run that takes seconds."""
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
        "timeout_s": 240,  # only what hangs should meet it; a busy machine takes its time
    }
    return Run.model_validate({**values, **changes})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the files that take long come first.

    So they do not come last in one of several test processes, and the short ones fill what is
    left. Files stay whole.
    """
    urgency: dict[Path, int] = {}
    for item in items:
        marked = (place for place, mark in enumerate(URGENT) if item.get_closest_marker(mark))
        own = next(marked, len(URGENT))
        urgency[item.path] = min(own, urgency.get(item.path, own))
    items.sort(key=lambda item: urgency[item.path])


@pytest.fixture(scope="session", autouse=True)
def own_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let what there is one of a machine, the lock of those who measure, be one a test process."""
    folder = tmp_path_factory.mktemp("tmp")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", None)
        yield


@pytest.fixture
def study_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """Lay out a study with the tiny profile, without code of its own."""
    shutil.copytree(ROOT / "profiles", tmp_path / "profiles")
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    monkeypatch.setenv("HORIZONT_ROOT", str(tmp_path))
    paths = Paths(tmp_path)
    apply_profile(paths, "tiny")
    return paths


@pytest.fixture(scope="session")
def small_cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a small synthetic CIFAR-10 ready and tell its folder."""
    from horizont.data.preparation import prepare

    out = tmp_path_factory.mktemp("prepared")
    prepare("cifar10", "synthetic", out / "raw", out, train_examples=512, test_examples=64)
    return out / "cifar10"


def horizont_processes(folder: Path) -> list[psutil.Process]:
    """List the workers and samplers that work below a folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        ours = any(word.startswith("horizont.") for word in words)
        if ours and any(word.startswith(str(folder)) for word in words):
            found.append(process)
    return found


@pytest.fixture
def nothing_left(tmp_path: Path) -> Iterator[None]:
    """Fail if a test leaves a worker or a sampler behind."""
    yield
    assert_nothing_left(tmp_path)


def assert_nothing_left(folder: Path) -> None:
    _, alive = psutil.wait_procs(horizont_processes(folder), timeout=3)
    assert not alive, [" ".join(process.cmdline()) for process in alive]


def wait_for(come: Callable[[], bool], missing: str) -> None:
    """Wait until something has come; fail with what is missing if it does not."""
    end = time.monotonic() + 300
    while not come():
        assert time.monotonic() < end, missing
        time.sleep(0.1)

"""The theory notebooks, all run; and every framework compared with NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

from horizont.config.study import read_study
from horizont.config.system import FRAMEWORKS, installed_version
from horizont.errors import UserError
from horizont.workflow.check import load_study
from horizont.workflow.paths import Paths
from horizont.workflow.profiles import apply_profile
from horizont.workflow.progress import PROGRESS_VARIABLE
from horizont_textbook import allreduce, cross_check, parallelism, ring, staleness
from horizont_textbook.autodiff import WEIGHTS
from horizont_textbook.cross_check import CASES
from horizont_textbook.framework_operators import BACKENDS
from horizont_textbook.launch import PROGRAMS
from horizont_textbook.processes import by_rank, run_group
from horizont_textbook.strategies import PROCESSES, STRATEGIES
from tests.conftest import ROOT

pytestmark = pytest.mark.framework

#: Frameworks that the chapters are compared with.
COMPARED = [name for name in FRAMEWORKS if name in BACKENDS and installed_version(name)]

#: Numbers of each notebook, with their bounds.
NUMBERS: dict[str, dict[str, tuple[float, float]]] = {
    "theory-01-neuron": {"largest derivative of sigmoid": (0.25, 0.25)},
    "theory-02-descent": {"steps to a millionth, plain": (69, 69)},
    "theory-03-backpropagation": {"by finite differences": (1e-12, 1e-7)},
    "theory-04-convolution": {
        "weights of 100 filters": (7600, 7600),
        "steps": (60, 60),
        "last loss": (0.0, 2.0),
    },
    "theory-05-normalisation": {"gradient after 40 residual blocks": (1, 100)},
    "theory-06-recurrence": {"wrong elements at the end": (0, 0)},
    "theory-07-parallelism": {
        "processes that trained": (16, 16),
        "largest distance from one process": (0.0, 1e-14),
        "strategies that sent what the formula says": (4, 4),
        "numbers sent a step, between layers": (72, 72),
        "numbers sent a step, data parallel": (82, 82),
    },
    "theory-08-staleness": {
        "limit with delay 1": (0.99999, 1.00001),
        "loss, delay 0": (0.0, 1.8),  # guessing has ln 10 = 2.3
        "mean staleness of both": (0.3, 1.1),
    },
    "theory-09-ring": {
        "exchanges that sent what the formula says": (6, 6),
        "steps at which a process had another state": (0, 0),
        "largest distance from the sum in one process": (0.0, 1e-15),
    },
    "theory-10-metrics": {"upper bound by Amdahl": (20, 20)},
    "theory-11-tutorial": {},
}

#: One program of each framework, with several processes.
STARTED_PROGRAMS = ("tensorflow_allreduce", "torch_allreduce", "mxnet_dist_sync", "jax_allreduce")

SKIPPED_PROGRAMS = " ".join(name for name in PROGRAMS if name not in STARTED_PROGRAMS)

#: Settings of notebooks that take less time: one program of each framework is run.
SHORTER = {
    "steps = 200": "steps = 60",
    "steps = 24": "steps = 12",
    'skip = "': f'skip = "{SKIPPED_PROGRAMS} ',
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paths]:
    """Prepare a study whose notebooks are those of the repository."""
    root = tmp_path_factory.mktemp("study")
    for name in ("profiles", "notebooks", "dvc.yaml"):
        (root / name).symlink_to(ROOT / name)
    paths = Paths(root)
    apply_profile(paths, "tiny")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HORIZONT_ROOT", str(root))
        patch.setenv(PROGRESS_VARIABLE, str(root / "progress"))  # not interactive
        yield paths


@pytest.mark.usefixtures("study")
@pytest.mark.parametrize("chapter", list(CASES))
def test_frameworks_agree_with_numpy(chapter: str) -> None:
    check = cross_check.run(chapter)
    distances = check.compare()
    assert set(check.results) == set(COMPARED)
    assert (distances[COMPARED] <= cross_check.BOUND).all(axis=None), distances


@pytest.mark.usefixtures("study")
def test_a_wrong_result_is_detected() -> None:
    check = cross_check.run("metrics")
    arrays = check.results[COMPARED[0]]
    wrong_results = {COMPARED[0]: {**arrays, "softmax|y": arrays["softmax|y"] * (1 + 1e-9)}}
    wrong = cross_check.CrossCheck(check.cases, wrong_results, {"mxnet": "not installed"})
    bundle, metadata = wrong._repr_mimebundle_()
    assert not metadata["horizont"]["cross_check"]["ok"]
    assert "MXNet: not installed" in bundle["text/html"]


@pytest.mark.usefixtures("study")
def test_two_processes_train_as_one() -> None:
    results = run_group("torch_strategies", PROCESSES)
    for engine, name in product(parallelism.ENGINES, STRATEGIES):
        distance = parallelism.distance_from_one_process(results, name, engine)
        assert distance is not None
        assert distance < 1e-14, (engine, name)
        for weight in set(WEIGHTS) - set(STRATEGIES[name].splits):
            one, other = by_rank(results, f"{engine}: {name}", f"weight {weight}")
            assert np.array_equal(one, other)


def test_results_of_groups_are_stored(study: Paths) -> None:
    values = allreduce.result_values(run_group("ring", ring.GROUP_SIZE))
    assert values["exchanges_that_sent_what_the_formula_says"] == 6
    files = {path: path.stat().st_mtime_ns for path in study.textbook.glob("group-*")}
    assert files
    run_group("ring", ring.GROUP_SIZE)
    assert files == {path: path.stat().st_mtime_ns for path in files}


@pytest.fixture(scope="module")
def executed(study: Paths) -> dict[str, nbformat.NotebookNode]:
    """Run all theory notebooks in one kernel, which is reset in between."""
    manager = KernelManager(kernel_name="python3", transport="ipc", ip=str(study.root / "kernel"))
    manager.start_kernel(cwd=str(study.root))
    done = {}
    try:
        for path in sorted((ROOT / "notebooks").glob("theory-[01]*.ipynb")):
            notebook = nbformat.read(path, as_version=4)
            parameters = notebook.cells[1]
            for usual, short in SHORTER.items():
                parameters.source = parameters.source.replace(usual, short)
            execute(notebook, manager)
            done[path.stem] = notebook
            reset = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("%reset -f")])
            execute(reset, manager)
    finally:
        manager.shutdown_kernel(now=True)
    return done


def execute(notebook: nbformat.NotebookNode, manager: KernelManager) -> None:
    """Run a notebook in a running kernel, and close the channels to it."""
    client = NotebookClient(notebook, km=manager, timeout=240)
    client.execute()
    client.kc.stop_channels()


def metadata(notebook: nbformat.NotebookNode, kind: str) -> Iterator[Any]:
    """List the metadata of a kind in the outputs of a notebook."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            found = output.get("metadata", {}).get("horizont", {})
            if kind in found:
                yield found[kind]


@pytest.mark.parametrize("name", list(NUMBERS))
def test_a_notebook_has_its_numbers(name: str, executed: dict[str, nbformat.NotebookNode]) -> None:
    numbers = {k: v for found in metadata(executed[name], "numbers") for k, v in found.items()}
    for number, (low, high) in NUMBERS[name].items():
        assert low <= numbers[number] <= high, (number, numbers[number])


def test_the_loss_rises_with_the_delay(executed: dict[str, nbformat.NotebookNode]) -> None:
    # On Fashion-MNIST as on its synthetic stand-in, whose losses are higher.
    page = executed["theory-08-staleness"]
    numbers = {k: v for found in metadata(page, "numbers") for k, v in found.items()}
    losses = [numbers[f"loss, delay {delay}"] for delay in staleness.TRAINING_DELAYS]
    assert losses == sorted(losses)
    assert losses[-1] > losses[0] + 0.2


@pytest.mark.parametrize("name", list(NUMBERS))
def test_a_notebook_shows_its_cross_check_and_no_controls(
    name: str, executed: dict[str, nbformat.NotebookNode]
) -> None:
    (found,) = metadata(executed[name], "cross_check")
    assert found["ok"]
    assert set(found["missing"]) == set(FRAMEWORKS) - set(COMPARED)
    assert (
        sum("application/vnd.horizont.figure+json" in str(cell) for cell in executed[name].cells)
        >= 2
    )
    assert "widget" not in str([cell.get("outputs") for cell in executed[name].cells])


def test_the_programs_end_with_the_weights_of_one_process(
    executed: dict[str, nbformat.NotebookNode],
) -> None:
    runs = {run["name"]: run for run in metadata(executed["theory-11-tutorial"], "program")}
    assert set(runs) == set(PROGRAMS)
    started = {name: run for name, run in runs.items() if run["processes"]}
    assert set(started) == {
        name for name in STARTED_PROGRAMS if installed_version(PROGRAMS[name].framework)
    }
    for run in started.values():
        assert run["ok"], run
        assert run["processes"] >= 2


def test_all_theory_notebooks_are_planned() -> None:
    listed = read_study(ROOT / "profiles" / "quick.yaml").chapters
    assert set(NUMBERS) <= set(listed)
    assert {path.stem for path in Path(ROOT, "notebooks").glob("theory-[01]*.ipynb")} == set(listed)


def test_an_unknown_notebook_is_named(study_folder: Paths) -> None:
    text = study_folder.params.read_text()
    changed = text.replace("chapters: []", "chapters: [theory-nonsense]")
    assert changed != text
    study_folder.params.write_text(changed)
    with pytest.raises(UserError, match=r"chapters: 'theory-nonsense'.*theory-11-tutorial"):
        load_study(study_folder)

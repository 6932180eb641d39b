"""The theory notebooks, all run; and every framework asked for every operation that they use."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from tests.conftest import ROOT
from tests.textbook_old.conformance import CONFORMANCE

from horizont.config.study import read_study
from horizont.config.system import FRAMEWORKS, installed_version
from horizont.errors import UserError
from horizont.reporting.agreement import agreement
from horizont.theory.chapters import chapter_names, questions_of
from horizont.theory.cuts import WAYS
from horizont.theory.ring import ring_bytes
from horizont.theory.together.findings import Together, exact_exchanges
from horizont.theory.together.kernel import counted_by_kernel
from horizont.workflow import answers
from horizont.workflow.check import load_study
from horizont.workflow.paths import Paths
from horizont.workflow.profiles import apply_profile
from horizont.workflow.progress import PROGRESS_VARIABLE
from horizont.workflow.together import done_together

pytestmark = pytest.mark.framework

INSTALLED = [name for name in FRAMEWORKS if installed_version(name)]
EVERY = [question for name in chapter_names() for question in questions_of(name)]

#: What a notebook must come to: name of a number -> from, to.
NUMBERS: dict[str, dict[str, tuple[float, float]]] = {
    "theory-01-neuron": {"largest derivative of sigmoid": (0.25, 0.25)},
    "theory-02-descent": {"steps to a millionth, plain": (69, 69)},
    "theory-03-backpropagation": {"by finite differences": (1e-12, 1e-7)},
    "theory-04-convolution": {
        "weights of 100 filters": (7600, 7600),
        "steps": (60, 60),
        "last loss": (0.0, 2.0),
    },
    "theory-05-normalisation": {"residual gradient behind 40 blocks": (1, 100)},
    "theory-06-recurrence": {"marks wrong in the end": (0, 0)},
    "theory-07-parallelism": {
        "farthest from one process": (0.0, 1e-14),
        "ways that sent what the formula says": (4, 4),
        "numbers sent a step, between layers": (72, 72),
        "numbers sent a step, data parallel": (82, 82),
    },
    "theory-08-staleness": {
        "limit 1 step late": (0.99999, 1.00001),
        "loss, 0 late": (0.0, 1.2),
        "loss, 16 late": (1.2, 100.0),
        "mean staleness of both": (0.3, 1.1),
    },
    "theory-09-ring": {
        "exchanges that sent what the formula says": (6, 6),
        "moments at which a process held something else": (0, 0),
        "farthest from the sum in one process": (0.0, 1e-15),
    },
    "theory-10-metrics": {"most that Amdahl allows": (20, 20)},
    "theory-11-tutorial": {},
    "theory-glossary": {},
}


#: Settings of notebooks that take less time: of the tutorial one way of each framework is started.
SHORTER = {
    "steps = 200": "steps = 60",
    "steps = 24": "steps = 12",
    'leave_out = "tensorflow_servers': 'leave_out = "tensorflow_alone torch_alone mxnet_alone '
    "torch_server tensorflow_servers",
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paths]:
    """Lay out a study, with the notebooks where they are."""
    root = tmp_path_factory.mktemp("study")
    for name in ("profiles", "notebooks", "dvc.yaml"):
        (root / name).symlink_to(ROOT / name)
    paths = Paths(root)
    apply_profile(paths, "tiny")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HORIZONT_ROOT", str(root))
        patch.setenv(PROGRESS_VARIABLE, str(root / "progress"))  # nobody is at the keyboard
        yield paths


@pytest.fixture(scope="module")
def told(study: Paths) -> dict[str, Any]:
    """Ask every framework once, for the notebooks and for this file.

    The notebooks find the answers where they would have put them.
    """
    files = {name: study.textbook / f"{name}-{answers.ground_of(name)}.npz" for name in INSTALLED}
    answers.ask([*EVERY, *CONFORMANCE], files)
    return {name: answers.read_answers(file) for name, file in files.items()}


def test_frameworks_agree_with_numpy(told: dict[str, Any]) -> None:
    found = agreement([*CONFORMANCE, *EVERY], told)
    assert found.ok, {
        name: row
        for name, row in found.distances.items()
        if max(d or 0 for d in row.values()) > 1e-12
    }
    assert sum(found.numbers.values()) > 3000


def test_a_wrong_answer_is_found(told: dict[str, Any]) -> None:
    framework = INSTALLED[0]
    key = f"{CONFORMANCE[0].name}/z"
    wrong = {**told, framework: {**told[framework], key: told[framework][key] * (1 + 1e-9)}}
    assert not agreement(CONFORMANCE[:1], wrong).ok


@pytest.fixture(scope="module")
def together(study: Paths) -> Together:
    """Have groups of real processes do all exercises once, for the notebooks and for this file."""
    return done_together(study)


def test_two_processes_train_as_one(together: Together) -> None:
    for doer, name in product(together.told, WAYS):
        distance = together.way_distance(doer, name)
        assert distance is not None
        assert distance < 1e-14, (doer, name)
        assert together.copies_agree(doer, name)


def test_processes_send_what_the_formulas_say(together: Together) -> None:
    known = counted_by_kernel() is not None
    assert exact_exchanges(together, "socket") == 6
    assert exact_exchanges(together, "kernel") == 6 * known
    for n in (2, 3) if known and "pytorch" in together.told else ():
        (sent,) = set(together.sent_bytes("pytorch", f"ring of {n}") or [])
        assert ring_bytes(n, 96_000) <= sent < 1.02 * ring_bytes(n, 96_000)


def test_what_groups_came_to_is_kept(together: Together, study: Paths) -> None:
    kept = {path: path.stat().st_mtime_ns for path in study.textbook.glob("together-*")}
    assert len(kept) == len(together.told)
    assert set(done_together(study).told) == set(together.told)
    assert kept == {path: path.stat().st_mtime_ns for path in kept}


@pytest.fixture(scope="module")
def executed(
    study: Paths, told: dict[str, Any], together: Together
) -> dict[str, nbformat.NotebookNode]:
    """Run all theory notebooks, one after the other, in one kernel that forgets in between."""
    assert told
    assert together
    manager = KernelManager(kernel_name="python3", transport="ipc", ip=str(study.root / "kernel"))
    manager.start_kernel(cwd=str(study.root))
    done = {}
    try:
        for path in sorted((ROOT / "notebooks").glob("theory-*.ipynb")):
            notebook = nbformat.read(path, as_version=4)
            parameters = notebook.cells[1]
            for usual, short in SHORTER.items():
                parameters.source = parameters.source.replace(usual, short)
            execute(notebook, manager)
            done[path.stem] = notebook
            forget = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("%reset -f")])
            execute(forget, manager)
    finally:
        manager.shutdown_kernel(now=True)
    return done


def execute(notebook: nbformat.NotebookNode, manager: KernelManager) -> None:
    """Run a notebook in a kernel that goes on; the sockets to it are ours to close."""
    client = NotebookClient(notebook, km=manager, timeout=240)
    client.execute()
    client.kc.stop_channels()


def announced(notebook: nbformat.NotebookNode, what: str) -> Iterator[Any]:
    """List what the outputs of a notebook say of themselves."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            found = output.get("metadata", {}).get("horizont", {})
            if what in found:
                yield found[what]


@pytest.mark.parametrize("name", list(NUMBERS))
def test_a_notebook_comes_to_its_numbers(
    name: str, executed: dict[str, nbformat.NotebookNode]
) -> None:
    numbers = {k: v for found in announced(executed[name], "numbers") for k, v in found.items()}
    for number, (low, high) in NUMBERS[name].items():
        assert low <= numbers[number] <= high, (number, numbers[number])


@pytest.mark.parametrize("name", [name for name in NUMBERS if name != "theory-glossary"])
def test_a_notebook_shows_agreement_and_no_controls(
    name: str, executed: dict[str, nbformat.NotebookNode]
) -> None:
    (found,) = announced(executed[name], "agreement")
    assert found["ok"]
    assert all(set(row) == set(FRAMEWORKS) for row in found["distances"].values())
    assert len(list(announced(executed[name], "figure"))) >= 2
    assert "widget" not in str([cell.get("outputs") for cell in executed[name].cells])


def test_the_tutorial_comes_to_the_weights_of_one_process(
    executed: dict[str, nbformat.NotebookNode],
) -> None:
    lessons = announced(executed["theory-11-tutorial"], "lesson")
    told = {lesson["name"]: lesson for lesson in lessons}
    assert len(told) == 9
    started = {name: lesson for name, lesson in told.items() if lesson["processes"]}
    assert {"tensorflow_ring", "torch_ring", "mxnet_sync"} <= set(started)
    for lesson in started.values():
        assert lesson["ok"], lesson
        assert lesson["processes"] >= 2


def test_all_theory_notebooks_are_planned() -> None:
    listed = read_study(ROOT / "profiles" / "quick.yaml").chapters
    assert set(NUMBERS) <= set(listed)
    assert {path.stem for path in Path(ROOT, "notebooks").glob("theory-*.ipynb")} == set(listed)


def test_a_notebook_that_is_not_there_is_named(study_folder: Paths) -> None:
    text = study_folder.params.read_text()
    study_folder.params.write_text(text.replace("theory-glossary", "theory-nonsense"))
    with pytest.raises(UserError, match=r"theory: 'theory-nonsense'.*theory-glossary"):
        load_study(study_folder)

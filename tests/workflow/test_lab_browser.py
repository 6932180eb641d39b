"""JupyterLab in a real browser: the start notebook, a slider, what is saved and what remains."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.browser import BROWSER, SHIFT, Page, open_browser
from tests.conftest import ROOT, git, horizont_processes
from tests.workflow.jupyter_server import fetch, jupyterlab

from horizont.workflow.paths import Paths

pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no chromium here to open JupyterLab with"),
    pytest.mark.framework("tensorflow", "pytorch", "mxnet", "jax"),
]

#: The notebook that is shown; others are hidden.
SHOWN = ".jp-NotebookPanel:not(.lm-mod-hidden)"

SESSION = "[...jupyterapp.shell.widgets('main')][0].sessionContext.session"

FIGURE = ".jp-OutputArea-output .hz-figure"

RUN_ALL = "jupyterapp.commands.execute('notebook:run-all-cells')"


@pytest.fixture
def project(study_folder: Paths) -> Path:
    """Commit the notebooks of a study, as those of the project are."""
    root = study_folder.root
    shutil.copy(ROOT / ".gitignore", root)
    for words in (["init", "-q"], ["add", "notebooks"], ["commit", "-qm", "notebooks"]):
        git(root, *words)
    return root


@pytest.fixture
def address(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start JupyterLab on the project; kernels end after two idle seconds."""
    words = [
        "--LabApp.expose_app_in_browser=True",
        "--MappingKernelManager.cull_idle_timeout=2",
        "--MappingKernelManager.cull_interval=1",
    ]
    with jupyterlab(project, tmp_path_factory.mktemp("jupyter"), *words) as address:
        yield address


def open_notebook(page: Page, address: str, name: str) -> None:
    """Open a notebook, and wait until its kernel can run a cell."""
    page.open(f"{address}/lab/tree/notebooks/{name}.ipynb")
    page.wait_for(f"document.querySelector('{SHOWN} .jp-CodeCell')", 120)
    page.wait_for(f"{SESSION}?.kernel?.status === 'idle'", 120)
    page.click(f"{SHOWN} .jp-CodeCell .jp-InputArea-prompt")
    page.wait_for("jupyterapp.shell.currentWidget")  # commands need a selected notebook


def kernels(address: str) -> list[dict[str, object]]:
    return list(json.loads(fetch(f"{address}/api/kernels")))


def number_of(selector: str) -> str:
    return f"document.querySelectorAll('{SHOWN} {selector}').length"


def test_the_start_notebook_runs_and_leaves_the_project_as_it_was(
    project: Path, address: str, tmp_path: Path
) -> None:
    with open_browser(tmp_path / "profile") as page:
        open_notebook(page, address, "start")
        page.evaluate(f"void {RUN_ALL}")
        seconds = page.wait_for(number_of(FIGURE), 300)
        print(f"first figure after {seconds:.0f} s")
        page.wait_for(f"{number_of(FIGURE)} >= 3", 120)
        page.wait_for(f"{number_of('.widget-slider')} >= 3", 120)
        assert page.evaluate(number_of("[data-mime-type*=stderr]")) == 0
        page.evaluate("jupyterapp.commands.execute('docmanager:save').then(() => 0)")
        assert page.evaluate(number_of(FIGURE)) >= 3  # the browser shows what is not saved
    changed = ["git", "status", "--porcelain", "notebooks"]
    assert subprocess.run(changed, cwd=project, capture_output=True, check=True).stdout == b""
    deadline_s = time.monotonic() + 60
    while kernels(address) and time.monotonic() < deadline_s:
        time.sleep(0.5)
    assert kernels(address) == []
    assert not horizont_processes(project)


def test_cells_run_one_by_one_and_a_slider_changes_its_figure(address: str, tmp_path: Path) -> None:
    with open_browser(tmp_path / "profile") as page:
        open_notebook(page, address, "theory-02-descent")
        for _ in range(8):  # down to the first cell with sliders
            page.press("Enter", SHIFT)
        figure = f"document.querySelector('{SHOWN} .widget-interact .hz-figure')"
        page.wait_for(figure, 120)
        page.evaluate(f"window.before = {figure}.outerHTML, 0")
        page.evaluate(f"document.querySelector('{SHOWN} .noUi-handle').focus()")
        for _ in range(5):
            page.press("ArrowRight")
        seconds = page.wait_for(f"{figure} && {figure}.outerHTML !== window.before", 60)
        print(f"the figure follows the slider after {seconds:.2f} s")
        for _ in range(2):  # all cells, also those that were run before, and again
            page.evaluate(f"{RUN_ALL}.then(() => 0)")
        assert page.evaluate(number_of("[data-mime-type*=stderr]")) == 0

"""A real JupyterLab, controls in a real kernel, and progress in notebooks."""

from __future__ import annotations

import ast
import json
import logging
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import nbformat
import numpy as np
import pytest
from jupyter_client import KernelManager
from jupyter_client.kernelspec import KernelSpecManager, get_kernel_spec
from nbclient import NotebookClient
from tests.conftest import ROOT
from tests.workflow.jupyter_server import fetch, jupyterlab

from horizont.config.interpreters import environment_folder
from horizont.config.system import FRAMEWORKS, framework_info, installed_version
from horizont.workflow import lab, lab_extension, progress
from horizont.workflow.paths import Paths
from horizont.workflow.progress import PROGRESS_VARIABLE

NOTIFICATION = "@jupyterlab/apputils-extension:notification"


def numpy_losses() -> list[float]:
    """Compute the training steps of the notebooks in `notebooks/kernels` in NumPy."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((42, 6)).astype("float32")
    labels = (x @ rng.standard_normal((6, 3))).argmax(axis=1)
    weight, bias, losses = np.zeros((6, 3)), np.zeros(3), []
    for _ in range(5):
        scores = np.exp(x @ weight + bias)
        shares = scores / scores.sum(axis=1, keepdims=True)
        losses.append(-float(np.log(shares[np.arange(42), labels]).mean()))
        errors = (shares - np.eye(3)[labels]) / 42
        weight -= 0.5 * x.T @ errors
        bias -= 0.5 * errors.sum(axis=0)
    return losses


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Start JupyterLab on this project."""
    with jupyterlab(ROOT, tmp_path) as address:
        yield address


@pytest.mark.framework
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_each_framework_has_a_kernel_and_a_notebook(framework: str) -> None:
    if not environment_folder(framework).exists():
        pytest.skip(f"{framework} has no environment below {sys.prefix}")
    notebook = nbformat.read(ROOT / f"notebooks/kernels/{framework}.ipynb", as_version=4)
    kernel = notebook.metadata.kernelspec
    assert kernel.name == f"horizont-{framework}"
    assert get_kernel_spec(kernel.name).display_name == kernel.display_name
    assert kernel.display_name == (
        f"{framework_info(framework).label} {str(installed_version(framework)).partition('+')[0]}"
    )
    NotebookClient(notebook, timeout=120).execute()
    *_, losses = (
        output["data"]["text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "data" in output
    )
    assert ast.literal_eval(losses) == pytest.approx(numpy_losses(), rel=1e-5)


def test_jupyterlab_opens_the_project_and_does_not_fetch_news(address: str) -> None:
    assert "jupyter-config-data" in fetch(f"{address}/lab/tree/notebooks/start.ipynb")
    with urllib.request.urlopen(address) as response:
        assert response.url == f"{address}/lab/tree/notebooks/start.ipynb"
    contents = json.loads(fetch(f"{address}/api/contents/notebooks/start.ipynb?content=0"))
    assert contents["path"] == "notebooks/start.ipynb"
    settings = json.loads(fetch(f"{address}/lab/api/settings/{NOTIFICATION}"))
    assert settings["schema"]["properties"]["fetchNews"]["default"] == "false"


@pytest.mark.framework
@pytest.mark.parametrize("kernel", ["python3", *(f"horizont-{name}" for name in FRAMEWORKS)])
def test_a_kernel_of_the_laboratory_does_not_warn_when_it_starts(
    kernel: str, tmp_path: Path
) -> None:
    if kernel not in KernelSpecManager().find_kernel_specs():
        pytest.skip(f"{kernel} is not registered below {sys.prefix}")
    assert "--KernelManager.transport_encryption=auto" in lab.lab_command(Paths(ROOT))
    manager = KernelManager(kernel_name=kernel, transport_encryption="auto")
    with (tmp_path / "log").open("wb") as log:
        manager.start_kernel(stderr=log)
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(60)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert "without encryption" not in (tmp_path / "log").read_text()


def test_a_warning_that_the_user_can_do_nothing_about_is_left_out() -> None:
    texts = ["The websocket_ping_timeout (90000) cannot be longer", "another warning"]
    records = [logging.makeLogRecord({"msg": text}) for text in texts]
    assert [lab_extension._is_worth_a_line(record) for record in records] == [False, True]


def test_the_figure_of_a_slider_is_shown() -> None:
    """Run a cell as JupyterLab does: its figure is an output of the widget, not of the cell."""
    import nbformat
    from nbclient import NotebookClient

    source = """
        from IPython.display import SVG
        from horizont.workflow.lab import interact
        image = '<svg xmlns="http://www.w3.org/2000/svg" id="{stages}-{name}"/>'
        interact(lambda **values: SVG(image.format(**values)), stages=(2, 2, 6), name=("a", "b"))
    """
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(dedent(source))])
    NotebookClient(notebook, kernel_name="python3", timeout=120).execute()
    states = notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    models = {state["model_name"]: state["state"] for state in states.values()}
    assert "2-a" in str(models["OutputModel"]["outputs"])
    assert models["IntSliderModel"]["max"] == 6
    assert models["DropdownModel"]["_options_labels"] == ["a", "b"]


def test_a_button_starts_the_plot(monkeypatch: pytest.MonkeyPatch) -> None:
    from ipywidgets import Button, IntSlider

    monkeypatch.setattr(lab, "is_interactive", lambda: True)
    calls: list[dict[str, Any]] = []
    panel = lab.interact(
        lambda **values: calls.append(values),
        "Compare",
        batch=(8, 2, 64),
        network=("lenet5", "lenet"),
    )
    (button,) = [child for child in panel.children if isinstance(child, Button)]
    (slider,) = [child for child in panel.children if isinstance(child, IntSlider)]
    assert button.description == "Compare"
    slider.value = 16
    assert calls == []
    button.click()
    assert calls == [{"batch": 16, "network": "lenet5"}]


def test_a_headless_notebook_plots_the_defaults() -> None:
    assert lab.interact(lambda **values: values, batch=(8, 2, 64), network=("lenet5", "lenet")) == {
        "batch": 8,
        "network": "lenet5",
    }


def test_progress_in_a_notebook_is_a_bar_and_finally_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(PROGRESS_VARIABLE, raising=False)
    monkeypatch.setattr(progress, "_in_kernel", lambda: True)
    runs = progress.Progress("run", 2)
    for name in ("first", "second"):
        runs.start(name)
        runs.update(3, 10)
        runs.finish("1.0 s")
    assert runs._bar.n == 2
    runs.close()
    captured = capsys.readouterr()
    assert "first" in captured.err
    assert "step 3/10" in captured.err
    assert captured.out == "2 runs executed in 0 s.\n"

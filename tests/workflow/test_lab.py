"""The laboratory: JupyterLab really started, and controls really pressed."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from tests.conftest import ROOT

from horizont.launchers.local import reserve_ports
from horizont.workflow.lab import _control_panel, lab_command
from horizont.workflow.paths import Paths
from horizont.workflow.progress import _NotebookSink

NOTIFICATION = "@jupyterlab/apputils-extension:notification"


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Start JupyterLab on this project, as `horizont lab` does, without a browser."""
    with reserve_ports(["127.0.0.1"], 0) as (port,):
        pass
    words = ["--no-browser", f"--port={port}", "--IdentityProvider.token="]
    folders = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    env = {**os.environ, **{name: str(tmp_path / name) for name in folders}}
    with (tmp_path / "log").open("w") as log:
        lab = subprocess.Popen(lab_command(Paths(ROOT), words), env=env, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        lab.terminate()
        lab.wait(30)


def get(address: str, seconds: float = 60.0) -> str:
    """Get a page as soon as it is there."""
    for _ in range(int(seconds / 0.2)):
        try:
            with urllib.request.urlopen(address) as answer:
                return str(answer.read().decode())
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"{address} does not answer")


def test_jupyterlab_opens_the_project_and_asks_for_no_news(address: str) -> None:
    assert "jupyter-config-data" in get(f"{address}/lab/tree/notebooks/start.ipynb")
    told = json.loads(get(f"{address}/api/contents/notebooks/start.ipynb?content=0"))
    assert told["path"] == "notebooks/start.ipynb"
    settings = json.loads(get(f"{address}/lab/api/settings/{NOTIFICATION}"))
    assert settings["schema"]["properties"]["fetchNews"]["default"] == "false"


def test_a_slider_shows_its_picture() -> None:
    """Run a cell as JupyterLab does: its picture is an output of the widget, not of the cell."""
    import nbformat
    from nbclient import NotebookClient

    source = """
        from horizont import pipeline
        from horizont.report import lessons
        pipeline.explore(lessons.parallelism.schedule, stages=(2, 2, 6), pieces=(4, 2, 16))
    """
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(dedent(source))])
    NotebookClient(notebook, kernel_name="python3", timeout=120).execute()
    states = notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    (shown,) = [
        state["state"]["outputs"]
        for state in states.values()
        if state["model_name"] == "OutputModel"
    ]
    assert "<svg" in str(shown)


def test_a_button_waits_and_then_draws() -> None:
    from ipywidgets import Button, Dropdown, IntSlider

    drawn: list[dict[str, Any]] = []
    controls = {"batch": IntSlider(8, 2, 64), "network": Dropdown(options=("lenet5", "lenet"))}
    panel = _control_panel(lambda **values: drawn.append(values), "Compare", controls)
    (button,) = [child for child in panel.children if isinstance(child, Button)]
    controls["batch"].value = 16
    assert not drawn
    button.click()
    assert drawn == [{"batch": 16, "network": "lenet5"}]


def test_progress_is_a_bar_and_in_the_end_a_line() -> None:
    shown: list[tuple[str, str]] = []
    sink = _NotebookSink(lambda plain, page: shown.append((plain, page)))
    sink.write("run 1/2 <first>", 0.25, permanent=False)
    sink.close("2 runs done.")
    assert shown[0][0] == "run 1/2 <first>"
    assert 'value="0.250"' in shown[0][1]
    assert "&lt;first&gt;" in shown[0][1]
    assert "progress" not in shown[1][1]

"""Headless notebooks: parameters are checked, failures are saved, progress is printed."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from horizont.errors import NotebookFailed, UserError
from horizont.workflow.notebooks import run_notebook
from horizont.workflow.paths import Paths
from horizont.workflow.progress import Progress, forwarded_progress


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    cells = [
        new_code_cell("number = 1", metadata={"tags": ["parameters"]}),
        new_code_cell("from pathlib import Path\nprint(Path.cwd(), number)"),
        new_code_cell("assert int(number) < 5, 'too large'"),
        new_markdown_cell("[a term](../docs/glossary.md#a), [a chapter](chapter.ipynb)"),
    ]
    (tmp_path / "notebooks").mkdir()
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(
        new_notebook(cells=cells, metadata=kernel), tmp_path / "notebooks" / "demo.ipynb"
    )
    return Paths(tmp_path)


def test_the_executed_copy_has_no_times(paths: Paths) -> None:
    source = (paths.notebooks / "demo.ipynb").read_text()
    out = run_notebook("demo", {"number": 3}, paths)
    assert out.name == "demo-3.ipynb"
    executed = nbformat.read(out, as_version=4)
    assert f"{paths.root} 3" in str([cell.get("outputs") for cell in executed.cells])
    assert "papermill" not in executed.metadata
    assert all("papermill" not in cell.metadata for cell in executed.cells)
    assert (paths.notebooks / "demo.ipynb").read_text() == source


def test_equal_outputs_make_equal_files(paths: Paths) -> None:
    contents = {run_notebook("demo", {"number": 3}, paths).read_bytes() for _ in range(2)}
    assert len(contents) == 1


def test_links_of_the_executed_copy_are_valid(paths: Paths) -> None:
    out = run_notebook("demo", {}, paths)
    text = nbformat.read(out, as_version=4).cells[-1].source
    assert text == "[a term](../../docs/glossary.md#a), [a chapter](chapter.ipynb)"


def test_a_failure_is_raised_and_saved(paths: Paths) -> None:
    run_notebook("demo", {"number": 9 - 5}, paths)
    with pytest.raises(NotebookFailed, match="too large") as failure:
        run_notebook("demo", {"number": 9}, paths)
    assert "too large" in failure.value.path.read_text()


#: The thread of the control channel is late; what is alive when outputs are no longer published?
LATE_CONTROL = """
def observe():
    import sys, threading, time
    from pathlib import Path
    from ipykernel.kernelapp import IPKernelApp
    app = IPKernelApp.instance()
    flush, stop = sys.stdout.flush, app.iopub_thread.stop
    def flush_late():
        if threading.current_thread() is app.control_thread:
            time.sleep(0.2)
        flush()
    def stop_and_write():
        Path("control").write_text("alive" if app.control_thread.is_alive() else "ended")
        stop()
    sys.stdout.flush, app.iopub_thread.stop = flush_late, stop_and_write
observe()
"""


def test_a_kernel_publishes_until_its_last_flush(paths: Paths) -> None:
    source = paths.notebooks / "demo.ipynb"
    notebook = nbformat.read(source, as_version=4)
    notebook.cells.append(new_code_cell(LATE_CONTROL))
    nbformat.write(notebook, source)
    run_notebook("demo", {}, paths)
    assert (paths.root / "control").read_text() == "ended"


def test_unknown_names_are_refused(paths: Paths) -> None:
    with pytest.raises(UserError, match=r"numbr.*number"):
        run_notebook("demo", {"numbr": 3}, paths)
    with pytest.raises(UserError, match=r"notebook: 'demos'.*demo"):
        run_notebook("demos", {}, paths)
    assert not paths.executed_notebooks.exists()


def test_progress_reaches_the_terminal() -> None:
    printed = io.StringIO()
    with forwarded_progress(printed) as folder:
        progress = Progress("run", 2)
        progress.start("first")
        time.sleep(0.1)
        progress.update(5, 10)
        progress.finish("1.0 s")
        time.sleep(0.5)
        progress.start("second")
        progress.finish("available", executed=False)
        progress.close()
        relayed = (folder / "progress").read_text()
    text = printed.getvalue()
    assert "run 1/2" in text
    assert "first: 1.0 s" in text
    assert "1 run executed" in text
    assert "1 available before" in text
    assert "step 5/10" not in text, "transient lines are for terminals"
    assert re.search(r"~run 1/2 first: step 5/10, \d+ steps/s", relayed)


def test_what_a_killed_process_has_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    abandoned = tmp_path / "horizont-relay-0"
    abandoned.mkdir()
    (abandoned / "progress").touch()
    with forwarded_progress(io.StringIO()) as outer:
        assert not abandoned.exists()
        with forwarded_progress(io.StringIO()) as inner:
            assert sorted(tmp_path.iterdir()) == sorted([outer, inner])
    assert not list(tmp_path.iterdir())

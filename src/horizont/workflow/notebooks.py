"""Running a notebook headlessly, with its progress in the terminal and its failure kept."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from horizont.errors import UserError
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.progress import PROGRESS_VARIABLE, echoed_progress

KERNEL_NAME = "python3"

#: How long an interrupted kernel may take to end what it has started: it is asked again after half
#: of it, and killed then. A run takes some seconds.
SHUTDOWN_TIMEOUT_S = 60.0


def _skip_rfc3987_grammar() -> None:
    """Let what reads notebooks be imported without what takes it seconds.

    jsonschema builds a grammar of web addresses, for a check of formats that notebooks have none
    of. Without the package it leaves that check out.
    """
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]


class NotebookFailed(Exception):
    """A notebook that raised. What it did up to there is kept."""

    def __init__(self, path: Path, error: str, message: str) -> None:
        self.path = path
        self.error = error
        self.message = message
        said = message if error == "UserError" else f"{error}: {message}"
        super().__init__(f"{said} (the notebook is kept as {path})")


def run_notebook(name: str, parameters: Mapping[str, Any], paths: Paths | None = None) -> Path:
    """Execute a notebook of the study and keep the executed copy.

    Parameters
    ----------
    name
        The notebook's name without its ending.
    parameters
        Values for names that the notebook's parameters cell declares.

    Returns
    -------
    Path
        The executed copy, named after the notebook and its parameters.

    Raises
    ------
    UserError
        If there is no such notebook or it has no such parameter.
    NotebookFailed
        If a cell raises.
    """
    paths = paths or study_paths()
    source = paths.notebooks / f"{name}.ipynb"
    if not source.exists():
        raise UserError("notebook", name, sorted(p.stem for p in paths.notebooks.glob("*.ipynb")))
    check_parameters(source, parameters)
    out = paths.executed_notebooks / f"{'-'.join([name, *map(str, parameters.values())])}.ipynb"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.unlink(missing_ok=True)  # never an old success under a new failure
    _execute(source, out, parameters, paths.root)
    return out


def check_parameters(notebook: Path, given: Mapping[str, Any]) -> None:
    """Refuse a parameter that the notebook does not declare."""
    _skip_rfc3987_grammar()
    from papermill import inspect_notebook

    declared = inspect_notebook(str(notebook))
    for name in given:
        if name not in declared:
            raise UserError(f"parameter of {notebook.name}", name, sorted(declared) or "none")


def _execute(source: Path, out: Path, parameters: Mapping[str, Any], root: Path) -> None:
    _skip_rfc3987_grammar()
    from papermill import PapermillExecutionError, execute_notebook
    from traitlets.config import Config

    try:
        with forwarded_progress() as folder:
            # Talking to the kernel through files needs no port and no encryption. It is ended by
            # an interrupt, which it would call an error; those of cells are in the notebook. Then
            # it has to end a run's processes and hosts, before anybody ends it.
            manager = {
                "transport": "ipc",
                "ip": str(folder / "kernel"),
                "shutdown_wait_time": SHUTDOWN_TIMEOUT_S,
            }
            settings = Config(
                {
                    "KernelManager": manager,
                    "NotebookClient": {"extra_arguments": ["--log-level=50"]},
                }
            )
            execute_notebook(
                str(source),
                str(out),
                parameters=dict(parameters),
                kernel_name=KERNEL_NAME,
                cwd=str(root),
                progress_bar=False,
                log_output=False,
                config=settings,
            )
    except PapermillExecutionError as error:
        raise NotebookFailed(out, error.ename, error.evalue) from None
    finally:
        if out.exists():
            strip_papermill_metadata(out)


@contextmanager
def forwarded_progress() -> Iterator[Path]:
    """Show in the terminal what the kernel says it is doing; gives a folder of the run's own."""
    with tempfile.TemporaryDirectory(prefix="horizont-") as name:
        folder = Path(name)
        spoken = folder / "progress"
        spoken.touch()
        before = os.environ.get(PROGRESS_VARIABLE)
        os.environ[PROGRESS_VARIABLE] = str(spoken)
        try:
            with echoed_progress(spoken):
                yield folder
        finally:
            os.environ.pop(PROGRESS_VARIABLE)
            if before is not None:
                os.environ[PROGRESS_VARIABLE] = before


def strip_papermill_metadata(path: Path) -> None:
    """Drop papermill's times and paths, which say nothing about the study and always differ."""
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    notebook.metadata.pop("papermill", None)
    for cell in notebook.cells:
        cell.metadata.pop("papermill", None)
        cell.metadata.pop("execution", None)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

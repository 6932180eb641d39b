"""Headless execution of notebooks by papermill, with progress in the terminal."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from horizont.config.study import read_study
from horizont.data.own import check_name
from horizont.errors import NotebookFailed, Problem, UserError
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.progress import forwarded_progress

#: Papermill's tag of the cell that it inserts with the given parameters.
INJECTED_TAG = "injected-parameters"

#: Run first in each kernel.
FIRST_LINE = "from horizont.workflow.kernel import prepare_kernel; prepare_kernel()"

#: Time for an interrupted kernel to end the processes of a run; it is interrupted again after
#: half of it, and killed at the end. A run takes some seconds to end.
SHUTDOWN_TIMEOUT_S = 60.0


def run_notebook(
    name: str,
    parameters: Mapping[str, Any],
    paths: Paths | None = None,
    out: Path | None = None,
) -> Path:
    """Execute a notebook of the study and save the executed copy.

    Parameters
    ----------
    name
        Path below ``notebooks/``, without its ending.
    out
        Path of the executed copy; by default it is named after the notebook and its parameters.

    Raises
    ------
    NotebookFailed
        If a cell raises.
    """
    paths = paths or study_paths()
    source = paths.notebooks / f"{name}.ipynb"
    if not source.exists():
        notebooks = sorted(path.stem for path in paths.notebooks.glob("*.ipynb"))
        if not notebooks:
            remedy = "the notebooks; `git checkout notebooks`"
            raise UserError(str(paths.notebooks), Problem("missing"), remedy)
        raise UserError("notebook", name, notebooks)
    # Keeps jsonschema from building a grammar, which takes seconds, for a format of web addresses
    # that notebooks do not contain. It skips that format if the package is missing.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    from papermill import inspect_notebook

    declared = inspect_notebook(str(source))
    for given in parameters:
        if given not in declared:
            raise UserError(f"parameter of {source.name}", given, sorted(declared) or "none")
    default_name = "-".join([name, *map(str, parameters.values())])
    out = out or paths.executed_notebooks / f"{default_name}.ipynb"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.unlink(missing_ok=True)  # a failure must not leave the result of an earlier execution
    _execute(source, out, parameters, paths.root)
    return out


def check_parameters(parameters: Mapping[str, Any], paths: Paths) -> None:
    """Refuse names that the study does not have, before a page is written about them.

    A page of the reference is about the study that was packed.
    """
    if "reference" in parameters or not set(parameters) & {"dataset", "workload", "experiment"}:
        return
    study = read_study(paths.params)
    if "dataset" in parameters:
        check_name(study.data, parameters["dataset"])
    if "workload" in parameters:
        study.workload(parameters["workload"])
    if "experiment" in parameters:
        study.experiment(parameters["experiment"])


def _execute(source: Path, out: Path, parameters: Mapping[str, Any], root: Path) -> None:
    from papermill import PapermillExecutionError, execute_notebook
    from traitlets.config import Config

    try:
        with forwarded_progress() as folder:
            # Files as transport need no port and no encryption. The kernel is shut down by an
            # interrupt, which it would log as an error; errors of cells are in the notebook. It
            # must have time to end the processes and hosts of a run before it is killed.
            settings = Config()
            settings.KernelManager.transport = "ipc"
            settings.KernelManager.ip = str(folder / "kernel")
            settings.KernelManager.shutdown_wait_time = SHUTDOWN_TIMEOUT_S
            settings.NotebookClient.extra_arguments = [
                "--log-level=50",
                f"--IPKernelApp.exec_lines={FIRST_LINE}",
            ]
            execute_notebook(
                str(source),
                str(out),
                parameters=dict(parameters),
                kernel_name="python3",
                cwd=str(root),
                progress_bar=False,
                log_output=False,
                config=settings,
            )
    except PapermillExecutionError as error:
        raise NotebookFailed(out, error.ename, error.evalue) from None
    finally:
        if out.exists():
            _clean_copy(out, source.parent)


def _clean_copy(path: Path, source_folder: Path) -> None:
    """Remove papermill's times, paths and names, which differ in every execution; rebase links.

    Those that lead out of the folder of the notebook would not be valid in that of the copy.
    """
    import nbformat

    def rebased(link: re.Match[str]) -> str:
        return f"]({os.path.relpath(source_folder / link[1], path.parent)}"

    notebook = nbformat.read(path, as_version=4)
    notebook.metadata.pop("papermill", None)
    for cell in notebook.cells:
        cell.metadata.pop("papermill", None)
        cell.metadata.pop("execution", None)
        if INJECTED_TAG in cell.metadata.get("tags", ()):
            cell.id = INJECTED_TAG
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"\]\((\.\./[^)#\s]+)", rebased, cell.source)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

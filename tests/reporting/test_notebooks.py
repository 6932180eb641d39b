"""Notebooks in git: no outputs, a title, parameters, no logic, known figures and tables."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

import nbformat
import pytest

from horizont.config.experiment import Kind, View
from horizont.reporting.registry import find_entry

FOLDER = Path(__file__).parents[2] / "notebooks"
#: Without those that only try a framework in its own kernel.
NOTEBOOKS = sorted(path for path in FOLDER.rglob("*.ipynb") if path.parent.name != "kernels")
SUBJECTS = (
    *("data", "equivalence", "overview", "decision", "claims", "frameworks", "start", "diff"),
    "certificates",
    "your-run",
)


def test_every_kind_view_and_subject_has_a_notebook():
    names = {path.relative_to(FOLDER).with_suffix("").as_posix() for path in NOTEBOOKS}
    views = {f"views/{view}" for view in get_args(View)}
    assert names >= {*get_args(Kind), *views, *SUBJECTS}


@pytest.mark.parametrize("name", [*get_args(Kind), *(f"views/{view}" for view in get_args(View))])
def test_every_kind_and_view_reports_the_reference_too(name):
    cells = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4).cells
    assert "reference = False" in cells[1].source
    assert "(experiment, workload, reference=reference)" in cells[2].source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_shows_only_registered_names(path):
    code = "\n".join(
        cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"
    )
    for call in re.findall(r"\bshow(?:_optional)?\(([^)=]*)", code):
        for name in re.findall(r'"([^"]+)"', call):
            find_entry(name)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_is_clean_and_valid(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert not cell.outputs
            assert cell.execution_count is None
    assert "papermill" not in notebook.metadata


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_begins_with_a_title_and_its_parameters(path):
    first, second, *_ = nbformat.read(path, as_version=4).cells
    assert first.cell_type == "markdown"
    assert first.source.startswith("# ")
    assert "parameters" in second.metadata.tags


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_holds_no_logic(path):
    """Calls and assignments only; decisions belong into modules with tests.

    Cells that write a file have the code of the user.
    """
    logic = (ast.If, ast.For, ast.While, ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.Try)
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code" and not cell.source.startswith("%%writefile"):
            assert not any(isinstance(node, logic) for node in ast.walk(ast.parse(cell.source)))

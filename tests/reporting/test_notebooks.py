"""The notebooks as they lie in git: no outputs, a title, declared parameters, no logic."""

from __future__ import annotations

import ast
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
NAMES = {"data", "equivalence", "local", "distributed", "cluster", "links", "scaling"}
NAMES |= {"faults", "input", "operators", "resources", "overview", "live"}
NAMES |= {"claims", "frameworks"}
NAMES |= {"verdicts", "decision", "start"}


def test_all_are_there():
    assert {path.stem for path in NOTEBOOKS} >= NAMES


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
    """Calls and assignments only: what decides something belongs where a test can reach it."""
    logic = (ast.If, ast.For, ast.While, ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.Try)
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            assert not any(isinstance(node, logic) for node in ast.walk(ast.parse(cell.source)))

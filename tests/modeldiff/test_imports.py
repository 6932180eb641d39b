"""What runs in the interpreter of a user imports NumPy and one framework at most."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from horizont.modeldiff.sides import recorders

PACKAGE = Path(__file__).parents[2] / "src" / "horizont" / "modeldiff"
FOREIGN = [
    PACKAGE / f"{name}.py"
    for name in (
        "runner", "functions", "attended", "rows", "running_statistics", "code_lines", "dump",
    )
]  # fmt: skip
OWN = {
    "torch": {"torch"},
    "keras": {"keras", "tensorflow"},
    "tf": {"tensorflow"},
    "jax": {"jax"},
    "mxnet": {"mxnet"},
    "onnx": {"google", "onnx", "onnxruntime"},
}


def imported(path: Path) -> set[str]:
    """Return the top-level modules that a file imports, and ``.`` for those beside it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("." if node.level else str(node.module).partition(".")[0])
    return found - sys.stdlib_module_names


def imported_beside(path: Path) -> set[str]:
    """Return the modules beside a file that it imports."""
    tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {str(node.module) for node in tree if isinstance(node, ast.ImportFrom) and node.level}


@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.name)
def test_the_program_of_a_side_needs_numpy_alone(path: Path) -> None:
    assert imported(path) <= {"numpy", "."}
    assert imported_beside(path) <= {each.stem for each in FOREIGN}


@pytest.mark.parametrize("prefix", OWN)
def test_a_recorder_needs_its_framework_and_the_files_beside_it(prefix: str) -> None:
    _, recorder = recorders()[prefix]
    files = list(recorder.parent.glob(f"{prefix}_*.py"))
    assert recorder in files
    for path in files:
        assert imported(path) <= {"numpy", ".", *OWN[prefix]}, path


def test_every_recorder_is_known_here() -> None:
    assert set(recorders()) == set(OWN)

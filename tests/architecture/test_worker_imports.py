"""What a process with a framework imports: nothing that only the laboratory has."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from horizont.config.system import FRAMEWORKS, framework_info
from horizont.records.provenance import imported_files

SOURCE = Path(__file__).parents[2] / "src"
PACKAGES = [SOURCE / "horizont", SOURCE / "horizont_textbook"]

#: All that the environment of a framework has, besides the framework and what that needs.
INSTALLED = {"numpy", "psutil", "pyarrow", "pydantic", "yaml", *(path.name for path in PACKAGES)}

#: Packages that a framework brings along.
WITH_FRAMEWORK = {"tensorflow": {"keras"}}

#: Modules that run in the interpreter of any framework.
SHARED = ("horizont.training.__main__", "horizont.frameworks.features",
          "horizont_textbook.framework_call", "horizont_textbook.framework_operators")  # fmt: skip

#: Those that run in the interpreter of one framework.
OWN = {"pytorch": ("horizont_textbook.group", "horizont_textbook.ring",
                   "horizont_textbook.torch_strategies")}  # fmt: skip


def imported_names(node: ast.AST) -> Iterator[str]:
    """Yield the top-level modules of imports; those for type checkers and optional ones are not."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module and not child.level:
            yield child.module.partition(".")[0]
        elif not _is_optional(child):
            yield from imported_names(child)


def _is_optional(node: ast.AST) -> bool:
    if isinstance(node, ast.Try):
        return any(ast.unparse(handler.type or node) == "ImportError" for handler in node.handlers)
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def foreign_imports(files: list[Path], known: set[str]) -> list[str]:
    """List files with what they import besides the standard library and some packages."""
    found = []
    for path in files:
        names = set(imported_names(ast.parse(path.read_bytes(), str(path))))
        unknown = names - known - sys.stdlib_module_names
        found += [f"{path.stem}: {name}" for name in sorted(unknown)]
    return found


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_worker_needs_its_framework_and_few_packages(framework: str) -> None:
    package, info = FRAMEWORKS[framework], framework_info(framework)
    entries = (*SHARED, *OWN.get(framework, ()), f"{package}.adapter", f"{package}.info")
    files = imported_files(entries, PACKAGES)
    assert len(files) > 40
    packages = {package for system in info.systems.values() for package in system.packages}
    own = {*info.import_names, *WITH_FRAMEWORK.get(framework, ()), *packages}
    # The cross-check of the textbook has the operators of all frameworks in one module.
    shared = [path for path in files if path.stem != "framework_operators"]
    assert foreign_imports(shared, INSTALLED | own) == []


def test_a_planted_import_is_found(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "import json\nimport numpy.linalg\nfrom typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import pandas\n"
        "try:\n    import autograd.numpy as np\nexcept ImportError:\n    import numpy as np\n"
        "try:\n    import tqdm\nexcept ValueError:\n    pass\n"
        "def f():\n    from scipy.special import entr\n"
    )
    assert foreign_imports([path], INSTALLED) == ["module: scipy", "module: tqdm"]

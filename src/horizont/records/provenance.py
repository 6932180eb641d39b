"""What identifies a run: its work, and the code that it executes.

Code is compared by its syntax tree without docstrings, so that rewording a docstring or a comment
does not invalidate a measurement.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from horizont.config.run import Run


def run_key(run: Run, provenance: Mapping[str, str]) -> str:
    """Return the name of a run's record: equal for equal work with equal provenance only.

    Parameters
    ----------
    provenance
        What the outcome depends on besides the run, by name: versions, machine, code, data.
    """
    text = json.dumps(
        {"run": run.model_dump(mode="json"), "provenance": dict(provenance)}, sort_keys=True
    )
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    return f"{run.system.slug}-w{run.topology.workers}-b{run.block:02d}-{digest}"


def code_fingerprint(paths: Iterable[Path], root: Path | None = None) -> str:
    """Return a hash of Python files: their names and syntax trees, without docstrings.

    Parameters
    ----------
    paths
        Files, or folders of which all Python files are taken.
    root
        Names are relative to it; by default to the parent of each path.

    Returns
    -------
    str
        Sixteen hexadecimal digits of a SHA-256.
    """
    digest = hashlib.sha256()
    for path in paths:
        files = [path] if path.is_file() else sorted(path.rglob("*.py"))
        for file in files:
            name = file.relative_to(root or path.parent).as_posix()
            tree = ast.parse(file.read_bytes(), str(file))
            digest.update(f"{name}\n{_canonical(tree)}\n".encode())
    return digest.hexdigest()[:16]


def _canonical(node: object) -> str:
    """Format a syntax tree without docstrings and positions.

    Unlike that of :func:`ast.dump`, the text is the same in every version of Python: a field
    that a later version adds is empty in code that does not use it.
    """
    if isinstance(node, list):
        return f"[{','.join(map(_canonical, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = {name: value for name, value in ast.iter_fields(node) if value not in (None, [])}
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        fields["body"] = [child for child in node.body if not _is_docstring(child)]
    inside = ",".join(f"{name}={_canonical(value)}" for name, value in fields.items())
    return f"{type(node).__name__}({inside})"


def _is_docstring(statement: ast.stmt) -> bool:
    """Whether a statement is a lone string: a docstring, or one below an attribute."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def imported_files(
    modules: Iterable[str], package_folder: Path, without: Collection[str] = ()
) -> list[Path]:
    """Return the files of a package that some of its modules import, and their own, sorted.

    Imports inside functions count, those for type checkers do not. The ``__init__`` of a package
    counts only if something is imported from it by name.

    Parameters
    ----------
    modules
        Full names, for example ``horizont.training.worker``.
    without
        Modules that are neither included nor followed.
    """
    files: dict[str, Path] = {}
    pending = list(modules)
    while pending:
        module = pending.pop()
        path = _module_file(module, package_folder)
        if path is None or module in files or module in without:
            continue
        files[module] = path
        pending += _imports(ast.parse(path.read_bytes(), str(path)), package_folder)
    return sorted(files.values())


def _module_file(module: str, package_folder: Path) -> Path | None:
    package, *names = module.split(".")
    if package != package_folder.name:
        return None
    base = package_folder.joinpath(*names)
    path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    return path if path.is_file() else None


def _imports(node: ast.AST, package_folder: Path) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            inner = [f"{child.module}.{alias.name}" for alias in child.names]
            submodules = [name for name in inner if _module_file(name, package_folder)]
            yield from submodules
            if len(submodules) < len(inner):
                yield child.module
        elif not _is_for_type_checkers(child):
            yield from _imports(child, package_folder)


def _is_for_type_checkers(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )

"""What identifies a run: its work, and the code that it executes.

Code is compared by its syntax tree without docstrings, so that rewording a docstring or a comment
does not invalidate a measurement.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from horizont.config.run import Run


def run_key(run: Run, provenance: Mapping[str, str]) -> str:
    """Return the name of a run's record: equal for equal work with equal provenance only.

    The provenance is what the outcome depends on besides the run: versions, machine, code, data.
    """
    text = json.dumps(
        {"run": run.model_dump(mode="json"), "provenance": dict(provenance)}, sort_keys=True
    )
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    return f"{run.system.slug}-w{run.topology.workers}-b{run.block:02d}-{digest}"


def code_fingerprint(paths: Iterable[Path]) -> str:
    """Return a hash of the names and syntax trees of Python files, without docstrings.

    Sixteen hexadecimal digits of a SHA-256. Of a folder, all Python files count.
    """
    digest = hashlib.sha256()
    for path in paths:
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            digest.update(f"{_name_in_package(file)}\n".encode())
            digest.update(f"{_canonical_code(file.read_bytes())}\n".encode())
    return digest.hexdigest()[:16]


def _name_in_package(file: Path) -> str:
    """Return a path that starts with the top-level package, wherever that is installed."""
    folder = file.parent
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return file.relative_to(folder).as_posix()


# Both caches are keyed by the code itself: most files belong to the runs of every framework.
@cache
def _canonical_code(code: bytes) -> str:
    return _canonical(ast.parse(code))


@cache
def _import_statements(code: bytes) -> tuple[ast.Import | ast.ImportFrom, ...]:
    return tuple(_imports(ast.parse(code)))


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
    modules: Iterable[str], packages: Iterable[Path], without: Collection[str] = ()
) -> list[Path]:
    """Return the files of some packages that modules import, and the modules' own.

    Imports inside functions count, those for type checkers do not. The ``__init__`` of a package
    counts only if something is imported from it by name. Modules have full names, as
    ``horizont.training.worker``; packages are folders, or files of top-level modules; modules in
    `without` are neither included nor followed.
    """
    parents = {package.stem: package.parent for package in packages}
    files: dict[str, Path] = {}
    pending = list(modules)
    while pending:
        module = pending.pop()
        path = _module_file(module, parents)
        if path is None or module in files or module in without:
            continue
        files[module] = path
        for statement in _import_statements(path.read_bytes()):
            pending += _imported_modules(statement, parents)
    return [files[module] for module in sorted(files)]


def _module_file(module: str, parents: Mapping[str, Path]) -> Path | None:
    names = module.split(".")
    if names[0] not in parents:
        return None
    base = parents[names[0]].joinpath(*names)
    path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    return path if path.is_file() else None


def _imports(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif not _is_for_type_checkers(child):
            yield from _imports(child)


def _imported_modules(
    statement: ast.Import | ast.ImportFrom, parents: Mapping[str, Path]
) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
    elif statement.module:
        inner = [f"{statement.module}.{alias.name}" for alias in statement.names]
        submodules = [name for name in inner if _module_file(name, parents)]
        yield from submodules
        if len(submodules) < len(inner):
            yield statement.module


def _is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"

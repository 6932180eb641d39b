"""The layers of the packages: what each may import, and the size and names of its files."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from horizont.config.system import FRAMEWORKS, framework_info

SOURCE = Path(__file__).parents[2] / "src" / "horizont"
TEXTBOOK = SOURCE.parent / "horizont_textbook"

#: Package -> the packages and modules that it may import. All may import `errors` and
#: `wording`.
ALLOWED: dict[str, set[str]] = {
    "wording": set(),
    "errors": {"wording"},
    "statistics": set(),
    "config": set(),
    "networks": {"config"},
    "data": {"config"},
    "records": {"config"},
    "frameworks": {"config", "networks", "data", "records.schema", "records.files"},
    "monitoring": {"records", "config.interpreters"},
    "training": {"frameworks", "monitoring", "records", "data", "networks", "config"},
    "launchers": {"monitoring", "records", "config"},
    "equivalence": {"records", "statistics", "networks", "config"},
    "analysis": {"records", "statistics", "monitoring.samples", "config"},
    "reporting": {
        "analysis", "equivalence", "data", "networks", "records", "statistics", "config",
    },
    "workflow": {
        "analysis", "config", "data", "equivalence", "launchers", "monitoring", "networks",
        "records", "reporting", "statistics",
    },
    "modeldiff": {"equivalence", "monitoring.process_control", "config", "statistics"},
    "testing": {"modeldiff"},
    "cli": {"workflow", "modeldiff", "monitoring.process_control"},
}  # fmt: skip

#: Modules of `frameworks` that all adapters share; an adapter imports no other adapter.
SHARED = {"base", "operators", "updates", "features", "endpoints", "mpi", "pmi"}

#: Top-level modules that only a worker of their framework imports.
FRAMEWORK_MODULES = {
    module for name in FRAMEWORKS for module in framework_info(name).import_names
} | {"keras"}

#: Lines of a file, without a reason in one of the lists below.
SMALLEST, LARGEST = 20, 350

SMALL_FILES = {
    "horizont_textbook/programs": "programs that chapter 11 prints whole",
    "horizont/training/__main__.py": "starts the worker",
    "horizont/networks/lstm.py": "a network",
    "horizont/launchers/__init__.py": "the registry of launchers",
}
LARGE_FILES = {
    "horizont/cli.py": "one function per command",
    "horizont/frameworks/base.py": "the protocols between training and frameworks, on one page",
}


def imports(source: Path) -> Iterator[tuple[Path, int, str, str]]:
    """Yield file, line, importing module and imported module of all imports of the package."""
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [_absolute(node, parts)]
                if names[0] in ("horizont", "horizont.frameworks", "horizont.records"):
                    names = [f"{names[0]}.{alias.name}" for alias in node.names]
            for name in names:
                if name.split(".")[0] in ("horizont", "horizont_textbook") and "." in name:
                    yield path, node.lineno, ".".join(parts), name.removeprefix("horizont.")


def _absolute(node: ast.ImportFrom, parts: tuple[str, ...]) -> str:
    """Return the full name of a relative import."""
    above = ("horizont", *parts)[: -node.level] if node.level else ()
    return ".".join([*above, *([node.module] if node.module else [])])


def wrong_imports(source: Path) -> list[str]:
    """List the imports that no layer allows."""
    return [
        f"{path.relative_to(source)}:{line}: {importer} -> {imported}"
        for path, line, importer, imported in imports(source)
        if not _is_allowed(importer.split("."), imported)
    ]


def _is_allowed(importer: list[str], imported: str) -> bool:
    there = imported.split(".")
    if there[0] in ("errors", "wording"):
        return True
    if importer[0] != there[0]:
        allowed = ALLOWED.get(importer[0], set())
        return there[0] in allowed or ".".join(there[:2]) in allowed
    if importer[0] != "frameworks" or len(there) == 1:
        return True
    own = importer[1] if len(importer) > 1 else ""
    return there[1] in SHARED or there[1] == own or there[1] == "load_adapter"


def code_files(*folders: Path) -> list[Path]:
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def shown(path: Path) -> str:
    return path.relative_to(SOURCE.parent).as_posix()


def test_every_package_has_a_layer() -> None:
    names = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert names - {"__init__", "__pycache__", "py"} == set(ALLOWED)


def test_imports_follow_the_layers() -> None:
    wrong = wrong_imports(SOURCE)
    assert not wrong, "\n".join(wrong)


def test_the_package_does_not_import_the_textbook() -> None:
    found = [
        shown(path) for path, _, _, name in imports(SOURCE) if name.startswith("horizont_textbook")
    ]
    assert found == []


def test_a_planted_import_is_found(tmp_path: Path) -> None:
    for file, text in {
        "config/a.py": "from horizont.records import Record\n",
        "statistics/deep/e.py": "from ...config import Run\nfrom . import x\nfrom ... import data",
        "records/b.py": "import horizont.config\nfrom horizont.errors import UserError\n",
        "frameworks/torch/c.py": "from horizont.frameworks import mxnet\n",
        "analysis/f.py": "from horizont.monitoring.client import SamplerClient\n",
        "workflow/d.py": "def f():\n    from horizont.training.worker import main\n",
    }.items():
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text(text)
    assert wrong_imports(tmp_path) == [
        "analysis/f.py:1: analysis.f -> monitoring.client",
        "config/a.py:1: config.a -> records.Record",
        "frameworks/torch/c.py:1: frameworks.torch.c -> frameworks.mxnet",
        "statistics/deep/e.py:1: statistics.deep.e -> config",
        "statistics/deep/e.py:3: statistics.deep.e -> data",
        "workflow/d.py:2: workflow.d -> training.worker",
    ]


def test_only_adapters_import_a_framework() -> None:
    for path in SOURCE.rglob("*.py"):
        package = path.relative_to(SOURCE).parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.append(node.module)
            named = {name.split(".")[0] for name in names} & FRAMEWORK_MODULES
            assert not named or package == "frameworks", f"{path}: {named}"


#: A framework's name in code outside its folder.
FRAMEWORK_NAME = re.compile(r"(?i)tensorflow|pytorch|(?<![a-z])torch|mxnet|keras|gluon")
REGISTRY = "horizont/config/system.py"


def named_frameworks(path: Path) -> list[str]:
    """List the names of frameworks in identifiers and texts; docstrings and comments may cite."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    found = []
    for node in ast.walk(tree):
        text = ""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = "" if id(node) in docstrings else node.value
        elif isinstance(node, ast.Name):
            text = node.id
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            text = node.name
        if text and FRAMEWORK_NAME.search(text):
            found.append(f"{shown(path)}:{node.lineno}: {text[:60]!r}")  # type: ignore[attr-defined]
    return found


def test_no_framework_is_named_outside_its_folder() -> None:
    found = []
    for path in code_files(SOURCE):
        inside = path.relative_to(SOURCE).parts
        if shown(path) != REGISTRY and not (inside[0] == "frameworks" and len(inside) > 2):
            found += named_frameworks(path)
    assert not found, "\n".join(found)


def test_packages_of_frameworks_load_nothing() -> None:
    for module in FRAMEWORKS.values():
        init = SOURCE.parent.joinpath(*module.split(".")) / "__init__.py"
        assert init.read_text(encoding="utf-8") == ""
    names = [f"{module}.info" for module in FRAMEWORKS.values()]
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL % (names, FRAMEWORK_MODULES | {"scipy", "pandas"})],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "[]", done.stderr


def test_files_have_a_size_that_reads_well() -> None:
    wrong = []
    for path in code_files(SOURCE, TEXTBOOK):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        name = shown(path)
        is_small = lines < SMALLEST and path.name != "__init__.py"
        if is_small and not any(name.startswith(allowed) for allowed in SMALL_FILES):
            wrong.append(f"{name}: {lines} lines")
        if lines > LARGEST and name not in LARGE_FILES:
            wrong.append(f"{name}: {lines} lines")
    assert not wrong, "\n".join(wrong)


def test_no_module_has_a_name_that_its_package_exports() -> None:
    # One would hide the other: what ``from package import name`` returns would depend on what ran.
    wrong = []
    for init in [*SOURCE.rglob("__init__.py"), *TEXTBOOK.rglob("__init__.py")]:
        exported = set(re.findall(r"\w+", init.read_text(encoding="utf-8").partition('"""\n')[2]))
        for module in init.parent.glob("*.py"):
            tree = ast.parse(module.read_text(encoding="utf-8"))
            defined = {
                node.name
                for node in tree.body
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            }
            wrong += [shown(module)] if module.stem in defined & exported else []
    assert wrong == []


IMPORT_ALL = """
import importlib, sys
for name in %r:
    importlib.import_module(name)
print(sorted({name.split(".")[0] for name in sys.modules} & %r))
"""


def modules_outside_workers() -> list[str]:
    """List all modules but those of the adapters and of the training process."""
    names = []
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        if parts[-1] != "__main__" and parts[1] != "training" and "frameworks" not in parts[1:-1]:
            names.append(".".join(parts).removesuffix(".__init__"))
    return names


def test_no_framework_is_loaded_outside_workers() -> None:
    assert len(modules_outside_workers()) > 50
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL % (modules_outside_workers(), FRAMEWORK_MODULES)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "[]"


def test_starting_a_notebook_does_not_wait_for_libraries_of_reports() -> None:
    code = "import sys, horizont.workflow.notebooks; print({'pandas', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_command_line_starts_without_libraries_of_reports() -> None:
    libraries = {"pandas", "scipy", "matplotlib", "pyarrow", "sphinx", "dvc"}
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL % (["horizont.cli"], libraries)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "[]"


def test_a_worker_imports_no_library_of_data_preparation_or_reports() -> None:
    job = "import sys, horizont.training.worker; from horizont.training.worker import main"
    attempt = "from contextlib import suppress\nwith suppress(OSError): main(['', 'no such job'])"
    check = "import pyarrow; pyarrow.array([1]); names = 'matplotlib', 'pandas', 'pooch', 'scipy'"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"{job}\n{attempt}\n{check}\nprint(*filter(sys.modules.get, names))",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stdout.strip()

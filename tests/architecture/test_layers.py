"""The floors of the house: who may import whom."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "horizont"

#: Floor -> the floors that it may import. `errors` may be imported by all. A framework's own
#: package may import what `frameworks` may, and itself.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "spec": set(),
    "stats": set(),
    "theory": set(),
    "records": {"spec"},
    "data": {"spec"},
    "networks": {"spec"},
    "frameworks": {"networks", "data", "spec", "theory"},
    "measure": {"records"},
    "worker": {"frameworks", "measure", "records", "networks", "data", "spec"},
    "cluster": {"measure", "records", "spec"},
    "equivalence": {"records", "stats", "networks", "spec"},
    "analysis": {"measure", "records", "stats", "spec"},
    "report": {
        "analysis", "equivalence", "data", "networks", "records", "stats", "spec", "theory",
    },
    "pipeline": {
        "analysis", "cluster", "data", "equivalence", "measure", "networks", "records", "report",
        "spec", "stats", "theory",
    },
    "cli": {"pipeline"},
}  # fmt: skip

#: Inside `frameworks`: what all adapters share.
SHARED = {"base", "operations", "registry", "updates"}

FRAMEWORK_MODULES = {"tensorflow", "torch", "mxnet", "keras"}


def arrows(source: Path) -> Iterator[tuple[Path, int, str, str]]:
    """List file, line, importing module and imported module of all imports of ours."""
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [_absolute(node, parts)]
                if names[0] in ("horizont", "horizont.frameworks"):
                    names = [f"{names[0]}.{alias.name}" for alias in node.names]
            for name in names:
                if name.startswith("horizont."):
                    yield path, node.lineno, ".".join(parts), name.removeprefix("horizont.")


def _absolute(node: ast.ImportFrom, parts: tuple[str, ...]) -> str:
    """Spell out a relative import."""
    above = ("horizont", *parts)[: -node.level] if node.level else ()
    return ".".join([*above, *([node.module] if node.module else [])])


def wrong_arrows(source: Path) -> list[str]:
    """Name the imports that run the wrong way."""
    wrong = []
    for path, line, importer, imported in arrows(source):
        here, there = importer.split("."), imported.split(".")
        if not _allowed(here, there):
            wrong.append(f"{path.relative_to(source)}:{line}: {importer} -> {imported}")
    return wrong


def _allowed(here: list[str], there: list[str]) -> bool:
    if there[0] == "errors":
        return True
    if here[0] != there[0]:
        return there[0] in ALLOWED.get(here[0], set())
    if here[0] != "frameworks" or len(there) == 1:
        return True
    own = here[1] if len(here) > 1 else ""
    return there[1] in SHARED or there[1] == own


def test_every_floor_is_known() -> None:
    floors = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert floors - {"__init__", "__pycache__", "py"} <= set(ALLOWED)


def test_no_arrow_runs_the_wrong_way() -> None:
    assert wrong_arrows(SOURCE) == []


def test_a_wrong_arrow_is_found(tmp_path: Path) -> None:
    for file, text in {
        "spec/a.py": "from horizont.records import Record\n",
        "stats/deep/e.py": "from ...spec import Run\nfrom . import sibling\nfrom ... import data\n",
        "records/b.py": "import horizont.spec\nfrom horizont.errors import UserError\n",
        "frameworks/torch/c.py": "from horizont.frameworks import mxnet\n",
        "pipeline/d.py": "def f():\n    from horizont.worker.main import main\n",
    }.items():
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text(text)
    assert wrong_arrows(tmp_path) == [
        "frameworks/torch/c.py:1: frameworks.torch.c -> frameworks.mxnet",
        "pipeline/d.py:2: pipeline.d -> worker.main",
        "spec/a.py:1: spec.a -> records",
        "stats/deep/e.py:1: stats.deep.e -> spec",
        "stats/deep/e.py:3: stats.deep.e -> data",
    ]


def test_only_adapters_name_a_framework() -> None:
    for path in SOURCE.rglob("*.py"):
        home = path.relative_to(SOURCE).parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.append(node.module)
            named = {name.split(".")[0] for name in names} & FRAMEWORK_MODULES
            assert not named or home[0] == "frameworks", f"{path}: {named}"


IMPORT_ALL = """
import importlib, sys
for name in %r:
    importlib.import_module(name)
print(sorted({name.split(".")[0] for name in sys.modules} & %r))
"""


def outside_of_workers() -> list[str]:
    """List all modules but those of the adapters and of the worker."""
    names = []
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        if parts[-1] != "__main__" and parts[1] != "worker" and "frameworks" not in parts[1:-1]:
            names.append(".".join(parts).removesuffix(".__init__"))
    return names


def test_no_framework_is_loaded_outside_of_workers() -> None:
    assert len(outside_of_workers()) > 50
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL % (outside_of_workers(), FRAMEWORK_MODULES)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "[]"


def test_every_verb_of_the_pipeline_is_there() -> None:
    from horizont import workflow

    assert set(workflow.__all__) == set(workflow._MODULES)
    for verb in workflow.__all__:
        assert getattr(workflow, verb).__module__.startswith("horizont.workflow.")
        assert not (SOURCE / "workflow" / f"{verb}.py").exists(), "would hide the verb"


def test_starting_a_notebook_does_not_wait_for_what_draws_and_computes() -> None:
    told = "import sys, horizont.workflow.notebooks; print({'pandas', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_worker_imports_neither_what_makes_data_nor_what_draws_reports() -> None:
    job = "import sys, horizont.training.worker; from horizont.training.worker import main"
    tries = "from contextlib import suppress\nwith suppress(OSError): main(['', 'no such job'])"
    told = "import pyarrow; pyarrow.array([1]); names = 'matplotlib', 'pandas', 'pooch', 'scipy'"
    done = subprocess.run(
        [sys.executable, "-c", f"{job}\n{tries}\n{told}\nprint(*filter(sys.modules.get, names))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert not done.stdout.strip()

"""Keys of runs, and fingerprints of the code that they execute."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import small_run

from horizont.records.provenance import code_fingerprint, imported_files, run_key

CODE = '''"""Module."""

from package.other import VALUE

LIMIT = 2
"""An attribute."""


class Model:
    """A class."""

    def run(self) -> str:
        """A method."""
        return f"{VALUE} {LIMIT}"  # a comment
'''


def test_keys_differ_with_work_and_provenance() -> None:
    provenance = {"version": "1"}
    keys = {
        run_key(small_run(), provenance),
        run_key(small_run(seed=8), provenance),
        run_key(small_run(block=1), provenance),
        run_key(small_run(), {"version": "2"}),
    }
    assert len(keys) == 4
    assert run_key(small_run(), provenance) == run_key(small_run(), dict(provenance))


def test_a_fingerprint_depends_on_code_and_names(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "a.py").write_text("1")
    first = code_fingerprint([folder])
    (folder / "a.py").write_text("2")
    second = code_fingerprint([folder])
    (folder / "a.py").rename(folder / "b.py")
    assert len({first, second, code_fingerprint([folder])}) == 3
    (folder / "notes.txt").write_text("not code")
    assert code_fingerprint([folder]) == code_fingerprint([folder])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""Module."""', '"""A module."""\n# and a comment'),
        ('"""Module."""\n', ""),
        ('"""A class."""', '"""A reworded class."""'),
        ('        """A method."""\n', ""),
        ('"""An attribute."""', ""),
        ("  # a comment", ""),
        ("LIMIT = 2", "LIMIT = (\n    2\n)"),
    ],
)
def test_a_fingerprint_ignores_docstrings_comments_and_format(
    tmp_path: Path, old: str, new: str
) -> None:
    path = tmp_path / "code.py"
    path.write_text(CODE)
    before = code_fingerprint([path])
    assert old in CODE
    path.write_text(CODE.replace(old, new))
    assert code_fingerprint([path]) == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 2", "LIMIT = 3"),
        ("LIMIT = 2", 'LIMIT = "2"'),
        ("{VALUE} {LIMIT}", "{VALUE}  {LIMIT}"),
        ("def run(self)", "def run(self, rank=0)"),
    ],
)
def test_a_fingerprint_depends_on_every_expression(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "code.py"
    path.write_text(CODE)
    before = code_fingerprint([path])
    path.write_text(CODE.replace(old, new))
    assert code_fingerprint([path]) != before


def test_imports_are_followed(tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "inner").mkdir(parents=True)
    files = {
        "__init__.py": "import package.not_followed",
        "not_followed.py": "",
        "start.py": "import json\nfrom package.inner import model, SIZE\n"
        "from package.types import Shape\n",
        "inner/__init__.py": "SIZE = 1",
        "inner/model.py": "def load():\n    from package.lazy import VALUE\n",
        "lazy.py": "from package.left_out import VALUE",
        "left_out.py": "from package.not_followed import x",
        "types.py": "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from package.not_followed import x\n",
    }
    for name, content in files.items():
        (package / name).write_text(content)
    imported = imported_files(["package.start"], [package], without=["package.left_out"])
    names = [str(path.relative_to(package)) for path in imported]
    assert names == ["inner/__init__.py", "inner/model.py", "lazy.py", "start.py", "types.py"]


def test_imports_are_followed_from_one_package_to_another(tmp_path: Path) -> None:
    outside, package = tmp_path / "other" / "outside", tmp_path / "package"
    outside.mkdir(parents=True)
    package.mkdir()
    module = tmp_path / "module.py"
    for path, content in {
        outside / "__init__.py": "",
        outside / "start.py": "from outside.code import x\nfrom package.used import y",
        outside / "code.py": "import numpy",
        package / "used.py": "import module",
        package / "unused.py": "",
        module: "",
    }.items():
        path.write_text(content)
    imported = imported_files(["outside.start"], [package, outside, module])
    assert [path.name for path in imported] == ["module.py", "code.py", "start.py", "used.py"]


def test_a_fingerprint_does_not_depend_on_the_place_of_a_package(tmp_path: Path) -> None:
    fingerprints = set()
    for place in ("here", "there"):
        folder = tmp_path / place / "package" / "inner"
        folder.mkdir(parents=True)
        for path in (folder.parent / "__init__.py", folder / "__init__.py", folder / "code.py"):
            path.write_text(CODE)
        fingerprints.add(code_fingerprint([folder / "code.py"]))
    assert len(fingerprints) == 1

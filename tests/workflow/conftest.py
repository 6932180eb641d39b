"""Shared by the tests of the workflow: commands that are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from horizont.cli import main
from horizont.errors import USER_ERROR
from horizont.workflow.paths import Paths


def files_in(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


@pytest.fixture
def refused(study_folder: Paths, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return a function that runs a command and returns its only line, an error.

    The command changes no file.
    """

    def refused_line(*words: str) -> str:
        before = files_in(study_folder.root)
        capsys.readouterr()
        status = main(words)
        shown = capsys.readouterr()
        assert status == USER_ERROR, (status, shown)
        assert shown.out == ""
        (line,) = shown.err.strip().splitlines()
        assert line.startswith("error: ")
        assert files_in(study_folder.root) == before
        return line

    return refused_line

"""Where the project lies, from wherever a notebook or command is started."""

from __future__ import annotations

import os
from pathlib import Path

from horizont.errors import UserError

MARKS = ("params.yaml", "dvc.yaml")


def project_root(start: Path | None = None) -> Path:
    """Find the folder of the study: the nearest above `start` that holds its settings.

    `HORIZONT_ROOT`, if set, names it outright.

    Raises
    ------
    UserError
        If there is none.
    """
    named = os.environ.get("HORIZONT_ROOT")
    if named:
        return Path(named)
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if all((folder / mark).exists() for mark in MARKS):
            return folder
    raise UserError("folder", str(here), f"a folder of the project, with {' and '.join(MARKS)}")

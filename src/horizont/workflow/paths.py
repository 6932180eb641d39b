"""Where the project lies, from wherever a notebook or command is started."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from horizont.errors import UserError

PROJECT_FILES = ("params.yaml", "dvc.yaml")


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
        if all((folder / mark).exists() for mark in PROJECT_FILES):
            return folder
    raise UserError(
        "folder", str(here), f"a folder of the project, with {' and '.join(PROJECT_FILES)}"
    )


@dataclass(frozen=True)
class Paths:
    """The folders and files of a study below its root."""

    root: Path

    @property
    def params(self) -> Path:
        """Name the file of all settings."""
        return self.root / "params.yaml"

    @property
    def raw(self) -> Path:
        """Name the folder of the official archives."""
        return self.root / "data" / "raw"

    @property
    def prepared_sets(self) -> Path:
        """Name the folder of the data sets in canonical form."""
        return self.root / "data" / "prepared"

    def prepared(self, dataset: str) -> Path:
        """Name the folder of a data set in canonical form."""
        return self.prepared_sets / dataset

    def files(self, dataset: str) -> Path:
        """Name the folder of a data set in its official format, unpacked."""
        return self.root / "data" / "files" / dataset

    def records(self, experiment: str, workload: str) -> Path:
        """Name the folder of the records of an experiment on a workload."""
        return self.root / "records" / experiment / workload

    def certificate(self, workload: str) -> Path:
        """Name the file of the comparator's findings on a workload."""
        return self.root / "reports" / "equivalence" / f"{workload}.json"

    @property
    def textbook(self) -> Path:
        """Name the folder of what the frameworks answered to the theory notebooks."""
        return self.root / "data" / "chapters"

    @property
    def quick_comparison(self) -> Paths:
        """Name the places of the start notebook's comparisons, apart from the study's."""
        return Paths(self.root / "data" / "quick_comparison")

    def metrics(self, name: str) -> Path:
        """Name a file of metrics that DVC compares."""
        return self.root / "reports" / "metrics" / f"{name}.json"

    @property
    def claims(self) -> Path:
        """Name the file of the verdicts on the published claims."""
        return self.root / "reports" / "claims.json"

    @property
    def plots(self) -> Path:
        """Name the folder of the curves that DVC plots."""
        return self.root / "reports" / "plots"

    @property
    def notebooks(self) -> Path:
        """Name the folder of the notebooks as they are written."""
        return self.root / "notebooks"

    @property
    def docs(self) -> Path:
        """Name the folder of the documents, some of which are chapters of the book."""
        return self.root / "docs"

    @property
    def executed_notebooks(self) -> Path:
        """Name the folder of the notebooks as they were run."""
        return self.root / "reports" / "notebooks"

    @property
    def book(self) -> Path:
        """Name the folder of the finished site."""
        return self.root / "reports" / "book"


def study_paths() -> Paths:
    """Tell the places of the study that the current folder belongs to."""
    return Paths(project_root())

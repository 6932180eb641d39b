"""The root of the project, and the paths of a study."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from horizont.errors import UserError

PROJECT_FILES = ("params.yaml", "dvc.yaml")


def project_root(start: Path | None = None) -> Path:
    """Find the nearest folder, from `start` upwards, that has the files of a study.

    The environment variable `HORIZONT_ROOT` overrides it.

    Raises
    ------
    UserError
        If there is none.
    """
    if given := os.environ.get("HORIZONT_ROOT"):
        return Path(given)
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if all((folder / name).exists() for name in PROJECT_FILES):
            return folder
    allowed = f"a folder of the project, with {' and '.join(PROJECT_FILES)}"
    raise UserError("folder", str(here), allowed)


@dataclass(frozen=True)
class Paths:
    """The folders and files of a study."""

    root: Path

    @property
    def params(self) -> Path:
        """The settings."""
        return self.root / "params.yaml"

    @property
    def raw(self) -> Path:
        """The official archives of the data sets."""
        return self.root / "data" / "raw"

    @property
    def prepared_sets(self) -> Path:
        """The data sets in canonical form."""
        return self.root / "data" / "prepared"

    def prepared(self, dataset: str) -> Path:
        """Return the folder of a data set in canonical form."""
        return self.prepared_sets / dataset

    def files(self, dataset: str) -> Path:
        """Return the folder of a data set in its official format, unpacked."""
        return self.root / "data" / "files" / dataset

    @property
    def textbook(self) -> Path:
        """Results that the theory chapters reuse."""
        return self.root / "data" / "textbook"

    @property
    def quick_comparison(self) -> Paths:
        """The paths of the start notebook's comparisons, apart from those of the study."""
        return Paths(self.root / "data" / "quick_comparison")

    @property
    def all_records(self) -> Path:
        """The records of all experiments."""
        return self.root / "records"

    def records(self, experiment: str, workload: str) -> Path:
        """Return the folder of the records of an experiment on a workload."""
        return self.all_records / experiment / workload

    @property
    def notebooks(self) -> Path:
        """The notebooks, without outputs."""
        return self.root / "notebooks"

    @property
    def docs(self) -> Path:
        """The documentation."""
        return self.root / "docs"

    @property
    def reports(self) -> Path:
        """Everything that a study publishes."""
        return self.root / "reports"

    def certificate(self, workload: str) -> Path:
        """Return the file of a workload's equivalence certificate."""
        return self.reports / "equivalence" / f"{workload}.json"

    def metrics(self, experiment: str) -> Path:
        """Return the file of an experiment's metrics, by workload, for ``dvc metrics``."""
        return self.reports / "metrics" / f"{experiment}.json"

    def plots(self, experiment: str) -> Path:
        """Return the file of an experiment's loss curves, for ``dvc plots``."""
        return self.reports / "plots" / f"{experiment}.json"

    @property
    def claims(self) -> Path:
        """The verdicts on the published claims."""
        return self.reports / "claims.json"

    @property
    def executed_notebooks(self) -> Path:
        """The executed notebooks."""
        return self.reports / "notebooks"

    def experiment_page(self, experiment: str, workload: str) -> Path:
        """Return the executed notebook of an experiment on a workload."""
        return self.executed_notebooks / experiment / f"{experiment}-{workload}.ipynb"

    @property
    def views(self) -> Path:
        """The executed notebooks of all views."""
        return self.reports / "views"

    def view_page(self, experiment: str, workload: str, view: str) -> Path:
        """Return the executed notebook of a view of an experiment on a workload."""
        return self.views / experiment / f"{view}-{experiment}-{workload}.ipynb"

    @property
    def book(self) -> Path:
        """The built book."""
        return self.reports / "book"


def study_paths() -> Paths:
    """Return the paths of the study that the current folder belongs to."""
    return Paths(project_root())

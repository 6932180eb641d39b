"""The root of the project, and the paths of a study."""

from __future__ import annotations

import os
from pathlib import Path

from horizont.config.framework import Device
from horizont.errors import UserError

#: A study has the pipeline and either its settings or the profiles, from which they are written.
PIPELINE, SETTINGS = "dvc.yaml", ("params.yaml", "profiles")


class Paths:
    """The folders and files of a study."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.params = root / "params.yaml"
        self.notebooks = root / "notebooks"  # without outputs
        self.docs = root / "docs"
        self.raw = root / "data" / "raw"  # official archives
        self.prepared_sets = root / "data" / "prepared"
        self.textbook = root / "data" / "textbook"  # results that theory chapters reuse
        self.all_records = root / "records"
        self.reports = root / "reports"  # everything that a study publishes
        self.claims = self.reports / "claims.json"  # verdicts on the published claims
        self.crate = self.reports / "ro-crate-metadata.json"  # describes the reports
        self.executed_notebooks = self.reports / "notebooks"
        self.views = self.reports / "views"  # executed notebooks, too
        self.book = self.reports / "book"
        self.reference = self.reports / "reference"  # packed records, and certificates
        self.reference_pages = self.executed_notebooks / "reference"

    @property
    def quick_comparison(self) -> Paths:
        """The paths of the start notebook's comparisons, apart from those of the study."""
        return Paths(self.root / "data" / "quick_comparison")

    def prepared(self, dataset: str) -> Path:
        """Return the folder of a data set in canonical form."""
        return self.prepared_sets / dataset

    def files(self, dataset: str) -> Path:
        """Return the folder of a data set in its official format, unpacked."""
        return self.root / "data" / "files" / dataset

    def records(self, experiment: str, workload: str) -> Path:
        """Return the folder of the records of an experiment on a workload."""
        return self.all_records / experiment / workload

    def certificate(self, workload: str) -> Path:
        """Return the file of a workload's equivalence certificate."""
        return self.reports / "equivalence" / f"{workload}.json"

    def metrics(self, experiment: str) -> Path:
        """Return the file of an experiment's metrics, by workload, for ``dvc metrics``."""
        return self.reports / "metrics" / f"{experiment}.json"

    def plots(self, experiment: str) -> Path:
        """Return the file of an experiment's loss curves, for ``dvc plots``."""
        return self.reports / "plots" / f"{experiment}.json"

    def pack(self, experiment: str) -> Path:
        """Return the folder of an experiment's packed records."""
        return self.reference / experiment

    def reference_certificate(self, workload: str, device: Device = "cpu") -> Path:
        """Return the compressed certificate of a workload of the reference, made for a device."""
        name = workload if device == "cpu" else f"{workload}+{device}"
        return self.reference / "equivalence" / f"{name}.json.gz"

    def page(
        self, experiment: str, workload: str, view: str = "", *, reference: bool = False
    ) -> Path:
        """Return the executed notebook of an experiment on a workload, or of a view of it.

        That of packed records if it is of the reference.
        """
        plain = self.views if view else self.executed_notebooks
        name = "-".join(filter(None, ["reference" * reference, view, experiment, workload]))
        return (self.reference_pages if reference else plain) / experiment / f"{name}.ipynb"


def study_paths() -> Paths:
    """Return the paths of the study that the current folder belongs to; refuse any other folder.

    Its root is the nearest folder, upwards, that has the files of a study, unless the environment
    variable `HORIZONT_ROOT` names it. Without params.yaml, the folder of the profiles shows it.
    """
    if given := os.environ.get("HORIZONT_ROOT"):
        return Paths(Path(given))
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / PIPELINE).exists() and any((folder / name).exists() for name in SETTINGS):
            return Paths(folder)
    allowed = "a folder of the project, with params.yaml and dvc.yaml"
    raise UserError("folder", str(here), allowed)

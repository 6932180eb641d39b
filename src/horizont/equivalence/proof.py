"""A proof of sameness on disk, and whether it still holds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from horizont.equivalence.compare import Comparison
from horizont.records import read_json, write_json
from horizont.spec import Frozen, validate

FORMAT = 3

#: A comparison as a proof keeps it.
Row = dict[str, Any]


class Proof(Frozen):
    """What the comparator found for one workload.

    Attributes
    ----------
    ground
        What the proof rests on, by name: versions, code, network. A timing row is comparable
        only while its own ground says the same.
    rows
        All comparisons, as plain rows.
    builds
        Other builds of some frameworks that were compared with them: `pytorch+compiled`.
    missing
        Frameworks that are not installed, with the reason.
    """

    format: int = FORMAT
    workload: str
    network: str
    dataset: str
    source: str
    ground: dict[str, str]
    frameworks: tuple[str, ...]
    builds: tuple[str, ...] = ()
    missing: dict[str, str]
    rows: tuple[dict[str, Any], ...]

    @property
    def ok(self) -> bool:
        """Whether every tensor of every pair of frameworks is within its bound, as evidence.

        It is evidence if in float64 all gradients and the updates of at least one step are
        telling. Each build has an answer of its own: see :meth:`stands_for`.
        """
        return _first_failed(self._compared) is None and _is_evidence(self._compared)

    @property
    def _compared(self) -> list[Row]:
        return [row for row in self.rows if "+" not in row["pair"]]

    def _compared_with(self, build: str) -> list[Row]:
        return [row for row in self.rows if row["pair"].endswith(f"-{build}")]

    @property
    def first_departure(self) -> Row | None:
        """The first comparison that fails, in the order in which training computes."""
        return _first_failed(self.rows)

    @property
    def verdict(self) -> str:
        """The finding in a sentence."""
        if not self._compared:
            return "Not settled: fewer than two frameworks are installed."
        row = self.first_departure
        if row is None and not all(map(_is_evidence, self._findings)):
            return "Not settled: rounding alone moves the float64 training too far to compare."
        if row is None:
            return f"The same network: {self._agreement}."
        after = f" after {row['step']} steps" if row["step"] else ""
        return (
            f"Not the same: {row['pair']} depart first at {row['quantity']} {row['tensor']}"
            f"{after} ({row['dtype']}): distance {row['distance']:.1e}, bound {row['bound']:.1e}."
        )

    @property
    def _findings(self) -> list[list[Row]]:
        return [self._compared, *map(self._compared_with, self.builds)]

    @property
    def _agreement(self) -> str:
        pairs = ", ".join(sorted({row["pair"] for row in self.rows}))
        said = f"{pairs} agree on all {len(self.rows)} numbers"
        mute = sum(not row["telling"] for row in self.rows)
        return f"{said}; at {mute} of them rounding alone could hide a mistake" if mute else said

    def stands_for(self, trainer: str, ground: dict[str, str]) -> str:
        """Tell whether a timing of a framework, or of one of its builds, may be compared.

        Returns
        -------
        str
            ``proven``, or ``not comparable: `` with the reason.
        """
        framework, _, build = trainer.partition("+")
        if framework not in self.frameworks:
            return "not comparable: no proof for this framework"
        if build and trainer not in self.builds:
            return "not comparable: no proof for this build"
        if not self.ok:
            return "not comparable: the comparator found a departure"
        own = self._compared_with(trainer)
        if build and (_first_failed(own) or not _is_evidence(own)):
            return "not comparable: the comparator found a departure of this build"
        for name, value in self.ground.items():
            if ground.get(name, value) != value:
                return f"not comparable: the proof is of another {name}"
        return "proven"


def _first_failed(rows: Iterable[Row]) -> Row | None:
    return next((row for row in rows if not row["ok"]), None)


def _is_evidence(rows: Iterable[Row]) -> bool:
    """Tell whether the float64 rows of a comparison would show a mistake."""
    exact = [row for row in rows if row["dtype"] == "float64"]
    gradients = [row["telling"] for row in exact if row["quantity"] == "gradient"]
    steps: dict[int, bool] = {}
    for row in exact:
        if row["quantity"] == "update":
            steps[row["step"]] = steps.get(row["step"], True) and row["telling"]
    return bool(gradients) and all(gradients) and any(steps.values())


def proof_of(comparisons: Iterable[Comparison], **about: Any) -> Proof:
    """Make a proof out of comparisons and what they are about, by the fields of a proof."""
    return Proof(rows=tuple(_plain(row.as_row()) for row in comparisons), **about)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        key: (None if isinstance(value, float) and np.isnan(value) else value)
        for key, value in row.items()
    }


def write_proof(path: Path, proof: Proof) -> None:
    """Write a proof as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, proof.model_dump())


def read_proof(path: Path) -> Proof:
    """Read a proof.

    Raises
    ------
    UserError
        If it is missing or damaged.
    """
    return validate(Proof, read_json(path), str(path))

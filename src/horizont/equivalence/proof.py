"""A proof of sameness on disk, and whether it still holds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from horizont.equivalence.compare import Comparison
from horizont.records import read_json, write_json
from horizont.spec import Frozen, validate

FORMAT = 2


class Proof(Frozen):
    """What the comparator found for one workload.

    Attributes
    ----------
    ground
        What the proof rests on, by name: versions, code, network. A timing row is comparable
        only while its own ground says the same.
    rows
        All comparisons, as plain rows.
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
    missing: dict[str, str]
    rows: tuple[dict[str, Any], ...]

    @property
    def ok(self) -> bool:
        """Whether every tensor of every pair was within its bound, and that is evidence.

        It is, if in float64 all gradients and the updates of at least one step are telling.
        """
        return bool(self.rows) and all(row["ok"] for row in self.rows) and self._is_evidence

    @property
    def _is_evidence(self) -> bool:
        exact = [row for row in self.rows if row["dtype"] == "float64"]
        gradients = [row["telling"] for row in exact if row["quantity"] == "gradient"]
        steps: dict[int, bool] = {}
        for row in exact:
            if row["quantity"] == "update":
                steps[row["step"]] = steps.get(row["step"], True) and row["telling"]
        return bool(gradients) and all(gradients) and any(steps.values())

    @property
    def first_departure(self) -> dict[str, Any] | None:
        """The first comparison that fails, in the order in which training computes."""
        failed = [row for row in self.rows if not row["ok"]]
        return failed[0] if failed else None

    @property
    def verdict(self) -> str:
        """The finding in a sentence."""
        if not self.rows:
            return "Not settled: fewer than two frameworks are installed."
        row = self.first_departure
        if row is None and not self._is_evidence:
            return "Not settled: rounding alone moves the float64 training too far to compare."
        if row is None:
            return f"The same network: {self._agreement}."
        after = f" after {row['step']} steps" if row["step"] else ""
        return (
            f"Not the same: {row['pair']} depart first at {row['quantity']} {row['tensor']}"
            f"{after} ({row['dtype']}): distance {row['distance']:.1e}, bound {row['bound']:.1e}."
        )

    @property
    def _agreement(self) -> str:
        pairs = ", ".join(sorted({row["pair"] for row in self.rows}))
        said = f"{pairs} agree on all {len(self.rows)} numbers"
        mute = sum(not row["telling"] for row in self.rows)
        return f"{said}; at {mute} of them rounding alone could hide a mistake" if mute else said

    def stands_for(self, framework: str, ground: dict[str, str]) -> str:
        """Tell whether a timing of a framework may be compared.

        Returns
        -------
        str
            ``proven``, or ``not comparable: `` with the reason.
        """
        if framework not in self.frameworks:
            return "not comparable: no proof for this framework"
        if not self.ok:
            return "not comparable: the comparator found a departure"
        for name, value in self.ground.items():
            if ground.get(name, value) != value:
                return f"not comparable: the proof is of another {name}"
        return "proven"


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

"""A proof of sameness on disk, and whether it still holds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from horizont.config.base import ConfigModel, parse_config
from horizont.equivalence.compare import Comparison
from horizont.records.files import read_json, write_json

FORMAT = 3

#: A comparison as a proof keeps it.
ComparisonRow = dict[str, Any]


class EquivalenceCertificate(ConfigModel):
    """What the comparator found for one workload.

    Attributes
    ----------
    ground
        What the proof rests on, by name: versions, code, network. A timing row is comparable
        only while its own ground says the same.
    rows
        All comparisons, as plain rows.
    builds
        Other builds of some frameworks that were compared with them: `<framework>+<variant>`.
    missing
        Frameworks that are not installed, with the reason.
    """

    format: int = FORMAT
    workload: str
    network: str
    dataset: str
    source: str
    provenance: dict[str, str]
    frameworks: tuple[str, ...]
    variants: tuple[str, ...] = ()
    missing: dict[str, str]
    rows: tuple[dict[str, Any], ...]

    @property
    def ok(self) -> bool:
        """Whether every tensor of every pair of frameworks is within its bound, as evidence.

        It is evidence if in float64 all gradients and the updates of at least one step are
        telling. Each build has an answer of its own: see :meth:`stands_for`.
        """
        return _first_failed(self._framework_rows) is None and _is_evidence(self._framework_rows)

    @property
    def _framework_rows(self) -> list[ComparisonRow]:
        return [row for row in self.rows if "+" not in row["pair"]]

    def _variant_rows(self, framework_variant: str) -> list[ComparisonRow]:
        return [row for row in self.rows if row["pair"].endswith(f"-{framework_variant}")]

    @property
    def first_divergence(self) -> ComparisonRow | None:
        """The first comparison that fails, in the order in which training computes."""
        return _first_failed(self.rows)

    @property
    def verdict(self) -> str:
        """The finding in a sentence."""
        if not self._framework_rows:
            return "Not settled: fewer than two frameworks are installed."
        row = self.first_divergence
        if row is None and not all(map(_is_evidence, self._row_groups)):
            return "Not settled: rounding alone moves the float64 training too far to compare."
        if row is None:
            return f"The same network: {self._agreement_text}."
        after = f" after {row['step']} steps" if row["step"] else ""
        return (
            f"Not the same: {row['pair']} depart first at {row['quantity']} {row['tensor']}"
            f"{after} ({row['dtype']}): distance {row['distance']:.1e}, bound {row['bound']:.1e}."
        )

    @property
    def _row_groups(self) -> list[list[ComparisonRow]]:
        return [self._framework_rows, *map(self._variant_rows, self.variants)]

    @property
    def _agreement_text(self) -> str:
        pairs = ", ".join(sorted({row["pair"] for row in self.rows}))
        said = f"{pairs} agree on all {len(self.rows)} numbers"
        mute = sum(not row["is_evidence"] for row in self.rows)
        return f"{said}; at {mute} of them rounding alone could hide a mistake" if mute else said

    def status_for(self, framework_variant: str, provenance: dict[str, str]) -> str:
        """Tell whether a timing of a framework, or of one of its builds, may be compared.

        Returns
        -------
        str
            ``verified``, or ``not comparable: `` with the reason.
        """
        framework, _, build = framework_variant.partition("+")
        if framework not in self.frameworks:
            return "not comparable: no proof for this framework"
        if build and framework_variant not in self.variants:
            return "not comparable: no proof for this build"
        if not self.ok:
            return "not comparable: the comparator found a departure"
        own = self._variant_rows(framework_variant)
        if build and (_first_failed(own) or not _is_evidence(own)):
            return "not comparable: the comparator found a departure of this build"
        for name, value in self.provenance.items():
            if provenance.get(name, value) != value:
                return f"not comparable: the proof is of another {name}"
        return "verified"


def _first_failed(rows: Iterable[ComparisonRow]) -> ComparisonRow | None:
    return next((row for row in rows if not row["ok"]), None)


def _is_evidence(rows: Iterable[ComparisonRow]) -> bool:
    """Tell whether the float64 rows of a comparison would show a mistake."""
    exact = [row for row in rows if row["dtype"] == "float64"]
    gradients = [row["is_evidence"] for row in exact if row["quantity"] == "gradient"]
    steps: dict[int, bool] = {}
    for row in exact:
        if row["quantity"] == "update":
            steps[row["step"]] = steps.get(row["step"], True) and row["is_evidence"]
    return bool(gradients) and all(gradients) and any(steps.values())


def make_certificate(comparisons: Iterable[Comparison], **fields: Any) -> EquivalenceCertificate:
    """Make a proof out of comparisons and what they are about, by the fields of a proof."""
    return EquivalenceCertificate(
        rows=tuple(_nan_to_none(row.as_row()) for row in comparisons), **fields
    )


def _nan_to_none(row: dict[str, Any]) -> dict[str, Any]:
    return {
        key: (None if isinstance(value, float) and np.isnan(value) else value)
        for key, value in row.items()
    }


def write_certificate(path: Path, certificate: EquivalenceCertificate) -> None:
    """Write a proof as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, certificate.model_dump())


def read_certificate(path: Path) -> EquivalenceCertificate:
    """Read a proof.

    Raises
    ------
    UserError
        If it is missing or damaged.
    """
    return parse_config(EquivalenceCertificate, read_json(path), str(path))

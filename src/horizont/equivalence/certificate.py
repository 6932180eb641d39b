"""The certificate of equivalence: what the comparator found, and whether it is still valid."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from horizont.config.base import ConfigModel, parse_config
from horizont.equivalence.compare import Comparison
from horizont.errors import UserError
from horizont.records.files import read_json, write_json

#: Certificates of another format are not read; `horizont verify` writes a new one.
FORMAT = 4

#: The fields of a comparison.
ComparisonRow = dict[str, Any]


class EquivalenceCertificate(ConfigModel):
    """The comparisons of a workload.

    Attributes
    ----------
    source
        Where the data set comes from: the official files, or a synthetic stand-in.
    provenance
        What the certificate depends on, by name: versions, code, network. It is valid for runs of
        the same provenance only.
    variants
        Variants of frameworks that were compared with them: `<framework>+<variant>`.
    missing
        Frameworks that could not be compared, with the reason.
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
        """Whether every tensor of every pair of frameworks is within its bound, with evidence.

        Evidence requires that in float64 all gradients and the updates of at least one step are
        evidence. Variants are judged separately: see :meth:`status_for`.
        """
        return _first_failed(self._framework_rows) is None and _is_evidence(self._framework_rows)

    @property
    def _framework_rows(self) -> list[ComparisonRow]:
        return [row for row in self.rows if "+" not in row["pair"]]

    def _variant_rows(self, framework_variant: str) -> list[ComparisonRow]:
        return [row for row in self.rows if row["pair"].endswith(f"-{framework_variant}")]

    @property
    def first_divergence(self) -> ComparisonRow | None:
        """The first comparison out of bounds, in the order in which training computes."""
        return _first_failed(self.rows)

    @property
    def verdict(self) -> str:
        """The result in a sentence."""
        if not self._framework_rows:
            return "Not settled: fewer than two frameworks are installed."
        row = self.first_divergence
        compared = [self._framework_rows, *map(self._variant_rows, self.variants)]
        if row is None and not all(map(_is_evidence, compared)):
            return "Not settled: rounding alone changes the float64 training too much to compare."
        if row is None:
            return f"Equivalent: {self._agreement()}."
        after = f" after {row['step']} steps" if row["step"] else ""
        return (
            f"Not equivalent: {row['pair']} diverge first at {row['quantity']} {row['tensor']}"
            f"{after} ({row['dtype']}): distance {row['distance']:.1e}, bound {row['bound']:.1e}."
        )

    def _agreement(self) -> str:
        pairs = ", ".join(sorted({row["pair"] for row in self.rows}))
        agreement = f"{pairs} agree on all {len(self.rows)} tensors"
        without_evidence = sum(not row["is_evidence"] for row in self.rows)
        if not without_evidence:
            return agreement
        return f"{agreement}; in {without_evidence} of them rounding alone could hide a defect"

    def status_for(self, framework_variant: str, provenance: dict[str, str]) -> str:
        """Return whether runs of a framework, or of one of its variants, can be compared.

        Returns
        -------
        str
            ``verified``, or ``not comparable: `` with the reason.
        """
        framework, _, variant = framework_variant.partition("+")
        if framework not in self.frameworks:
            return "not comparable: no certificate for this framework"
        if variant and framework_variant not in self.variants:
            return "not comparable: no certificate for this variant"
        if not self.ok:
            return "not comparable: the comparator found a divergence"
        rows = self._variant_rows(framework_variant)
        if variant and (_first_failed(rows) or not _is_evidence(rows)):
            return "not comparable: the comparator found a divergence of this variant"
        for name, value in self.provenance.items():
            # A run depends on less than a certificate: what it does not name cannot differ.
            if provenance.get(name, value) != value:
                return f"not comparable: the certificate is of another {name}"
        return "verified"


def _first_failed(rows: Iterable[ComparisonRow]) -> ComparisonRow | None:
    return next((row for row in rows if not row["ok"]), None)


def _is_evidence(rows: Iterable[ComparisonRow]) -> bool:
    """Whether the float64 comparisons would show a defect."""
    float64_rows = [row for row in rows if row["dtype"] == "float64"]
    gradients = [row["is_evidence"] for row in float64_rows if row["quantity"] == "gradient"]
    steps: dict[int, bool] = {}
    for row in float64_rows:
        if row["quantity"] == "update":
            steps[row["step"]] = steps.get(row["step"], True) and row["is_evidence"]
    return bool(gradients) and all(gradients) and any(steps.values())


def make_certificate(comparisons: Iterable[Comparison], **fields: Any) -> EquivalenceCertificate:
    """Return a certificate of comparisons; `fields` are its other fields."""
    return EquivalenceCertificate(rows=tuple(row.as_row() for row in comparisons), **fields)


def write_certificate(path: Path, certificate: EquivalenceCertificate) -> None:
    """Write a certificate as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, certificate.model_dump())


def read_certificate(path: Path) -> EquivalenceCertificate:
    """Read a certificate.

    Raises
    ------
    UserError
        If it is missing, damaged or of another format.
    """
    values = read_json(path)
    if values.get("format") != FORMAT:
        allowed = f"{FORMAT}; `horizont verify` writes a new certificate"
        raise UserError(f"{path}: format", values.get("format"), allowed)
    return parse_config(EquivalenceCertificate, values, str(path))

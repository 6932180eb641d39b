"""The certificate of equivalence: what the comparator found, and whether it is still valid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from horizont.config.base import ConfigModel, parse_config
from horizont.config.system import float32_rounding
from horizont.equivalence.compare import CHECKS, Comparison
from horizont.equivalence.evidence import evidence_gaps
from horizont.errors import UserError
from horizont.records.files import read_json, write_json

#: Certificates of another format are not read; `horizont verify` writes a new one.
FORMAT = 6

#: The fields of a comparison.
ComparisonRow = dict[str, Any]

#: What a failed check of a trainer means.
_FINDINGS = {
    "finite": "Not finite: {subject} has infinite numbers or NaN in {where}",
    "repeat": "Not deterministic: {subject} does not repeat its own training; {where}",
    "noise": "Not equivalent: rounding changes {subject} far more than the others at {where}",
    "precision": "Not equivalent: {subject} computes in reduced precision: {where}",
    "rows": "Not equivalent: {subject} mixes the rows of a batch: {where}",
    "reference": "Not equivalent: {subject} differs from NumPy at {where}",
    "frameworks": "Not equivalent: {pair} diverge first at {where}",
    "variant": "Not equivalent: {pair} diverge first at {where}",
    "instrumented": "Not equivalent: instrumented steps of {subject} train differently: {where}",
    "profiled": "Not equivalent: profiled steps of {subject} train differently: {where}",
}


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
    timed_batches
        The batch sizes of the study with which a step was compared.
    learning_rates
        The learning rates of the study, except that of the workload, with which a step was
        compared.
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
    timed_batches: tuple[int, ...] = ()
    learning_rates: tuple[float, ...] = ()
    missing: dict[str, str]
    rows: tuple[dict[str, Any], ...]

    @property
    def ok(self) -> bool:
        """Whether the frameworks pass all checks, with evidence for all that matters.

        Variants are judged separately: see :meth:`status_for`.
        """
        rows = self._framework_rows
        return first_failed(rows) is None and not evidence_gaps(rows)

    @property
    def _framework_rows(self) -> list[ComparisonRow]:
        return [row for row in self.rows if row["subject"] in ("", *self.frameworks)]

    def _variant_rows(self, trainer: str) -> list[ComparisonRow]:
        return [row for row in self.rows if row["subject"] == trainer]

    @property
    def first_divergence(self) -> ComparisonRow | None:
        """The failed comparison that is closest to the defect.

        It is the first failed check in the order of `CHECKS`, and of this the first comparison in
        the order in which training computes.
        """
        return first_failed(self.rows)

    @property
    def differing_framework(self) -> str:
        """The framework that differs from all others at the first divergence, while these agree.

        It is empty if there is none such.
        """
        divergence = self.first_divergence
        if divergence is None or divergence["check"] != "frameworks":
            return ""
        where = ("check", "dtype", "quantity", "step", "tensor")
        same = [row for row in self.rows if all(row[name] == divergence[name] for name in where)]
        candidates = [
            name
            for name in self.frameworks
            if all((name in row["pair"].split("-")) != row["ok"] for row in same)
        ]
        return candidates[0] if len(candidates) == 1 else ""

    @property
    def mute_share(self) -> float:
        """The share of comparisons in which rounding alone could hide a defect."""
        return sum(not row["is_evidence"] for row in self.rows) / max(1, len(self.rows))

    @property
    def loss_bound(self) -> float:
        """The largest relative difference of float32 losses that rounding explains in training.

        Variants that round more than float32 do not count.
        """
        bounds = [
            row["bound"]
            for row in self.rows
            if (row["quantity"], row["dtype"]) == ("step_loss", "float32")
            and float32_rounding(row["subject"]) == 1
        ]
        return max(bounds, default=float("inf"))

    @property
    def verdict(self) -> str:
        """The result in a sentence."""
        if len(self.frameworks) < 2 or not self.rows:
            return "Not settled: fewer than two frameworks are installed."
        row = self.first_divergence
        if row is not None:
            where = f"{row['quantity']} {row['tensor']}{self._after(row)} ({row['dtype']})"
            finding = _FINDINGS[row["check"]].format(**row, where=where)
            if row["check"] in ("finite", "precision"):
                return f"{finding}."
            return f"{finding}: distance {row['distance']:.1e}, bound {row['bound']:.1e}."
        compared = [self._framework_rows, *map(self._variant_rows, self.variants)]
        if gaps := [gap for rows in compared for gap in evidence_gaps(rows)]:
            more = f" and {len(gaps) - 1} more" if len(gaps) > 1 else ""
            return f"Not settled: rounding alone could hide a defect in {gaps[0]}{more}."
        return f"Equivalent: {self._agreement()}."

    def _after(self, row: ComparisonRow) -> str:
        """Return the step of a comparison as a phrase."""
        if row["quantity"] == "batch":
            return f" of a batch of {row['step']}"
        if row["quantity"] == "rate":
            return f" at learning rate {self.learning_rates[row['step'] - 1]:g}"
        return f" after {row['step']} steps" if row["step"] else ""

    def _agreement(self) -> str:
        trainers = ", ".join([*self.frameworks, *self.variants])
        agreement = f"{trainers} pass all {len(self.rows)} comparisons"
        if not self.mute_share:
            return agreement
        return f"{agreement}; in {self.mute_share:.1%} of them rounding alone could hide a defect"

    def status_for(self, trainer: str, provenance: dict[str, str]) -> str:
        """Return whether runs of a framework, or of one of its variants, can be compared.

        Returns
        -------
        str
            ``verified``, or ``not comparable: `` with the reason.
        """
        reason = self._reason_against(trainer) or self._outdated(provenance)
        return f"not comparable: {reason}" if reason else "verified"

    def _reason_against(self, trainer: str) -> str:
        """Return why the certificate does not cover a trainer; "" if it does."""
        framework, _, variant = trainer.partition("+")
        if framework not in self.frameworks:
            return "no certificate for this framework"
        if variant and trainer not in self.variants:
            return "no certificate for this variant"
        for rows, of_what in (
            (self._framework_rows, ""),
            (self._variant_rows(trainer) if variant else self._framework_rows, " of this variant"),
        ):
            if first_failed(rows):
                return f"the comparator found a divergence{of_what}"
            if evidence_gaps(rows):
                return f"rounding alone could hide a divergence{of_what}"
        return ""

    def _outdated(self, provenance: dict[str, str]) -> str:
        """Return what has changed since; a run depends on less than a certificate."""
        changed = [
            name for name, value in self.provenance.items() if provenance.get(name, value) != value
        ]
        return f"the certificate is of another {' and '.join(changed)}" if changed else ""


def first_failed(rows: Sequence[ComparisonRow]) -> ComparisonRow | None:
    """Return the first failed comparison of the first failed check."""
    failed = [row for row in rows if not row["ok"]]
    return min(failed, key=lambda row: CHECKS.index(row["check"]), default=None)


def make_certificate(comparisons: Iterable[Comparison], **fields: Any) -> EquivalenceCertificate:
    """Return a certificate of comparisons; `fields` are its other fields."""
    return EquivalenceCertificate(rows=tuple(row.as_row() for row in comparisons), **fields)


def write_certificate(path: Path, certificate: EquivalenceCertificate) -> None:
    """Write a certificate as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, certificate.model_dump())


def read_certificate(path: Path) -> EquivalenceCertificate:
    """Read a certificate; refuse one that is missing, damaged or of another format."""
    return parse_certificate(read_json(path), path)


def parse_certificate(values: Any, path: Path) -> EquivalenceCertificate:
    """Return the certificate with the content of a file; refuse one of another format."""
    remedy = "`horizont verify` writes a new certificate"
    if not isinstance(values, dict):
        raise UserError(str(path), values, f"a mapping; {remedy}")
    if values.get("format") != FORMAT:
        raise UserError(f"{path}: format", values.get("format"), f"{FORMAT}; {remedy}")
    return parse_config(EquivalenceCertificate, values, str(path))

"""The report of a comparison: what was paired, what diverges, what repairs it, and a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from horizont.modeldiff.distances import Difference
from horizont.modeldiff.repairs import Candidate
from horizont.modeldiff.search import Cause

#: Exit statuses of the command line.
SAME, NOT_THE_SAME, UNKNOWN, WRONG_USE = 0, 1, 2, 3

#: How many causes, and how many names of layers, are printed.
_SHOWN = 8
_NAMES = 3


@dataclass(frozen=True)
class Agreement:
    """How many tensors agree with all repairs."""

    what: str
    differences: tuple[Difference, ...]

    @property
    def agreeing(self) -> int:
        """Number of tensors within their bounds."""
        return sum(not each.exceeds for each in self.differences)

    @property
    def largest(self) -> float:
        """The largest distance."""
        return max((each.distance for each in self.differences), default=0.0)

    def __str__(self) -> str:
        number = len(self.differences)
        return (
            f"{self.what}: {self.agreeing} of {number} tensors agree, "
            f"the largest distance is {self.largest:.2g}"
        )


@dataclass(frozen=True)
class Report:
    """What a comparison found.

    Attributes
    ----------
    first
        The first output that diverges, without repairs.
    repairs
        Causes with their repairs, in the order of what they explain.
    unexplained
        What diverges with all repairs.
    without_effect
        Settings that differ, and change no tensor here.
    accepted
        Causes that do not count, by `Candidate.what`.
    unknown
        Why there is no verdict, in a sentence; empty if there is one.
    """

    a: str
    b: str
    versions: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
    batch: str = ""
    pairs: int = 0
    ties: int = 0
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    first: Difference | None = None
    repairs: tuple[Cause, ...] = ()
    unexplained: tuple[Difference, ...] = ()
    without_effect: tuple[Candidate, ...] = ()
    agreements: tuple[Agreement, ...] = ()
    accepted: tuple[str, ...] = ()
    changed: str = "A"
    unknown: str = ""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    peak_bytes: int = field(default=0)

    @property
    def causes(self) -> list[Cause]:
        """Causes that count."""
        return [each for each in self.repairs if each.candidate.what not in self.accepted]

    @property
    def status(self) -> int:
        """The exit status."""
        if self.unknown:
            return UNKNOWN
        is_same = not (self.causes or self.unexplained or self.only_a or self.only_b)
        return SAME if is_same else NOT_THE_SAME

    @property
    def verdict(self) -> str:
        """The answer in a line."""
        if self.unknown:
            return f"no verdict: {self.unknown}"
        if self.status == SAME:
            accepted = len(self.repairs)
            apart = f", apart from {_count(accepted, 'accepted difference')}" if accepted else ""
            return f"the same{apart}"
        parts = []
        if alone := len(self.only_a) + len(self.only_b):
            what = "layer or tensor" if alone == 1 else "layers or tensors"
            parts.append(f"{alone} {what} of one side alone")
        if number := len(self.causes):
            framework = sum(each.candidate.of_framework for each in self.causes)
            by = f" ({framework} by definition of the frameworks)" if framework else ""
            every = ", all" if number > 1 and not self.unexplained else ""
            parts.append(f"{_count(number, 'difference')}{every} explained{by}")
        if self.unexplained:
            parts.append(f"{_count(len(self.unexplained), 'tensor')} unexplained")
        return f"not the same: {', '.join(parts)}"

    def lines(self) -> list[str]:
        """Return the report for a terminal, in at most 25 lines."""
        found = [_side("A", self.a, self.versions[0]), _side("B", self.b, self.versions[1])]
        if self.pairs:
            ties = f", {_count(self.ties, 'tie')}" if self.ties else ""
            found.append(f"{_count(self.pairs, 'pair')} of layers{ties}; batch {self.batch}")
        for label, names in (("A", self.only_a), ("B", self.only_b)):
            if names:
                found.append(f"only {label} has {_names(names)}")
        if self.first is not None:
            first = self.first
            found.append(
                f"as they are, the {_tensor(first)} diverges first: distance {first.distance:.2g}, "
                f"rounding explains {first.bound:.2g}"
            )
        elif self.agreements:
            found.append("as they are, no output diverges in evaluation")
        if self.repairs:
            found.append(f"what repairs {self.changed}, and the first tensor that it repairs:")
        found += [_cause(n, each) for n, each in enumerate(self.repairs[:_SHOWN], 1)]
        if len(self.repairs) > _SHOWN:
            found.append(f"  and {len(self.repairs) - _SHOWN} more")
        if self.agreements:
            with_all = "with all repairs, " if self.repairs else ""
            found += [f"{with_all}{each}" for each in self.agreements]
        if self.unexplained:
            found.append(f"unexplained: {_unexplained(self.unexplained)}")
        if self.without_effect:
            counts = "; ".join(str(each) for each in self.without_effect[:_NAMES])
            found.append(f"differs without an effect here: {counts}")
        found += self.notes[:2]
        found.append(f"verdict: {self.verdict}")
        if self.seconds:
            found.append(f"{self.seconds:.0f} s, {self.peak_bytes / 2**30:.2g} GiB of memory")
        return found

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def to_json(self) -> dict[str, Any]:
        """Return everything as values of JSON."""
        return {**asdict(self), "status": self.status, "verdict": self.verdict}


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more


def _side(label: str, text: str, versions: Mapping[str, str]) -> str:
    known = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{label}  {text}" + (f" ({known})" if known else "")


def _tensor(difference: Difference) -> str:
    """Name a tensor in words."""
    role = f" of the {difference.role}" if difference.role else ""
    where = f" of {difference.layer}" if difference.layer else ""
    return f"{difference.quantity}{role}{where}"


def _cause(number: int, cause: Cause) -> str:
    first = cause.explained[0]
    change = f"{first.distance:.2g} without, {cause.repaired.distance:.2g} with it"
    return f"  {number}. {cause.candidate}; {_tensor(first)}: {change}"


def _unexplained(found: Sequence[Difference]) -> str:
    kinds = Counter(each.quantity for each in found)
    counts = ", ".join(f"{number} of {kind}" for kind, number in kinds.items())
    first = found[0]
    return (
        f"{_tensor(first)} first, distance {first.distance:.2g}, bound {first.bound:.2g} ({counts})"
    )

"""The report of a comparison: what was paired, what diverges, what repairs it, and a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from math import isinf, log10, nan
from typing import Any

import pandas as pd

from horizont.modeldiff.distances import Difference
from horizont.modeldiff.left_out import LeftOut
from horizont.modeldiff.repairs import Candidate
from horizont.modeldiff.search import Cause
from horizont.modeldiff.timing import Timing
from horizont.wording import counted

#: What a table calls the output of the whole model.
RESULT = "result"

#: Exit statuses of the command line.
SAME, NOT_THE_SAME, UNKNOWN, WRONG_USE = 0, 1, 2, 3

#: What is accepted if a graph may have other weights than the model.
WEIGHTS = "weights"

#: A note that explains all that remains unexplained in float64.
IN_SINGLE_PRECISION = (
    "all tensors agree in float32, and no distance in float64 is larger than its rounding: a layer "
    "of one side computes in single precision"
)

#: How many causes, and how many names of layers, are printed.
_SHOWN, _SHOWN_WITH_TIMES = 7, 2
_NAMES = 3


@dataclass(frozen=True)
class Agreement:
    """How many tensors agree with all repairs.

    One that rounding or random numbers alone may move as far cannot be compared.
    """

    what: str
    differences: tuple[Difference, ...]

    @property
    def agreeing(self) -> int:
        """Number of tensors within their bounds."""
        return sum(not each.exceeds for each in self._compared)

    @property
    def largest(self) -> float:
        """The largest distance."""
        return max((each.distance for each in self._compared), default=0.0)

    @property
    def _compared(self) -> list[Difference]:
        return [each for each in self.differences if each.exceeds or not each.is_mute]

    def __str__(self) -> str:
        number, moved = len(self.differences), len(self.differences) - len(self._compared)
        sentence = f"{self.what}: {self.agreeing} of {number} tensors agree"
        if moved < number:
            sentence += f", the largest distance is {self.largest:.2g}"
        return sentence + (f"; {moved} cannot be compared" if moved else "")


@dataclass(frozen=True)
class PairedLayer:
    """A layer of the side that is changed, with its partner, and the code of both."""

    layer: str
    partner: str
    kind: str
    code: str
    partner_code: str

    @property
    def lines_of_code(self) -> str:
        """File and line of both, without the folders."""
        return ", ".join(each.rpartition("/")[2] for each in (self.code, self.partner_code) if each)


@dataclass(frozen=True, repr=False)
class Report:
    """What a comparison found.

    Attributes
    ----------
    layers
        All pairs of layers, in the order of execution.
    outputs
        The distances of all outputs, without repairs.
    repairs
        Causes with their repairs, in the order of what they explain.
    unexplained
        What diverges with all repairs.
    without_effect
        Settings that differ, and change no tensor here.
    accepted
        Causes that do not count, by `Candidate.what`; other weights by `WEIGHTS`.
    has_other_weights
        Whether a graph has other weights than the model of the other side.
    unknown
        Why there is no verdict, in a sentence; empty if there is one.
    left_out
        What differs and was not compared.
    script
        What became of the program that shows the first difference, in a sentence.
    timing
        Times of both models as they are; None if they were not asked for.
    """

    a: str
    b: str
    versions: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
    batch: str = ""
    pairs: int = 0
    ties: int = 0
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    layers: tuple[PairedLayer, ...] = ()
    outputs: tuple[Difference, ...] = ()
    repairs: tuple[Cause, ...] = ()
    unexplained: tuple[Difference, ...] = ()
    without_effect: tuple[Candidate, ...] = ()
    agreements: tuple[Agreement, ...] = ()
    accepted: tuple[str, ...] = ()
    has_other_weights: bool = False
    changed: str = "A"
    unknown: str = ""
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    script: str = ""
    timing: Timing | None = None
    seconds: float = 0.0
    peak_bytes: int = field(default=0)

    @property
    def first(self) -> Difference | None:
        """The first output that diverges, without repairs; None if all agree."""
        return next((each for each in self.outputs if each.exceeds), None)

    @property
    def causes(self) -> list[Cause]:
        """Causes that count."""
        return [each for each in self.repairs if each.candidate.what not in self.accepted]

    @property
    def _weights_count(self) -> bool:
        """Whether other weights are a difference that counts."""
        return self.has_other_weights and WEIGHTS not in self.accepted

    @property
    def status(self) -> int:
        """The exit status."""
        if self.unknown:
            return UNKNOWN
        found = self.causes, self.unexplained, self.only_a, self.only_b, self._weights_count
        return NOT_THE_SAME if any(found) else SAME

    @property
    def is_comparable(self) -> bool:
        """Whether the times of both models can be compared: all differences are explained."""
        return not (self.unknown or self.unexplained or self.only_a or self.only_b)

    @property
    def verdict(self) -> str:
        """The answer in a line."""
        if self.unknown:
            return f"no verdict: {self.unknown}"
        if self.status == SAME:
            accepted = len(self.repairs) + self.has_other_weights
            apart = f", apart from {counted(accepted, 'accepted difference')}" if accepted else ""
            trained = any(each.what.startswith("training") for each in self.agreements)
            apart += (
                f", {' and '.join(each.what for each in self.left_out)} not compared"
                if self.left_out
                else ""
            )
            return f"the same{'' if trained or not self.agreements else ' in evaluation'}{apart}"
        parts = []
        if alone := len(self.only_a) + len(self.only_b):
            what = "layer or tensor" if alone == 1 else "layers or tensors"
            parts.append(f"{alone} {what} of one side alone")
        if number := len(self.causes):
            framework = sum(each.candidate.of_framework for each in self.causes)
            by = f" ({framework} by definition of the frameworks)" if framework else ""
            every = ", all" if number > 1 and not self.unexplained else ""
            parts.append(f"{counted(number, 'difference')}{every} explained{by}")
        if self.unexplained:
            parts.append(f"{counted(len(self.unexplained), 'tensor')} unexplained")
        if self._weights_count:
            parts.append(f"other weights (--accept {WEIGHTS} if they may differ)")
        return f"not the same: {', '.join(parts)}"

    def lines(self) -> list[str]:
        """Return the report for a terminal, in at most 25 lines."""
        found = [_side("A", self.a, self.versions[0]), _side("B", self.b, self.versions[1])]
        if self.pairs:
            ties = f", {counted(self.ties, 'tie')}" if self.ties else ""
            found.append(f"{counted(self.pairs, 'pair')} of layers{ties}; batch {self.batch}")
        for label, names in (("A", self.only_a), ("B", self.only_b)):
            if names:
                found.append(f"only {label} has {named(names)}")
        if self.first is not None:
            first = self.first
            found.append(
                f"as they are, the {named_tensor(first)} diverges first: "
                f"distance {first.distance:.2g}, rounding explains {first.bound:.2g}"
            )
        elif self.agreements:
            found.append("as they are, no output diverges in evaluation")
        causes, notes = (_SHOWN, 2) if self.timing is None else (_SHOWN_WITH_TIMES, 1)
        found += self._cause_lines(causes)
        if self.agreements:
            with_all = "with all repairs, " if self.repairs else ""
            found += [f"{with_all}{each}" for each in self.agreements]
        if self.unexplained:
            found.append(f"unexplained: {_unexplained(self.unexplained)}")
        if self.without_effect:
            counts = "; ".join(str(each) for each in self.without_effect[:_NAMES])
            found.append(f"differs without an effect here: {counts}")
        left_out = ["; ".join(map(str, self.left_out))] if self.left_out else []
        found += [*left_out, *self.notes[: notes - len(left_out)]]
        here = {WEIGHTS, *(each.candidate.what for each in self.repairs)}
        if unused := [each for each in self.accepted if each not in here]:
            known = f"differences here are named {', '.join(sorted(here))}"
            found.append(f"accepted, but not found: {', '.join(unused)}; {known}")
        found.append(self.verdict if self.unknown else f"verdict: {self.verdict}")
        if self.timing is not None:
            found += self.timing.lines()
            if not self.is_comparable:
                found.append(
                    "  these times are not comparable: the models compute different things"
                )
        if self.seconds:
            found.append(f"{self.seconds:.0f} s, {self.peak_bytes / 2**30:.2g} GiB of memory")
        return found

    def _cause_lines(self, shown: int) -> list[str]:
        if not self.repairs:
            return []
        head = f"what repairs {self.changed}, and the first tensor that it repairs:"
        code = {each.layer: each.lines_of_code for each in self.layers}
        found = [head]
        for number, each in enumerate(self.repairs[:shown], 1):
            layer = next(iter(each.candidate.layers), "")
            created = f" ({lines})" if (lines := code.get(layer)) else ""
            found.append(f"  {number}. {each.candidate}{created}; {_effect(each)}")
        if len(self.repairs) > shown:
            found.append(f"  and {len(self.repairs) - shown} more")
        return found

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def table(self) -> pd.DataFrame:
        """List the outputs of the layers in the order of execution, and the result.

        With ``distance`` as both models are, ``repaired`` with all repairs, and the ``bound``.
        """
        evaluation = self.agreements[0].differences if self.agreements else ()
        repaired = {each.key: each for each in evaluation}
        rows = [
            {
                "layer": each.layer or RESULT,
                "distance": each.distance,
                "repaired": repaired[each.key].distance if each.key in repaired else nan,
                "bound": each.bound,
            }
            for each in self.outputs
        ]
        return pd.DataFrame(rows, columns=["layer", "distance", "repaired", "bound"])

    def _repr_html_(self) -> str:
        """Show the lines and, coloured by the ratio of distance and bound, the table."""
        table = self.table()

        def colours(column: pd.Series) -> list[str]:
            return [shade(value / bound) for value, bound in zip(column, table.bound, strict=True)]

        styled = table.style.hide(axis="index").format(precision=2, na_rep="–")
        styled = styled.format("{:.2g}", subset=["distance", "repaired", "bound"], na_rep="–")
        styled = styled.apply(colours, subset=["distance", "repaired"])
        return f"<pre>{escape(str(self))}</pre>{styled.to_html()}"

    def to_json(self) -> dict[str, Any]:
        """Return everything as values of JSON."""
        values = asdict(replace(self, timing=None))
        first = asdict(self.first) if self.first else None
        timing = self.timing.to_json() if self.timing else None
        own = {"first": first, "timing": timing, "status": self.status, "verdict": self.verdict}
        return {**values, **own}


def shade(ratio: float) -> str:
    """Return the style of a distance: the more beyond its bound, the darker; none below it."""
    if not ratio > 1.0:
        return ""
    opacity = min(0.15 + 0.06 * log10(ratio), 0.6)
    return f"background-color: rgba(213, 94, 0, {opacity:.2f})"


def named(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more


def listed(versions: Mapping[str, str]) -> str:
    """Return names and versions in a line."""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _side(label: str, text: str, versions: Mapping[str, str]) -> str:
    known = listed(versions)
    return f"{label}  {text}" + (f" ({known})" if known else "")


def named_tensor(difference: Difference) -> str:
    """Name a tensor in words."""
    if difference.quantity == RESULT and difference.layer:
        return f"{RESULT} {difference.layer}"
    role = f" of the {difference.role}" if difference.role else ""
    where = f" of {difference.layer}" if difference.layer else ""
    return f"{difference.quantity}{role}{where}"


def _effect(cause: Cause) -> str:
    if cause.repaired is None:
        return "disabled on both sides here"
    first = cause.explained[0]
    before = "another shape" if isinf(first.distance) else f"{first.distance:.2g}"
    return f"{named_tensor(first)}: {before} without, {cause.repaired.distance:.2g} with it"


def _unexplained(found: Sequence[Difference]) -> str:
    kinds = Counter(each.quantity for each in found)
    counts = ", ".join(f"{number} of {kind}" for kind, number in kinds.items())
    first = found[0]
    return (
        f"{named_tensor(first)} first, distance {first.distance:.2g}, "
        f"bound {first.bound:.2g} ({counts})"
    )

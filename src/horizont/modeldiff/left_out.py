"""What a comparison leaves out although the models differ in it: dropout, precision, results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from horizont.modeldiff.pairing import Pair
from horizont.modeldiff.recording import Side
from horizont.modeldiff.repairs import Candidate
from horizont.wording import counted


@dataclass(frozen=True)
class LeftOut:
    """A difference that was seen and not compared: its name, and a sentence."""

    what: str
    text: str

    def __str__(self) -> str:
        return self.text


def left_out(
    a: Side, b: Side, further_results: int, in_single: Sequence[str]
) -> tuple[LeftOut, ...]:
    """List what differs and is not compared, as far as the recorders know it.

    Parameters
    ----------
    further_results
        How many results beside the first one were compared.
    in_single
        Layers whose input one side computes in single precision.
    """
    first, second = sorted((a, b), key=lambda side: side.name)
    return (
        *_dropout(first, second),
        *_precision(first, second),
        *_results(first, second, further_results),
        *_unused(first, second),
        *_double_precision(in_single),
    )


def conversions(a: Side, b: Side) -> list[str]:
    """List what a checkpoint of one side needs to be one of the other."""
    numbers = {side.name: len(side.facts.get("plus one", ())) for side in (a, b)}
    if len(set(numbers.values())) == 1:
        return []
    text = " and ".join(f"{counted(number, 'norm')} of {name}" for name, number in numbers.items())
    return [f"{text} multiply by their weight plus one: a checkpoint has to be converted"]


def dropout_in_evaluation(a: Side, b: Side, pairs: Sequence[Pair]) -> list[Candidate]:
    """List dropout that only one side disables in evaluation; a comparison disables it on both."""
    found = [side.facts.get("dropout in evaluation", []) for side in (a, b)]
    rates = [[rate for rate, _ in each] for each in found]
    if Counter(rates[0]) == Counter(rates[1]):
        return []
    own_names = {pair.b.name: pair.a.name for pair in pairs}
    layers = [name for _, name in found[0]] + [own_names.get(name, "") for _, name in found[1]]
    names = tuple(dict.fromkeys(filter(None, layers)))
    own, other = map(_rates, rates)
    return [Candidate("dropout in evaluation before a layer", own, other, names, ())]


def _dropout(a: Side, b: Side) -> Iterator[LeftOut]:
    if "dropout" not in a.facts or "dropout" not in b.facts:
        return
    if Counter(a.facts["dropout"]) != Counter(b.facts["dropout"]):
        texts = [f"{_rates(side.facts['dropout'])} in {side.name}" for side in (a, b)]
        yield LeftOut("dropout", f"dropout is disabled; its layers differ: {', '.join(texts)}")


def _rates(rates: Sequence[float]) -> str:
    """Return `0.5, 0.1 (3 layers)`."""
    return ", ".join(
        f"{rate:g}" + (f" ({counted(number, 'layer')})" if number > 1 else "")
        for rate, number in Counter(rates).items()
    ) or "none"  # fmt: skip


def _precision(a: Side, b: Side) -> Iterator[LeftOut]:
    own = [sorted(name for name in side.facts.get("types", ()) if "16" in name) for side in (a, b)]
    if own[0] != own[1]:
        texts = [
            f"{' and '.join(names) or 'none'} in {side.name}"
            for names, side in zip(own, (a, b), strict=True)
        ]
        text = f"parameters with 16 bits are converted, and differ: {', '.join(texts)}"
        yield LeftOut("precision", text)


def _results(a: Side, b: Side, compared: int) -> Iterator[LeftOut]:
    numbers = {side.name: len(side.facts["results"]) for side in (a, b) if "results" in side.facts}
    if max(numbers.values(), default=1) > compared + 1:
        text = ", ".join(f"{number} in {name}" for name, number in numbers.items())
        named = [
            f"{side.facts['results'][0] or 'the only one'} of {side.name}"
            for side in (a, b)
            if side.facts.get("results")
        ]
        which = f"{compared + 1} in the same place" if compared else " and ".join(named)
        text = f"the models return several tensors, {text}; compared are {which}"
        yield LeftOut("further results", text)


def _unused(a: Side, b: Side) -> Iterator[LeftOut]:
    """List what a callable returns beside its model, loss and optimizer."""
    named = {side.name: " and ".join(side.facts.get("unused", ())) for side in (a, b)}
    if any(named.values()):
        text = ", ".join(f"{names or 'nothing'} of {side}" for side, names in named.items())
        what = " and ".join(dict.fromkeys(filter(None, named.values())))
        yield LeftOut(what, f"beside models, losses and optimizers, not compared: {text}")


def _double_precision(in_single: Sequence[str]) -> Iterator[LeftOut]:
    if in_single:
        more = f" and {len(in_single) - 1} more" if len(in_single) > 1 else ""
        text = f"one side computes the input of {in_single[0]}{more} in single precision"
        yield LeftOut(
            "double precision", f"{text}: no bound of what follows is smaller than its rounding"
        )

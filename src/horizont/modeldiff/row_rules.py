"""Sequences of patches or words to which parameters are added: a class token, and positions.

What differs between examples shows which steps of an output a sequence has, and in which order;
what does not is the sum of the rows of parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from math import isqrt
from typing import Any

import numpy as np

from horizont.modeldiff.glue import BETWEEN, Glue, glue_candidate
from horizont.modeldiff.identification import IDENTITY_BOUND, ArrayNamespace, largest
from horizont.modeldiff.recording import Array
from horizont.modeldiff.repairs import UNKNOWN, Candidate
from horizont.modeldiff.rows import steps_of

#: A factor that is nearer to 1 is 1 but for rounding.
_FACTOR_BOUND = 1e-9

#: More runs of rows are not listed.
_MOST_RUNS = 3


@dataclass(frozen=True)
class _Rows:
    """Of which steps of an output, and of which rows of parameters, a sequence consists.

    Attributes
    ----------
    at
        For each step that of the output; -1 if there is none.
    plus
        For each step the row of a parameter, likewise.
    """

    source: str
    factor: float
    at: list[int]
    plus: dict[str, list[int]]

    @property
    def value(self) -> dict[str, Any]:
        """The change of an input, see `sequence_of`."""
        rows = {"from": self.source, "factor": self.factor, "at": self.at, "plus": self.plus}
        return {"rows": rows}

    def shown(self, sizes: Mapping[str, int]) -> dict[str, str]:
        """Return the places of steps and rows, by what they belong to."""
        every = {f"steps of the output of {self.source}": (self.at, max(self.at) + 1)}
        every |= {f"rows of {name}": (at, sizes[name]) for name, at in self.plus.items()}
        texts = {name: _shown(*each) for name, each in every.items()}
        return {f"factor of the output of {self.source}": f"{self.factor:.6g}", **texts}


def sequence_rows(glue: Glue) -> Candidate | None:
    """Find sequences with other rows of parameters, or with steps in another order."""
    tables = _tables(glue)
    theirs = _find(glue.outputs, tables, glue.b)
    if theirs is None:
        return None
    own = _find(glue.outputs, tables, glue.a)
    sizes = {name: len(table) for name, table in tables.items()}
    others = theirs.shown(sizes)
    if own is None:
        text = ", ".join(f"{name}: {each}" for name, each in others.items() if each != "none")
        return glue_candidate(glue, BETWEEN, UNKNOWN, text, theirs.value)
    ones = own.shown(sizes)
    names = [name for name in others if ones.get(name) != others[name]]
    if not names:
        return None
    one, other = (", ".join(each.get(name, "none") for name in names) for each in (ones, others))
    return glue_candidate(glue, " and ".join(names), one, other, theirs.value)


def rows_of_b(glue: Glue) -> dict[str, Any] | None:
    """Return how side B puts a sequence together, as a change of side A; None if it does not."""
    found = _find(glue.outputs, _tables(glue), glue.b)
    return None if found is None else found.value


def _tables(glue: Glue) -> dict[str, Array]:
    """Return parameters as tables of rows, each of which has the features of the input."""
    features = glue.b.shape[-1:]
    return {
        name: value.reshape(-1, *features)
        for name, value in glue.parameters.items()
        if value.ndim and value.shape[-1:] == features
    }


def _find(outputs: Mapping[str, Array], tables: Mapping[str, Array], target: Array) -> _Rows | None:
    """Return the rows of a sequence, (examples, steps, features); None if it has others."""
    if not tables or target.ndim != 3 or len(target) < 2:
        return None
    bound = IDENTITY_BOUND * largest(target)
    constant = target.mean(0)
    for name, output in outputs.items():
        if output.ndim < 2:
            continue
        steps = steps_of(ArrayNamespace, output)
        if (len(steps), steps.shape[2]) != (len(target), target.shape[2]):
            continue
        factor, mean = _factor(steps, target), steps.mean(0)
        at = _matched(factor * (steps - mean), target - constant, bound)
        if at is None or max(at) < 0:
            continue
        rest = constant.copy()
        is_there = np.array(at) >= 0
        rest[is_there] -= factor * mean[np.array(at)[is_there]]
        plus = _summands(rest, tables, bound)
        if plus is not None:
            return _Rows(name, factor, at, plus)
    return None


def _factor(steps: Array, target: Array) -> float:
    """Return by what all steps are multiplied, in whatever order they are; 1 if it is near it."""
    sizes = [float(np.linalg.norm(each - each.mean(0))) for each in (steps, target)]
    ratio = sizes[1] / sizes[0] if sizes[0] > 0.0 else 1.0
    return 1.0 if abs(ratio - 1.0) < _FACTOR_BOUND else ratio


def _matched(steps: Array, target: Array, bound: float) -> list[int] | None:
    """Return which step each one of a sequence is, -1 if it is zero; None if one is neither."""
    weights = np.random.default_rng(0).normal(size=(len(steps), steps.shape[2]))
    own, others = (np.einsum("nsf,nf->s", each, weights) for each in (steps, target))
    found = []
    for step, other in enumerate(others):
        nearest = int(np.argmin(np.abs(own - other)))
        if np.max(np.abs(target[:, step])) <= bound:
            found.append(-1)
        elif np.max(np.abs(steps[:, nearest] - target[:, step])) <= bound:
            found.append(nearest)
        else:
            return None
    return found


def _summands(
    rest: Array, tables: Mapping[str, Array], bound: float
) -> dict[str, list[int]] | None:
    """Return the rows of parameters, of one or of two, of which each row is the sum."""
    found = {name: [-1] * len(rest) for name in tables}
    line = np.random.default_rng(1).normal(size=rest.shape[1])
    on_line = {name: table @ line for name, table in tables.items()}
    for step, row in enumerate(rest):
        if np.max(np.abs(row)) <= bound:
            continue
        for names in (*combinations(tables, 1), *combinations(tables, 2)):
            places = _nearest([on_line[name] for name in names], float(row @ line))
            total = sum(tables[name][place] for name, place in zip(names, places, strict=True))
            if np.max(np.abs(total - row)) <= bound:
                for name, place in zip(names, places, strict=True):
                    found[name][step] = place
                break
        else:
            return None
    return found


def _nearest(numbers: Sequence[Array], other: float) -> tuple[int, ...]:
    """Return the place in each array whose numbers have the sum that is nearest to another one."""
    sums = reduce(np.add.outer, numbers)
    place = np.argmin(np.abs(sums - other))
    return tuple(int(each) for each in np.unravel_index(place, sums.shape))


def _shown(at: Sequence[int], size: int) -> str:
    """Describe which rows are at which steps."""
    places = [(step, row) for step, row in enumerate(at) if row >= 0]
    if not places:
        return "none"
    steps, rows = (list(each) for each in zip(*places, strict=True))
    if len(at) == len(places) > 1 and len({*rows}) == 1:
        return "at all steps" if size == 1 else f"{rows[0]} at all steps"
    runs: list[list[int]] = []
    for step, row in places:
        if runs and [step, row] == [runs[-1][0] + runs[-1][2], runs[-1][1] + runs[-1][2]]:
            runs[-1][2] += 1
        else:
            runs.append([step, row, 1])
    if len(runs) > _MOST_RUNS:
        side = isqrt(len(places))
        columns = np.arange(side * side).reshape(side, side).T.ravel()
        is_known = rows == columns.tolist()
        return f"{'by columns' if is_known else 'in another order'} from step {steps[0]}"
    return ", ".join(_shown_run(*run, size=size) for run in runs)


def _shown_run(step: int, row: int, count: int, *, size: int) -> str:
    if count == size:
        return f"all from step {step}" if count > 1 else f"at step {step}"
    return f"{row} to {row + count - 1} from step {step}" if count > 1 else f"{row} at step {step}"

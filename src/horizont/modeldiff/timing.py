"""Times of two models as they are: in blocks, by parts, and with the operators behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from horizont.modeldiff.model_side import TIMED_DTYPE
from horizont.modeldiff.recording import Array, Call, Side
from horizont.statistics.intervals import Estimate, interval_at_level, paired_ratio

#: Parts of a model that are timed, and what the report calls them.
PARTS = {"evaluation": "evaluation", "forward": "forward pass of training", "step": "training step"}

#: In each block both sides are timed once, for so many seconds; six blocks give 95% intervals.
BLOCKS, SEGMENT_S = 6, 0.5

#: How many operators are named.
_SHOWN = 2


@dataclass(frozen=True)
class PartTimes:
    """The times of one part on both sides.

    Attributes
    ----------
    a_s, b_s
        Medians over the blocks, in seconds.
    ratio
        The time of B over that of A.
    """

    part: str
    a_s: float
    b_s: float
    ratio: Estimate

    def __str__(self) -> str:
        low, high = self.ratio.low, self.ratio.high
        text = f"{self.part}: A {_milliseconds(self.a_s)}, B {_milliseconds(self.b_s)}; "
        if low <= 1.0 <= high:
            return f"{text}no difference (B over A {low:.3g} to {high:.3g})"
        is_a = self.ratio.value > 1.0
        value = self.ratio.value if is_a else 1.0 / self.ratio.value
        bounds = (low, high) if is_a else (1.0 / high, 1.0 / low)
        interval = f"{bounds[0]:.3g} to {bounds[1]:.3g}"
        return f"{text}{'A' if is_a else 'B'} is {value:.3g} times as fast ({interval})"


@dataclass(frozen=True)
class Profile:
    """The operators of one training step, or evaluation."""

    label: str
    calls: Sequence[Call]

    @property
    def operators(self) -> dict[str, tuple[int, float]]:
        """Calls and seconds by name, without the operators that an operator called."""
        found: dict[str, tuple[int, float]] = {}
        for call in self.calls:
            count, seconds = found.get(call.name, (0, 0.0))
            found[call.name] = (count + 1, seconds + call.self_s)
        return found

    def __str__(self) -> str:
        operators = self.operators
        calls = len(self.calls)
        total_s = sum(seconds for _, seconds in operators.values()) or 1.0
        most = sorted(operators.items(), key=lambda item: -item[1][1])[:_SHOWN]
        names = ", ".join(
            f"{name} {seconds / total_s:.0%} in {count}" for name, (count, seconds) in most
        )
        return f"{self.label} {calls:,} calls of operators ({names})"


@dataclass(frozen=True)
class Timing:
    """What was measured of both sides."""

    parts: tuple[PartTimes, ...]
    profiles: tuple[Profile, Profile]

    def lines(self) -> list[str]:
        """Return what a terminal shows."""
        level = self.parts[0].ratio.level
        head = f"times in {TIMED_DTYPE}, {level:.0%} intervals of {BLOCKS} blocks, all cores:"
        found = [head, *(f"  {each}" for each in self.parts)]
        return [*found, f"  in one {self.parts[-1].part}: {self.profiles[0]}; {self.profiles[1]}"]

    def to_json(self) -> dict[str, Any]:
        """Return the times, and the operators by name, as values of JSON."""
        profiles = [{"label": each.label, "operators": each.operators} for each in self.profiles]
        return {"parts": [asdict(each) for each in self.parts], "profiles": profiles}


def time_models(a: Side, b: Side, batch: Array) -> Timing:
    """Time both sides in blocks, one after the other, in alternating order.

    Of a side that cannot be trained, and of the other one, only the evaluation is timed. What slows
    down the machine for longer than a block slows down both sides of it.
    """
    for side in (a, b):
        side.open(batch, TIMED_DTYPE)
    names = list(PARTS) if a.can_train and b.can_train else ["evaluation"]
    parts = tuple(_time_part(a, b, part) for part in names)
    profiles = Profile("A", a.profile(names[-1])), Profile("B", b.profile(names[-1]))
    return Timing(parts, profiles)


def _time_part(a: Side, b: Side, part: str) -> PartTimes:
    for side in (a, b):
        side.time(part, 0.0)  # compiles, and warms up
    times = np.empty((BLOCKS, 2))
    for block in range(BLOCKS):
        for column in (0, 1) if block % 2 == 0 else (1, 0):
            times[block, column] = (a, b)[column].time(part, SEGMENT_S)
    ratio = paired_ratio(times[:, 1], times[:, 0], interval_at_level)
    a_s, b_s = np.median(times, axis=0)
    return PartTimes(PARTS[part], float(a_s), float(b_s), ratio)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"

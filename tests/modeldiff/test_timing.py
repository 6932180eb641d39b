"""Times of two models: what is reported, and when they are not comparable."""

from __future__ import annotations

from pathlib import Path

import pytest

from horizont.modeldiff import Options, diff, timing
from horizont.modeldiff.timing import PartTimes, Profile
from horizont.statistics.intervals import Estimate

MODELS = Path(__file__).parent / "models"
TORCH = f"torch:{MODELS / 'torch_models.py'}"

TIMED = Options(time=True)


@pytest.fixture(autouse=True)
def short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SEGMENT_S", 0.01)


@pytest.mark.framework("pytorch")
def test_each_step_of_a_slow_model_takes_its_time() -> None:
    report = diff(f"{TORCH}:Slow", f"{TORCH}:Slow", "2x3", TIMED)
    assert report.timing is not None
    assert [each.part for each in report.timing.parts] == [*timing.PARTS.values()]
    assert all(each.a_s >= 0.02 for each in report.timing.parts)
    assert "not comparable" not in str(report)


@pytest.mark.framework("pytorch")
def test_times_of_different_models_are_not_comparable() -> None:
    report = diff(f"{TORCH}:Slow", f"{TORCH}:Slow", "2x3", Options(args_b="power=3", time=True))
    assert report.unexplained
    assert report.timing is not None
    assert "not comparable" in report.lines()[-2]
    report = diff("torch:no.such.module:build", f"{TORCH}:Slow", "2x3", TIMED)
    assert report.timing is None
    assert report.unknown.startswith("side A")


def test_the_sentence_names_the_faster_side_or_none() -> None:
    def text(low: float, value: float, high: float) -> str:
        return str(PartTimes("evaluation", 1e-3, 2e-3, Estimate(value, low, high, 0.95, 6)))

    start = "evaluation: A 1 ms, B 2 ms; "
    assert text(1.5, 2.0, 2.5) == f"{start}A is 2 times as fast (1.5 to 2.5)"
    assert text(0.25, 0.5, 0.8) == f"{start}B is 2 times as fast (1.25 to 4)"
    assert text(0.9, 1.0, 1.2) == f"{start}no difference (B over A 0.9 to 1.2)"
    profile = Profile("A", {"few": (1, 3.0), "many": (2000, 1.0), "none": (1, 0.0)})
    assert str(profile) == "A 2,002 calls of operators (few 75% in 1, many 25% in 2000)"

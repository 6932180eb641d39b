"""What `horizont repro` runs after what, and what beside what."""

from __future__ import annotations

from tests.conftest import ROOT

from horizont.pipeline.repro import planned, read_metas

NAMES = [
    "prepare@cifar10",
    "data@cifar10",
    "equivalence@lenet5-cifar10",
    "local@lenet5-cifar10",
    "operators@lenet5-cifar10",
    "theory@theory-01-neuron",
    "theory@theory-08-staleness",
    "decision",
    "book",
]


def test_pages_come_after_what_measures_and_two_at_a_time() -> None:
    measuring, pages, rest = planned(NAMES, read_metas(ROOT))
    assert measuring == [
        [
            "--single-item",
            "prepare@cifar10",
            "equivalence@lenet5-cifar10",
            "local@lenet5-cifar10",
            "theory@theory-08-staleness",  # has a real worker slowed, and shows its times
        ]
    ]
    assert pages == [
        ["--single-item", "data@cifar10", "theory@theory-01-neuron"],
        ["--single-item", "operators@lenet5-cifar10", "decision"],
    ]
    assert rest == [[]]


def test_a_stage_that_says_nothing_measures() -> None:
    assert planned(["new@a", "other"], {}) == [[["--single-item", "new@a", "other"]], [], [[]]]

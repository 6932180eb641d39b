"""Wording of messages: the nearest name of a misspelled one."""

from __future__ import annotations

import pytest

from horizont.wording import suggestion

NAMES = ["alexnet-cifar10", "lenet5-cifar10", "lenet5-cifar100", "lstm-ptb"]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("lenet5-cifr10", "lenet5-cifar10"),
        ("lenet6", "lenet5-cifar10"),
        ("lstm", "lstm-ptb"),
    ],
)
def test_the_nearest_name_is_suggested(value: str, found: str) -> None:
    assert suggestion(value, NAMES) == f" (did you mean {found!r}?)"


@pytest.mark.parametrize("value", ["resnet18", "l", "", None])
def test_a_name_that_is_like_no_other_gets_no_suggestion(value: object) -> None:
    assert suggestion(value, NAMES) == ""

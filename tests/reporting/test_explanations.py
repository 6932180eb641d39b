"""How the sentences on a verdict name the parts of a difference."""

from __future__ import annotations

import pytest

from horizont.analysis.drilldown import Difference
from horizont.reporting.explanations import TracedSentence, _shared_pieces

RECORDS = ("a record",)


def phase(name: str, difference_s: float) -> Difference:
    return Difference("phase", "local", name, 0.001, 0.001 + difference_s, difference_s)


@pytest.mark.parametrize(
    ("difference_s", "expected"),
    [
        (0.001, "Of these, 1.00 ms (50%) are in the backward pass (2.00 ms against 1.00 ms)"),
        (
            0.003,
            "Its time in the backward pass (4.00 ms against 1.00 ms) is 3.00 ms longer, while "
            "other parts are shorter",
        ),
    ],
)
def test_only_a_part_of_the_difference_has_a_share(difference_s: float, expected: str) -> None:
    pieces = _shared_pieces([phase("backward", difference_s)], phase("step", 0.002), RECORDS)
    assert TracedSentence(tuple(pieces)).text == expected

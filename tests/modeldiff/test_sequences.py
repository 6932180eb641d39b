"""Class tokens and positions that are parameters: which of their rows a sequence has, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from horizont.modeldiff import Options, Report, diff

MODELS = Path(__file__).parent / "models" / "sequence_models.py"
PATCHES, WORDS = ("patches", "3x3x24x24"), ("words", "3x6:50")

NO_PLACES = "rows of places", "none", "all from step 0"
NO_SEGMENT = "rows of segment", "none", "at all steps"

#: The model with its batch, the mistake of side A, and what differs with the values of both sides.
MISTAKES = [
    (PATCHES, "no places", *NO_PLACES),
    (PATCHES, "places of patches alone", "rows of places", "1 to 9 from step 1", "all from step 0"),
    (PATCHES, "no token", "rows of token", "none", "at step 0"),
    (
        PATCHES,
        "token at the end",
        "steps of the output of patch and rows of token",
        "all from step 0, at step 9",
        "all from step 1, at step 0",
    ),
    (
        PATCHES,
        "columns",
        "steps of the output of patch",
        "by columns from step 1",
        "all from step 1",
    ),
    (PATCHES, "mean", "reduction of steps", "the mean", "the first"),
    (WORDS, "offset", "rows of places", "2 to 7 from step 0", "0 to 5 from step 0"),
    (WORDS, "reversed", "rows of places", "in another order from step 0", "0 to 5 from step 0"),
    (WORDS, "no segment", *NO_SEGMENT),
    (WORDS, "scaled", "factor of the output of words", "4", "1"),
]


def compared(model: tuple[str, str], a: str, b: str = "") -> Report:
    name, batch = model
    side = f"torch:{MODELS}:{name}"
    return diff(side, side, batch, Options(args_a=f"mistake={a!r}", args_b=f"mistake={b!r}"))


def explained(report: Report) -> tuple[str, str, str]:
    """Return the only difference, which explains everything."""
    assert not report.unexplained, str(report)
    (cause,) = report.repairs
    return cause.candidate.what, cause.candidate.value_a, cause.candidate.value_b


@pytest.mark.framework("pytorch")
@pytest.mark.parametrize(("model", "mistake", "what", "one", "other"), MISTAKES)
def test_rows_are_repaired(
    model: tuple[str, str], mistake: str, what: str, one: str, other: str
) -> None:
    assert explained(compared(model, mistake)) == (what, one, other)


@pytest.mark.framework("pytorch")
@pytest.mark.parametrize(
    ("model", "mistake", "found"),
    [(PATCHES, "no places", NO_PLACES), (WORDS, "no segment", NO_SEGMENT)],
)
def test_rows_that_side_b_does_not_have_are_removed(
    model: tuple[str, str], mistake: str, found: tuple[str, str, str]
) -> None:
    what, one, other = found
    assert explained(compared(model, "", mistake)) == (what, other, one)


@pytest.mark.framework("pytorch")
def test_a_parameter_without_a_gradient_is_not_trained() -> None:
    report = compared(PATCHES, "", "places not trained")
    assert explained(report) == ("tensors that are not trained", "none", "places")
    # What side A does not compute, no repair adds: the tensor is named.
    report = compared(PATCHES, "places not trained")
    assert [each.key for each in report.unexplained] == ["update|places|places"], str(report)


@pytest.mark.parametrize(
    "model",
    [
        pytest.param("jax:{}/jax_models.py:rows", marks=pytest.mark.framework("jax")),
        pytest.param("tf:{}/tf_models.py:Rows", marks=pytest.mark.framework("tensorflow")),
    ],
)
def test_rows_are_repaired_in_other_frameworks(model: str) -> None:
    side = model.format(MODELS.parent)
    report = diff(side, side, "3x6:20", Options(args_a="first=2"))
    assert explained(report) == ("rows of positions", "2 to 7 from step 0", "0 to 5 from step 0")

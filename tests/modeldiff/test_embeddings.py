"""Tables of words and positions, whose look-ups are operations in JAX and TensorFlow."""

from __future__ import annotations

from pathlib import Path

import pytest

from horizont.modeldiff import Options, Report, diff

MODELS = Path(__file__).parent / "models"
BATCH = "4x6:20"


def sides(framework: str, port: str, original: str) -> object:
    """Return parameters of a test: a network of PyTorch, and that of another framework."""
    prefix, name = port.split(":")
    return pytest.param(
        f"torch:{MODELS / 'torch_models.py'}:{original}",
        f"{prefix}:{MODELS / prefix}_models.py:{name}",
        id=port,
        marks=pytest.mark.framework("pytorch", framework),
    )


POSITIONS = [
    sides("jax", "jax:places", "Places"),
    sides("tensorflow", "tf:Places", "Places"),
]
WORDS = [sides("tensorflow", "keras:words", "words"), sides("mxnet", "mxnet:words", "words")]


def differences(report: Report) -> list[str]:
    assert not report.unexplained, report
    return [str(cause.candidate).partition(" in ")[0] for cause in report.repairs]


@pytest.mark.parametrize(("a", "b"), POSITIONS)
def test_positions_that_start_elsewhere_are_repaired(a: str, b: str) -> None:
    report = diff(a, b, BATCH)
    assert report.verdict == "the same", report
    assert [pair.kind for pair in report.layers] == ["embedding", "embedding", "dense"]
    report = diff(a, b, BATCH, Options(args_a="first=2"))
    assert differences(report) == ["offset of indices: i against i - 2"]
    report = diff(b, a, BATCH, Options(args_b="first=2"))
    assert differences(report) == ["offset of indices: i against i + 2"]


@pytest.mark.parametrize(("a", "b"), POSITIONS + WORDS)
def test_a_row_without_a_gradient_is_repaired(a: str, b: str) -> None:
    report = diff(a, b, BATCH, Options(args_a="padding_idx=1"))
    assert differences(report) == ["row of an embedding without a gradient: 1 against none"]
    report = diff(b, a, BATCH, Options(args_b="padding_idx=1"))
    assert differences(report) == ["row of an embedding without a gradient: none against 1"]

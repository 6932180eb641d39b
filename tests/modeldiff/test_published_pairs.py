"""Pairs of published packages, whose differences were found by reading their sources."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from horizont.modeldiff import Options, diff

ROOT = Path(__file__).parents[2]
MODELS = Path(__file__).parent / "models"
FOLDER = Path(os.environ.get("HORIZONT_PAIRS", ROOT / ".venv" / "pairs"))


def interpreter(name: str) -> str:
    path = FOLDER / name / "bin" / "python"
    if not path.exists():
        pytest.skip(f"no environment {name}: run `make pairs`")
    return str(path)


@pytest.mark.framework("pytorch")
def test_a_recurrent_network_of_keras_on_pytorch_and_of_pytorch() -> None:
    """The same network, in which Keras calls more operators than PyTorch.

    Without a dense layer, whose product Keras 3.15 on PyTorch computes in float32, whatever its
    type is.
    """
    python = interpreter("keras-torch")
    options = Options(python_b=python, args_a="dense=False", args_b="dense=False", time=True)
    a, b = f"torch:{MODELS / 'torch_models.py'}:Gates", f"keras:{MODELS / 'keras_models.py'}:gates"
    report = diff(a, b, "8x32x5", options)
    assert report.versions[1].keys() == {"python", "keras", "torch"}
    whats = [cause.candidate.what for cause in report.repairs]
    assert whats == ["biases of a recurrent layer"]
    assert not report.unexplained
    assert report.timing is not None
    calls = [sum(count for count, _ in each.operators.values()) for each in report.timing.profiles]
    assert calls[1] > 1.5 * calls[0]


@pytest.mark.framework("tensorflow")
def test_mobilenet_of_torchvision_and_keras() -> None:
    options = Options(
        python_a=interpreter("torchvision"),
        args_a="name=mobilenet_v2",
        args_b="weights=None,classifier_activation=None",
    )
    report = diff(
        f"torch:{MODELS / 'torchvision_models.py'}:build",
        "keras:keras.applications:MobileNetV2",
        "2x3x96x96",
        options,
    )
    assert (report.pairs, report.ties, report.only_a, report.only_b) == (105, 0, (), ())
    found = {cause.candidate.what: cause.candidate for cause in report.repairs}
    assert list(found) == [
        "padding of a convolution",
        "epsilon of a norm",
        "momentum of running statistics",
        "correction of the running variance",
    ]
    chosen = [candidate for candidate in found.values() if not candidate.of_framework]
    assert [(each.value_a, each.value_b, len(each.layers)) for each in chosen] == [
        ("(1, 1)", "(0, 1)", 5),
        ("1e-05", "0.001", 52),
        ("0.1", "0.001", 52),
    ]
    evaluation, training, single = report.agreements
    assert (evaluation.agreeing, len(evaluation.differences)) == (106, 106)  # and the result
    assert evaluation.largest < 1e-11
    assert training.agreeing == len(training.differences)
    assert single.agreeing == len(single.differences)
    assert not report.unexplained
    assert len(report.lines()) <= 25
    assert report.peak_bytes < 2 * 2**30

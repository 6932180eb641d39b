"""Faults planted in published models: the right repair, or a tensor that remains unexplained."""

from __future__ import annotations

from pathlib import Path

import pytest

from horizont.modeldiff import Options, Report, diff
from tests.modeldiff.test_published_pairs import interpreter

MODELS = Path(__file__).parent / "models" / "torchvision_models.py"

#: Networks, with the faults that they cannot have.
NETWORKS = {
    "resnet18": {"branch"},
    "mobilenet_v2": {"pooling"},
}

ACTIVATION = "activation"

#: Faults with what repairs each.
REPAIRED = {
    "epsilon": "epsilon of a norm",
    "momentum": "momentum of running statistics",
    "ELU": ACTIVATION,
    "leaky ReLU": ACTIVATION,
    "GELU": ACTIVATION,
    "no activation": ACTIVATION,
    "pooling": "pooling",
    "dilation": "dilation of a convolution, padding of a convolution",
    "branch": "factor of a summand",
    "frozen": "tensors that are not trained",
    "pixels": "scale of an input",
    "BGR": "order of channels",
    "softmax": "function of the result",
}

UNKNOWN = ("sine", "half precision", "no gradient")

CASES = [
    (network, fault, at)
    for network, without in NETWORKS.items()
    for fault in REPAIRED
    if fault not in without
    for at in ((0.3, 0.8) if fault in ("ELU", "epsilon", "dilation") else (0.5,))
]


def compared(network: str, fault: str, at: float) -> Report:
    python = interpreter("torchvision")
    return diff(
        f"torch:{MODELS}:build",
        f"torch:{MODELS}:planted",
        "2x3x64x64",
        Options(
            python_a=python,
            python_b=python,
            args_a=f"name={network!r}",
            args_b=f"name={network!r},fault={fault!r},at={at}",
        ),
    )


@pytest.mark.parametrize(("network", "fault", "at"), CASES)
def test_the_repair_is_found(network: str, fault: str, at: float) -> None:
    report = compared(network, fault, at)
    whats = {cause.candidate.what.partition(" after")[0] for cause in report.repairs}
    assert ", ".join(sorted(whats)) == REPAIRED[fault], str(report)
    assert not report.unexplained, str(report)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("fault", UNKNOWN)
def test_what_no_repair_explains_remains_unexplained(network: str, fault: str) -> None:
    report = compared(network, fault, 0.5)
    assert report.unexplained, str(report)
    assert not report.repairs, str(report)

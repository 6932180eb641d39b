"""Faults planted in published models: the right repair, or a tensor that remains unexplained."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from horizont.modeldiff import Options, Report, diff
from tests.modeldiff.environments import answers, interpreter

pytestmark = pytest.mark.usefixtures("published")

MODELS = Path(__file__).parent / "models" / "planted.py"

#: By network, fault and place.
FirstLayers = Mapping[tuple[str, str, float], str]

ACTIVATION = "activation"
DILATION = "dilation of a convolution, padding of a convolution"
EPSILON = "epsilon of a norm"
FROZEN = "tensors that are not trained"
GRADIENT = "gradient through the input of a layer"
INPUT = "scale of an input"
PRECISION = "precision of an input"

#: Faults of networks of images with what repairs each; at several places where one is too few.
OF_IMAGES = {
    "epsilon": EPSILON,
    "momentum": "momentum of running statistics",
    "frozen norm": "statistics of a norm in training",
    "ELU": ACTIVATION,
    "leaky ReLU": ACTIVATION,
    "GELU": ACTIVATION,
    "no activation": ACTIVATION,
    "dilation": DILATION,
    "padding mode": "padding mode of a convolution",
    "padding side": "padding of a convolution",
    "frozen": FROZEN,
    "frozen matrix": FROZEN,
    "pixels": INPUT,
    "BGR": "order of channels",
    "softmax": "function of the result",
    "half precision": PRECISION,
    "bfloat16": PRECISION,
    "no gradient": GRADIENT,
}

OF_NETWORKS: dict[str, dict[str, str]] = {
    "resnet18": {
        **OF_IMAGES,
        "pooling": "pooling",
        "global pooling": "pooling",
        "shortcut": "summand",
    },
    "mobilenet_v2": {**OF_IMAGES, "branch": "factor of a summand"},
    "efficientnet_b0": {
        **OF_IMAGES,
        "gate": "function of a gate",
        "activation of a gate": ACTIVATION,
    },
    "bert": {
        "epsilon of a layer norm": EPSILON,
        "ELU": ACTIVATION,
        "GELU by tanh": ACTIVATION,
        "frozen matrix": FROZEN,
        "frozen table": FROZEN,
        "no scale": "scale of attention",
        "heads": "number of heads and scale of attention",
        "causal": "mask of attention",
        "half precision": PRECISION,
        "no gradient": GRADIENT,
    },
}

#: No EfficientNet has a convolution with these settings.
IMPOSSIBLE = {("efficientnet_b0", "dilation"), ("efficientnet_b0", "padding mode")}

SEVERAL = {"epsilon", "ELU", "dilation", "no scale", "causal"}

CASES = [
    (network, fault, at)
    for network, faults in OF_NETWORKS.items()
    for fault in faults
    if (network, fault) not in IMPOSSIBLE
    for at in ((0.3, 0.8) if fault in SEVERAL else (0.5,))
]

UNKNOWN = ("sine",)


def compared(network: str, fault: str, at: float) -> Report:
    python = interpreter("pytorch")
    return diff(
        f"torch:{MODELS}:build",
        f"torch:{MODELS}:planted",
        "2x16:1000" if network == "bert" else "2x3x64x64",
        Options(
            python_a=python,
            python_b=python,
            args_a=f"network={network!r}",
            args_b=f"network={network!r},fault={fault!r},at={at}",
        ),
    )


def find_first_layers() -> FirstLayers:
    """Return the first layer whose output changes, of each case, by hooks of PyTorch alone."""
    found = answers("pytorch", MODELS.with_name("first_differences.py"), CASES)
    return dict(zip(CASES, found, strict=True))


@pytest.fixture(scope="module")
def first_layers() -> FirstLayers:
    return find_first_layers()


@pytest.mark.parametrize(("network", "fault", "at"), CASES)
def test_the_first_tensor_and_the_repair_are_found(
    network: str, fault: str, at: float, first_layers: FirstLayers
) -> None:
    report = compared(network, fault, at)
    first = report.first.layer if report.first else ""
    assert first == first_layers[network, fault, at], str(report)
    whats = {cause.candidate.what.partition(" after")[0] for cause in report.repairs}
    assert ", ".join(sorted(whats)) == OF_NETWORKS[network][fault], str(report)
    assert not report.unexplained, str(report)


@pytest.mark.parametrize("network", OF_NETWORKS)
@pytest.mark.parametrize("fault", UNKNOWN)
def test_what_no_repair_explains_remains_unexplained(network: str, fault: str) -> None:
    report = compared(network, fault, 0.5)
    assert report.unexplained, str(report)
    assert not report.repairs, str(report)

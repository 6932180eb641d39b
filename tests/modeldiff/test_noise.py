"""Models that are compared with themselves, computed otherwise: no false alarm.

Each case has weights of a seed and a batch of its own, and side B computes with another layout of
images, other algorithms, and sums in another order; in every fifth case with two threads, which
hinder each other where several tests run at once. ``HORIZONT_NOISE`` is the number of cases of each
model: 1 if it is not given, 25 for all 500.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from horizont.modeldiff import Options, diff
from horizont.modeldiff.inputs import make_batch
from tests.modeldiff.environments import interpreter

pytestmark = pytest.mark.usefixtures("published")

MODELS = Path(__file__).parent / "models"
SIZES = {"transformers": "2x16:1000", "timm": "2x3x64x64", "torchvision": "2x3x64x64"}

NAMES = (
    "torchvision resnet18", "torchvision mobilenet_v2", "torchvision shufflenet_v2_x0_5",
    "torchvision squeezenet1_1", "torchvision mnasnet0_5", "torchvision mobilenet_v3_small",
    "torchvision regnet_y_400mf", "torchvision googlenet", "timm resnet10t",
    "timm efficientnet_lite0", "timm mobilevit_xxs", "timm levit_128s", "timm convnext_atto",
    "timm ghostnet_100", "timm mixnet_s", "timm repvgg_a0", "transformers BertModel",
    "transformers GPT2LMHeadModel", "transformers RobertaModel", "transformers ElectraModel",
)  # fmt: skip

#: Models whose sizes do not depend on the image.
LARGE = {"timm levit_128s": "2x3x224x224"}

#: Models whose training crashes PyTorch 2.13 in oneDNN, in single precision with channels last.
CRASHES = ("timm repvgg_a0",)

CASES = [
    (name, number) for number in range(int(os.environ.get("HORIZONT_NOISE", "1"))) for name in NAMES
]


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_model_is_the_same_as_itself(name: str, number: int) -> None:
    package, model = name.split()
    python = interpreter("pytorch")
    same = f"package={package!r},name={model!r},seed={number}"
    own_algorithms = number % 2 == 0
    crashes = name in CRASHES and not own_algorithms
    channels_last = package != "transformers" and number % 3 != 1 and not crashes
    otherwise = (
        f"threads={2 if number % 5 == 0 else 1},own_algorithms={own_algorithms},"
        f"channels_last={channels_last},reversed_sums={number % 4 != 1}"
    )
    report = diff(
        f"torch:{MODELS / 'rerun.py'}:build",
        f"torch:{MODELS / 'rerun.py'}:build",
        make_batch(LARGE.get(name, SIZES[package]), seed=number),
        Options(python_a=python, python_b=python, args_a=same, args_b=f"{same},{otherwise}"),
    )
    assert report.status == 0, str(report)

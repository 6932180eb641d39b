"""Pairs of published packages, whose differences were found by reading their sources."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from horizont.modeldiff import Options, diff
from horizont.modeldiff.process import Limits
from tests.modeldiff.environments import interpreter

MODELS = Path(__file__).parent / "models"

#: Packages of PyTorch whose models are made by their names.
BY_NAME = ("torchvision", "torchvision_class", "timm", "transformers", "efficientnet_pytorch")

#: Sizes of small networks, and a difference of the frameworks.
SIZES = {
    "$text": "hidden_size=64,num_hidden_layers=3,num_attention_heads=4,intermediate_size=128",
    "$vit": "image_size=64,patch_size=16,hidden_size=192,num_hidden_layers=3,"
    "num_attention_heads=3,intermediate_size=768,num_labels=1000",
    "$torchvision_vit": "image_size=64,patch_size=16,hidden_dim=192,num_layers=3,num_heads=3,"
    "mlp_dim=768",
}
VARIANCE = "correction of the running variance"

PAIRS: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("published_pairs.yaml").read_text(encoding="utf-8")
)

pytestmark = pytest.mark.usefixtures("published")


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


def side_of(text: str, batch: str) -> tuple[str, str, str]:
    """Return a side, its arguments and its interpreter from a package, a name and arguments."""
    for key, sizes in SIZES.items():
        text = text.replace(key, sizes)
    if text.startswith("exported "):
        _, package, name, *rest = text.split(" ", 3)
        named = ",".join([f"package={package!r},name={name!r},sizes={batch!r}", *rest])
        return f"onnx:{MODELS / 'published.py'}:exported", named, interpreter("pytorch")
    package, name, *rest = text.split(" ", 2)
    arguments = rest[0] if rest else ""
    if package in BY_NAME:
        named = ",".join(filter(None, (f"name={name!r}", arguments)))
        return f"torch:{MODELS / 'published.py'}:{package}", named, interpreter("pytorch")
    if package == "flax":
        named = f"name={name!r},{arguments}"
        return f"jax:{MODELS / 'published_flax.py'}:transformers", named, interpreter("flax")
    if package in ("tf-keras", "tf-keras-images"):
        named = f"name={name!r},{arguments}"
        call = "Images" if package.endswith("images") else "transformers"
        return f"tf:{MODELS / 'published_tf.py'}:{call}", named, interpreter("tf-keras")
    environment = package if package in ("keras-torch", "keras-jax") else "keras-tensorflow"
    module = "kimm.models" if package == "kimm" else "keras.applications"
    arguments = ",".join(filter(None, ("weights=None,classifier_activation=None", arguments)))
    return f"keras:{module}:{name}", arguments, interpreter(environment)


@pytest.mark.parametrize("name", PAIRS)
def test_every_verdict_is_right(name: str, tmp_path: Path) -> None:
    pair, script = PAIRS[name], tmp_path / "first.py"
    a, args_a, python_a = side_of(pair["a"], pair["input"])
    b, args_b, python_b = side_of(pair["b"], pair["input"])
    limits = Limits(request_s=300)
    options = Options(python_a, python_b, args_a, args_b, script=script, limits=limits)
    report = diff(a, b, pair["input"], options)
    whats = {cause.candidate.what for cause in report.repairs}
    assert whats == {VARIANCE if each == "$variance" else each for each in pair["repairs"]}
    assert [len(report.only_a), len(report.only_b)] == pair.get("alone", [0, 0])
    assert not report.unexplained
    assert not report.unknown
    assert len(report.lines()) <= 25
    assert script.exists() == (report.first is not None)
    if script.exists():
        done = subprocess.run([python_a, script], capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stderr
        assert done.stdout.startswith(("distance", "the shapes"))


@pytest.mark.framework("tensorflow")
def test_mobilenet_of_torchvision_and_keras() -> None:
    options = Options(
        python_a=interpreter("pytorch"),
        args_a="name=mobilenet_v2",
        args_b="weights=None,classifier_activation=None",
    )
    report = diff(
        f"torch:{MODELS / 'published.py'}:torchvision",
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
    # Rounding alone moves outputs by 1e-5 to 1e-3, according to the processor: more is no evidence.
    assert not any(each.exceeds for each in single.differences)
    assert not report.unexplained
    assert len(report.lines()) <= 25
    assert report.peak_bytes < 2 * 2**30

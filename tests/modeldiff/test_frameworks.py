"""Pairs of small models in their own interpreters: what differs, what repairs it, the verdict."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from horizont.modeldiff import Options, Report, diff, timing
from horizont.modeldiff.dump import Dump
from horizont.modeldiff.functions import FUNCTIONS
from horizont.modeldiff.identification import ArrayNamespace
from horizont.modeldiff.page import page
from horizont.modeldiff.report import IN_SINGLE_PRECISION, NOT_THE_SAME
from horizont.testing import assert_same_training
from tests.conftest import cases

ROOT = Path(__file__).parents[2]
MODELS = Path(__file__).parent / "models"
TORCH = f"torch:{MODELS / 'torch_models.py'}"
KERAS = f"keras:{MODELS / 'keras_models.py'}"
JAX = f"jax:{MODELS / 'jax_models.py'}"
MXNET = f"mxnet:{MODELS / 'mxnet_models.py'}"

IMAGES = "4x3x16x16"


#: Names of operators of convolutions, or of several operators that are executed as one.
CONVOLUTIONS = ("convolution", "Conv2D", "Convolution", "conv", "Bulk")


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Options:
    """Return options that time both models, too, for a short time."""
    monkeypatch.setattr(timing, "SEGMENT_S", 0.01)
    return Options(time=True)


def check_times(report: Report) -> None:
    assert report.timing is not None
    assert len(report.lines()) <= 25
    for part in report.timing.parts:
        assert part.a_s > 0
        assert part.b_s > 0
        assert (part.ratio.n, part.ratio.level) == (timing.BLOCKS, 0.95)
    for profile in report.timing.profiles:
        assert any(each in name for name in profile.operators for each in CONVOLUTIONS)
        assert all(call.total_s >= call.self_s >= 0 for call in profile.calls)
        span_s = max(each.start_s + each.total_s for each in profile.calls)
        span_s -= min(each.start_s for each in profile.calls)
        assert 0 < span_s < 60, "the calls are on one clock, in seconds"


def whats(report: Report) -> list[str]:
    return [cause.candidate.what for cause in report.repairs]


def check_lines_of_code(report: Report) -> None:
    """Check that the code of each layer is the line of the model that creates it."""
    created = {
        "convolution": r"Conv2[dD]\(",
        "batch norm": r"BatchNorm",
        "dense": r"(Linear|Dense)\(",
    }
    for layer in report.layers:
        for code in (layer.code, layer.partner_code):
            path, _, line = code.rpartition(":")
            text = Path(path).read_text(encoding="utf-8").splitlines()[int(line) - 1]
            assert re.search(created[layer.kind], text), (layer, text)
    (norm,) = (each for each in report.layers if each.kind == "batch norm")
    assert f" ({norm.lines_of_code}); " in "\n".join(report.lines())


@pytest.mark.framework("pytorch")
def test_a_defect_in_float32_alone_is_believed(tmp_path: Path) -> None:
    path = tmp_path / "models.py"
    path.write_text(
        """
from torch import float32, nn

class Rounded(nn.Linear):
    def forward(self, x):
        return super().forward(x.bfloat16().to(x.dtype) if x.dtype == float32 else x)

def right():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))

def wrong():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), Rounded(16, 3))
"""
    )
    report = diff(f"torch:{path}:right", f"torch:{path}:wrong", "4x8")
    assert report.status == 1
    assert report.unexplained[0].key == "output|2"
    assert [each.agreeing == len(each.differences) for each in report.agreements] == [
        True, True, False,
    ]  # fmt: skip


@pytest.mark.framework("pytorch")
def test_every_planted_fault_is_found_with_its_repair() -> None:
    faults = (
        "dilation=2,epsilon=1e-3,momentum=0.3,frozen=True,activation=elu,gelu=tanh,"
        "pooling=mean,order=last,scale=0.5,result=softmax"
    )
    report = diff(f"{TORCH}:Images", f"{TORCH}:Images", IMAGES, Options(args_b=faults))
    assert set(whats(report)) == {
        "padding of a convolution",
        "dilation of a convolution",
        "scale of an input",
        "epsilon of a norm",
        "activation",
        "activation and pooling and order of flattened features",
        "function of the result",
        "momentum of running statistics",
        "tensors that are not trained",
    }
    assert report.status == 1
    assert not report.unexplained
    assert len(report.lines()) <= 25
    table = report.table()
    assert [*table["layer"]] == ["conv1", "norm", "conv2", "dense1", "dense2", "result"]
    assert (table["distance"] > table["bound"]).sum() >= 5
    assert (table["repaired"] <= table["bound"]).all()
    assert "background-color" in report._repr_html_()
    text = unescape(page(report, "horizont diff one two"))
    for cause in report.repairs:
        assert cause.candidate.what in text
        assert all(layer in text for layer in cause.candidate.layers)
    assert all(row["layer"] in text for _, row in table.iterrows())
    assert "horizont diff one two" in text
    assert text.count("background-color") >= 5
    assert all(cause.explained[0].exceeds for cause in report.repairs)
    assert not any(cause.repaired.exceeds for cause in report.repairs)


@pytest.mark.framework("pytorch")
@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ("activation=elu,corners=True", {"activation after a sum", "interpolation"}),
        ("factor=0.3,gate=tanh", {"factor of a summand", "function of a gate"}),
        ("pool=mean,counted=False", {"pooling and zeros in the mean of pooling"}),
    ],
)
def test_what_lies_between_layers_is_found(faults: str, expected: set[str]) -> None:
    model = f"{TORCH}:Blocks"
    report = diff(model, model, IMAGES, Options(args_b=faults))
    assert {what.partition(" or before")[0] for what in whats(report)} == expected
    assert not report.unexplained


@pytest.mark.framework("pytorch")
def test_the_same_model_is_the_same_and_attention_raises_no_alarm(tmp_path: Path) -> None:
    out, pairs, site = (tmp_path / name for name in ("report.json", "diff.yaml", "diff.html"))
    done = command(
        f"{TORCH}:Tokens", f"{TORCH}:Tokens", "--input", "4x7:20",
        "--json", str(out), "--pairs", str(pairs), "--page", str(site),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[2] == "7 pairs of layers; batch 4x7"
    assert "verdict: the same" in lines
    report = json.loads(out.read_text())
    assert report["verdict"] == "the same"
    assert [agreement["what"] for agreement in report["agreements"]] == [
        "evaluation in float64",
        "training in float64",
        "both in float32",
    ]
    assert "rnn_l0" in pairs.read_text()
    assert "<h1>The same</h1>" in site.read_text()
    assert f"horizont diff {TORCH}:Tokens" in site.read_text()


@pytest.mark.framework("pytorch")
def test_an_accepted_difference_does_not_count() -> None:
    model, options = f"{TORCH}:Tokens", Options(args_b="padding_idx=3")
    accepted = ["row of an embedding without a gradient"]
    report = assert_same_training(model, model, "4x7:20", accept=accepted, options=options)
    assert report.verdict == "the same, apart from 1 accepted difference"
    assert replace(report, accepted=()).verdict == "not the same: 1 difference explained"
    with pytest.raises(AssertionError, match="no verdict: side A"):
        assert_same_training("torch:no.such.module:build", model, "4x7:20")


@pytest.mark.framework("pytorch", "tensorflow")
def test_what_frameworks_choose_otherwise_by_default(timed: Options) -> None:
    report = diff(f"{TORCH}:Images", f"{KERAS}:images", IMAGES, timed)
    check_times(report)
    check_lines_of_code(report)
    assert set(whats(report)) == {
        "padding of a convolution",
        "epsilon of a norm",
        "activation and order of flattened features",
        "momentum of running statistics",
        "correction of the running variance",
    }
    assert report.verdict.endswith("all explained (1 by definition of the frameworks)")


@pytest.mark.framework("pytorch", "tensorflow")
def test_side_a_may_be_the_one_of_either_framework() -> None:
    report = diff(
        f"{KERAS}:images", f"{TORCH}:Images", IMAGES,
        Options(args_a="activation=relu6,scale=False", args_b="gelu=tanh"),
    )  # fmt: skip
    assert not report.unexplained
    assert {"activation", "padding of a convolution"} <= set(whats(report))
    assert (report.only_a, report.only_b) == ((), ("norm (scale)",))
    assert report.verdict.startswith("not the same: 1 layer or tensor of one side alone, ")


@pytest.mark.framework("pytorch", "tensorflow")
def test_the_mean_of_inputs_is_no_running_mean() -> None:
    report = diff(f"{TORCH}:plain_dense", f"{KERAS}:adapted", "6x7")
    assert whats(report) == ["scale of an input"]
    assert report.only_b == ("normalization",)
    assert not report.unexplained, report


@pytest.mark.framework("pytorch", "tensorflow")
def test_gates_of_recurrent_layers_are_paired() -> None:
    report = diff(f"{TORCH}:Gates", f"{KERAS}:gates", "4x6x5")
    assert whats(report) == ["biases of a recurrent layer"]
    assert not report.unexplained
    assert report.agreements[0].agreeing == len(report.agreements[0].differences) == 4


@pytest.mark.framework("pytorch", "tensorflow")
@pytest.mark.parametrize("steps_first", [False, True])
def test_attention_as_a_layer_is_paired(steps_first: bool) -> None:
    options = Options(args_a=f"steps_first={steps_first}")
    report = diff(f"{TORCH}:Encoder", f"{KERAS}:encoder", "4x6x8", options)
    assert whats(report) == ["epsilon of a norm"]
    assert report.pairs == 2 * 5 + 1
    assert not report.unexplained


@pytest.mark.framework("pytorch", "tensorflow")
@pytest.mark.parametrize("is_swapped", cases((False, True), False))
def test_tensors_of_one_side_may_be_a_layer_of_the_other(is_swapped: bool) -> None:
    sides = f"{TORCH}:Positions", f"{KERAS}:positions"
    report = diff(*(sides[::-1] if is_swapped else sides), "3x3x16x16")
    assert report.status == 0
    assert report.pairs == 5


@pytest.mark.framework("pytorch")
@pytest.mark.parametrize("arguments", ["folded=False", "folded=False,moved=True"])
def test_an_axis_of_patches_may_be_that_of_the_examples(arguments: str) -> None:
    options = Options(args_b=arguments)
    report = diff(f"{TORCH}:Patches", f"{TORCH}:Patches", "3x3x16x16", options)
    is_moved = "moved" in arguments
    assert report.status == is_moved
    assert [each.layer for each in report.unexplained[:1]] == ["norm"] * is_moved


@pytest.mark.framework("pytorch", "tensorflow")
@pytest.mark.parametrize(("is_swapped", "multiplier"), [(False, 2), (True, 1)])
def test_a_separable_convolution_is_two_layers(is_swapped: bool, multiplier: int) -> None:
    sides = f"{TORCH}:separable", f"{KERAS}:separable"
    arguments = f"multiplier={multiplier}"
    options = Options(args_a=arguments, args_b=arguments)
    report = diff(*(sides[::-1] if is_swapped else sides), IMAGES, options)
    assert whats(report) == ["padding of a convolution"]
    assert report.pairs == 2 * 2 + 1
    assert not report.unexplained


@pytest.mark.framework("pytorch", "tensorflow")
def test_a_number_of_heads_is_a_difference() -> None:
    report = diff(f"{TORCH}:Encoder", f"{KERAS}:encoder", "4x6x8", Options(args_b="heads=4"))
    # Keras rounds the scale to single precision, here the root of one half.
    assert set(whats(report)) == {"number of heads", "scale of attention", "epsilon of a norm"}
    assert not report.unexplained


@pytest.mark.framework("pytorch", "tensorflow")
@pytest.mark.parametrize("is_swapped", [False, True])
def test_a_norm_may_use_its_running_statistics_in_training(is_swapped: bool) -> None:
    sides, faults = (f"{TORCH}:Images", f"{KERAS}:images"), "frozen_norm=True"
    options = Options(args_a=faults)
    if is_swapped:
        sides, options = sides[::-1], Options(args_b=faults)
    report = diff(*sides, IMAGES, options)
    assert "statistics of a norm in training" in whats(report)
    # Side A is changed: if it is frozen as side B is, nothing depends on the momentum.
    assert ("momentum of running statistics" in whats(report)) is not is_swapped
    assert not report.unexplained


@pytest.mark.framework("pytorch", "mxnet")
def test_a_block_of_mxnet_is_compared_on_either_side(timed: Options) -> None:
    options = replace(timed, args_a="gelu=tanh")
    report = diff(f"{TORCH}:Images", f"{MXNET}:images", IMAGES, options)
    check_times(report)
    check_lines_of_code(report)
    assert {str(cause.candidate) for cause in report.repairs} == {
        "momentum of running statistics: 0.1 against 0.100000024 in norm",
        "correction of the running variance: 1 against 0 in norm",
    }
    assert not report.unexplained
    options = Options(args_a="activation=softrelu,epsilon=1e-3", args_b="gelu=tanh")
    report = diff(f"{MXNET}:images", f"{TORCH}:Images", IMAGES, options)
    assert set(whats(report)) == {
        "epsilon of a norm",
        "activation",
        "momentum of running statistics",
        "correction of the running variance",
    }
    assert not report.unexplained


@pytest.mark.framework("pytorch", "mxnet")
def test_gates_of_mxnet_are_paired() -> None:
    report = diff(f"{MXNET}:Gates", f"{TORCH}:Gates", "4x6x5")
    assert report.verdict == "the same"


@pytest.mark.framework("pytorch", "jax")
def test_layers_of_a_function_are_found_in_its_operations(timed: Options) -> None:
    report = diff(f"{TORCH}:plain", f"{JAX}:plain", IMAGES, timed)
    check_times(report)
    assert report.pairs == 2
    assert whats(report) == [
        "padding of a convolution",
        "activation and order of flattened features",
    ]
    assert not report.unexplained


@pytest.mark.framework("pytorch", "jax")
@pytest.mark.parametrize("is_first", [True, False])
def test_a_norm_of_a_function_has_statistics_and_settings(is_first: bool) -> None:
    """Single precision is that of the model, not of a layer; JAX is not changed to a sample's."""
    sides, arguments = [f"{TORCH}:normed", f"{JAX}:normed"], "epsilon=1e-3,momentum=0.02"
    options = Options(args_b=arguments) if is_first else Options(args_a=arguments)
    report = diff(*(sides if is_first else sides[::-1]), "16x7", options)
    assert report.pairs == 3
    correction = ["correction of the running variance"] if is_first else []
    assert whats(report) == [
        "epsilon of a norm",
        "momentum of running statistics",
        *correction,
    ]
    evaluation = report.agreements[0]
    assert evaluation.agreeing == len(evaluation.differences)
    assert bool(report.unexplained) is not is_first


@pytest.mark.framework("pytorch")
def test_random_numbers_in_training_allow_no_verdict() -> None:
    report = diff(f"{TORCH}:Random", f"{TORCH}:Random", "8x7")
    assert report.status == 2
    assert "random numbers" in report.verdict


@pytest.mark.framework("pytorch")
def test_a_recording_is_compared_in_evaluation(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(4, 6))
    tensors = [random.normal(size=shape) for shape in ((6, 6), (6,), (6, 6), (6,), (6, 6), (6,))]
    dump = Dump(str(tmp_path), x)
    stem = x @ tensors[0].T + tensors[1]
    left, right = (stem @ w.T + b for w, b in (tensors[2:4], tensors[4:6]))
    for name, (w, b), given, output in (
        ("stem", tensors[:2], x, stem),
        ("left", tensors[2:4], stem, left),
        ("right", tensors[4:6], stem, right),
    ):
        dump.layer(name, "dense", {"kernel": w, "bias": b}, given, output)
    with pytest.raises(ValueError, match="already"):
        dump.layer("left", "dense", {})
    with pytest.raises(ValueError, match="it has"):
        dump.layer("other", "dense", {"gamma": x})
    dump.save(left + np.sin(right), language="none")
    for swapped, ties in ((False, 0), (True, 2)):
        options = Options(args_a=f"swapped={swapped}")
        report = diff(f"{TORCH}:Branches", f"dump:{tmp_path}", options=options)
        assert (report.status, report.ties) == (0, ties)
        assert report.notes
    relu = FUNCTIONS["ReLU"](ArrayNamespace, right)
    dump.save(left + relu)
    other = diff(f"dump:{tmp_path}", f"{TORCH}:Branches")
    assert other.status == 1
    assert [each.quantity for each in other.unexplained] == ["result"]


def test_wrong_use_is_a_status_of_its_own() -> None:
    for words in (("nothing", "nothing", "--input", "2x3"), ("only one side",), ("--none",)):
        done = command(*words)
        assert done.returncode == 3, done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.framework("pytorch")
def test_a_model_that_fails_allows_no_verdict() -> None:
    done = command("torch:no.such.module:build", f"{TORCH}:Gates", "--input", "2x3x5")
    assert done.returncode == 2
    assert "no verdict: side A (torch:no.such.module:build): " in done.stdout
    assert "No module named 'no'" in done.stdout


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "horizont.cli", "diff", *words],
        capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip


@pytest.mark.framework("pytorch", "tensorflow")
def test_the_epsilon_of_a_norm_without_a_mean_is_found() -> None:
    report = diff(f"{TORCH}:RootMeanSquare", f"{KERAS}:root_mean_square", "2x6:50")
    assert whats(report) == ["epsilon of a norm"]
    assert not report.unexplained


@pytest.mark.framework("pytorch", "tensorflow")
@pytest.mark.parametrize("arguments", cases(["plus_one=True", "epsilon=1e-6"], "plus_one=True"))
def test_a_norm_may_multiply_by_its_weight_plus_one(arguments: str) -> None:
    options = Options(args_a=arguments)
    report = diff(f"{TORCH}:RootMeanSquare", f"{KERAS}:root_mean_square", "2x6:50", options)
    assert report.verdict == "the same"


@pytest.mark.framework("pytorch")
def test_a_layer_in_single_precision_is_named() -> None:
    options = Options(args_b="single=True")
    report = diff(f"{TORCH}:RootMeanSquare", f"{TORCH}:RootMeanSquare", "2x6:50", options)
    assert report.first is not None
    assert report.first.layer == "last"
    assert report.notes == (IN_SINGLE_PRECISION,)
    assert report.status == NOT_THE_SAME

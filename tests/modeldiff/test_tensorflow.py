"""Sides of TensorFlow without Keras: modules, and what was saved of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from horizont.modeldiff import Options, Report, diff
from tests.conftest import EXTENDED, cases

MODELS = Path(__file__).parent / "models"
TORCH = f"torch:{MODELS / 'torch_models.py'}"
MODULE = f"tf:{MODELS / 'tf_models.py'}"
IMAGES = "4x3x16x16"

pytestmark = [pytest.mark.framework("pytorch"), pytest.mark.framework("tensorflow")]


def whats(report: Report) -> set[str]:
    return {cause.candidate.what for cause in report.repairs}


@pytest.mark.parametrize("norm", cases(["fused", "tf.nn", "written"], "fused"))
def test_a_port_is_the_same_however_its_norm_is_written(norm: str) -> None:
    options = Options(args_a="order=last,epsilon=1e-3", args_b=f"norm='{norm}'")
    report = diff(f"{TORCH}:Images", f"{MODULE}:Images", IMAGES, options)
    assert report.status == 0, report
    assert report.pairs == 5
    assert all(each.agreeing == len(each.differences) for each in report.agreements)
    assert [pair.kind for pair in report.layers] == [
        "convolution", "batch norm", "convolution", "dense", "dense",
    ]  # fmt: skip


def test_faults_of_a_module_are_found_with_their_repairs() -> None:
    faults = "epsilon=1e-2,approximate=True,momentum=0.3,scale=0.5,frozen=True"
    report = diff(f"{TORCH}:Images", f"{MODULE}:Images", IMAGES, Options(args_b=faults))
    assert report.status == 1
    assert not report.unexplained, report
    assert whats(report) >= {
        "epsilon of a norm",
        "scale of an input",
        "momentum of running statistics",
        "tensors that are not trained",
    }


def test_a_module_is_changed_to_what_the_other_side_is() -> None:
    faults = "order=last,epsilon=1e-5,momentum=0.2,dilation=2,frozen=True,pooling=mean"
    report = diff(f"{MODULE}:Images", f"{TORCH}:Images", IMAGES, Options(args_b=faults))
    assert report.status == 1
    assert not report.unexplained, report
    assert whats(report) == {
        "epsilon of a norm",
        "dilation of a convolution",
        "pooling",
        "momentum of running statistics",
        "tensors that are not trained",
    }


@pytest.mark.parametrize("norm", cases(["fused", "tf.nn", "written"], "written"))
def test_how_statistics_are_updated_is_recorded(norm: str) -> None:
    options = Options(args_a=f"norm='{norm}',momentum=0.3", args_b="momentum=0.3,order=last")
    report = diff(f"{MODULE}:Images", f"{TORCH}:Images", IMAGES, options)
    assert whats(report) == {"epsilon of a norm"}, "momentum and correction are those of PyTorch"


def test_what_was_saved_is_the_same_in_evaluation() -> None:
    options = Options(args_a="order=last,epsilon=1e-3", accept=("weights",))
    report = diff(f"{TORCH}:Images", f"{MODULE}:saved", IMAGES, options)
    assert report.status == 0, report
    assert report.verdict.startswith("the same in evaluation")
    assert report.pairs == 5


def test_a_norm_that_a_training_does_not_update_is_found(tmp_path: Path) -> None:
    path = tmp_path / "frozen.py"
    path.write_text(
        f"""
import sys

sys.path.insert(0, {str(MODELS)!r})
import tf_models


class Images(tf_models.Images):
    def __call__(self, x):
        return super().__call__(x)
"""
    )
    options = Options(args_a="order=last,epsilon=1e-3")
    report = diff(f"{TORCH}:Images", f"tf:{path}:Images", IMAGES, options)
    assert whats(report) == {"statistics of a norm in training"}, report
    assert not report.unexplained


def test_a_layer_that_is_used_again_is_one_layer(tmp_path: Path) -> None:
    path = tmp_path / "again.py"
    path.write_text(
        """
import tensorflow as tf


class Steps(tf.Module):
    def __init__(self):
        self.inner = tf.Variable(0.3 * tf.random.normal((5, 5)))
        self.bias = tf.Variable(tf.zeros(5))

    def __call__(self, x):
        state = tf.zeros((x.shape[0], 5))
        for step in range(x.shape[1]):
            state = tf.tanh(x[:, step] + state @ self.inner + self.bias)
        return state
"""
    )
    report = diff(f"tf:{path}:Steps", f"tf:{path}:Steps", "4x3x5")
    assert report.status == 0, report
    assert report.pairs == 2


@pytest.mark.parametrize(
    ("norm", "product"),
    [
        ("written", "einsum"),
        ("fused", "matmul"),
        pytest.param("tf.nn", "matmul", marks=EXTENDED),
        pytest.param("tf.nn", "tensordot", marks=EXTENDED),
    ],
)
def test_products_loops_and_branches_are_executed_as_written(norm: str, product: str) -> None:
    options = Options(args_b=f"norm='{norm}',product={product}")
    report = diff(f"{TORCH}:Sequences", f"{MODULE}:Sequences", "3x5:20", options)
    assert report.status == 0, report
    assert [pair.kind for pair in report.layers] == [
        "embedding", "dense", "layer norm", "dense",
    ]  # fmt: skip


@pytest.mark.parametrize("norm", cases(["fused", "tf.nn", "written"], "fused"))
def test_the_epsilon_of_a_layer_norm_is_repaired_in_each_form(norm: str) -> None:
    options = Options(args_a=f"norm='{norm}',epsilon=1e-3")
    report = diff(f"{MODULE}:Sequences", f"{TORCH}:Sequences", "3x5:20", options)
    assert whats(report) == {"epsilon of a norm"}, report
    assert not report.unexplained, report


def test_a_norm_may_update_its_own_statistics() -> None:
    report = diff(f"{MODULE}:Grouped", f"{TORCH}:Grouped", IMAGES)
    assert report.status == 0, report
    assert [pair.kind for pair in report.layers] == [
        "convolution", "convolution", "batch norm", "dense", "other",
    ]  # fmt: skip
    report = diff(f"{TORCH}:Grouped", f"{MODULE}:Grouped", IMAGES, Options(args_b="momentum=0.9"))
    assert whats(report) == {"momentum of running statistics"}, report
    assert not report.without_effect, report
    assert not report.unexplained, report


def test_a_table_may_be_the_last_matrix() -> None:
    report = diff(f"{TORCH}:Tied", f"{MODULE}:Tied", "3x5:20")
    assert report.status == 0, report
    assert [pair.kind for pair in report.layers] == ["embedding", "dense", "dense"]


def test_a_model_of_keras_has_a_prefix_of_its_own() -> None:
    keras = f"tf:{MODELS / 'keras_models.py'}:images"
    report = diff(keras, f"{MODULE}:Images", IMAGES)
    assert report.status == 2
    assert "write keras: before it" in str(report)


def test_dropout_does_not_hide_how_statistics_are_updated(tmp_path: Path) -> None:
    (tmp_path / "original.py").write_text(
        """
from torch import nn


def build():
    return nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.BatchNorm1d(8, eps=1e-3))
"""
    )
    (tmp_path / "port.py").write_text(
        """
import tensorflow as tf


class Port(tf.Module):
    def __init__(self):
        self.kernel, self.bias = tf.Variable(tf.random.normal((6, 8))), tf.Variable(tf.zeros(8))
        self.scale, self.offset = tf.Variable(tf.ones(8)), tf.Variable(tf.zeros(8))
        self.mean = tf.Variable(tf.zeros(8), trainable=False)
        self.variance = tf.Variable(tf.ones(8), trainable=False)

    def __call__(self, x, training=False):
        x = x @ self.kernel + self.bias
        mean, variance = tf.identity(self.mean), tf.identity(self.variance)
        if training:
            x = tf.nn.dropout(x, 0.5)
            mean, variance = tf.nn.moments(x, [0])
            self.mean.assign_add(0.1 * (mean - self.mean))
            self.variance.assign_add(0.1 * (variance - self.variance))
        return tf.nn.batch_normalization(x, mean, variance, self.offset, self.scale, 1e-3)
"""
    )
    report = diff(f"torch:{tmp_path}/original.py:build", f"tf:{tmp_path}/port.py:Port", "8x6")
    assert whats(report) == {"correction of the running variance"}, report
    assert not report.unexplained

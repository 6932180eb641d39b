"""Losses and optimizers of two sides: what each computes, what differs, and what repairs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from horizont.modeldiff import Options, diff, loss_rules
from horizont.modeldiff.losses import given_result
from horizont.modeldiff.optimizers import BOUND, Updated, identified
from horizont.modeldiff.process import RUNNER
from horizont.modeldiff.sides import recorders
from horizont.modeldiff.update_rules import (
    DEFAULTS,
    ROOT,
    SQUARE,
    UNCORRECTED,
    WEIGHT,
    Gradients,
    simulate,
)
from tests.conftest import run_in_framework

MODELS = Path(__file__).parent / "models"
ANY = {"rule": "SGD", "learning rate": 0.1}

#: Settings that only the updates show: by framework, case and tensor.
FOUND: dict[str, dict[str, dict[str, Any]]] = {
    "torch": {
        "momentum": {"momentum": 0.9, "dampening": 0.3, "weight decay": 0.1},
        "Adam": {"beta 1": 0.8, "beta 2": 0.95, "place of the epsilon": ROOT},
        "AMSGrad": {"maximum of squares": True},
        "maximized": {"maximize": True, "momentum": 0.9},
        "AdamW": {"weight decay": 0.01, "place of the weight decay": WEIGHT, "epsilon": 1e-5},
        "of a user": {"rule": "Adam", "bias correction": False},
        "RMSprop": {"smoothing": 0.99, "momentum": 0.5, "place of the epsilon": ROOT},
        "centered": {"centered": True},
        "Adagrad": {"initial accumulator": 0.2},
    },
    "keras": {
        "SGD": {"momentum": 0.9, "Nesterov momentum": True},
        "Adam": {"clipping": ["by value", 0.5], "place of the epsilon": UNCORRECTED},
        "AdamW": {"clipping": ["by global norm", 0.5], "place of the weight decay": WEIGHT},
        "RMSprop": {"clipping": ["by norm", 0.5], "place of the epsilon": SQUARE},
        "Adagrad": {"initial accumulator": 0.1},
    },
    "mxnet": {
        "SGD": {"momentum": 0.9, "weight decay": 0.1},
        "Nesterov": {"Nesterov momentum": True},
        "Adam": {"clipping": ["by value", 0.5], "place of the epsilon": UNCORRECTED},
    },
    "jax": {
        "SGD": {"momentum": 0.9, "Nesterov momentum": True},
        "clipped": {"clipping": ["by global norm", 0.5]},
        "RMSprop": {"initial accumulator": 0.3, "place of the epsilon": SQUARE},
        "Adagrad": {"initial accumulator": 0.1},
    },
}

#: Cases in which the bias is not updated as the matrix is.
OF_BIAS = {
    ("torch", "groups"): {"weight decay": 0.0},
    ("torch", "forgotten"): {"rule": "none"},
    ("keras", "decay"): {"weight decay": 0.0},
    ("jax", "AdamW"): {"weight decay": 0.0},
}


#: What is found of each loss, where it is not a cross entropy of logits with its mean.
LOSSES: dict[str, dict[str, dict[str, Any]]] = {
    "torch": {
        "plain": {},
        "sum": {"reduction": "sum", "label smoothing": 0.1},
        "ignored": {"ignored classes": [0]},
        "twice": {"input": loss_rules.SOFTMAX},
        "logarithms": {"input": loss_rules.LOGARITHMS},
        "own": {"input": loss_rules.UNSCALED},
        "squared": {"loss": loss_rules.SQUARED_ERROR, "reduction": "mean of all elements"},
        "steps": {"reduction": "sum of steps, mean of examples", "ignored classes": [0]},
        "counted steps": {
            "reduction": "mean that counts ignored classes", "ignored classes": [0],
        },
        "weighted": {loss_rules.CLASS_WEIGHTS: [1, 4, 2]},
        "weighted sum": {loss_rules.CLASS_WEIGHTS: [1, 4, 2], "reduction": "sum"},
        "number": {"loss": loss_rules.SQUARED_ERROR},
        "number, absolute": {"loss": loss_rules.ABSOLUTE_ERROR, "reduction": "sum"},
        "number, binary": {"loss": loss_rules.BINARY, loss_rules.CLASS_WEIGHTS: [1, 3]},
        "number, probability": {"loss": loss_rules.BINARY, "input": loss_rules.PROBABILITIES},
    },
    "keras": {
        "plain": {},
        "by name": {"input": loss_rules.PROBABILITIES},
        "smoothed": {"label smoothing": 0.2},
        "sum": {"reduction": "sum"},
        "squared": {"loss": loss_rules.SQUARED_ERROR, "reduction": "mean of all elements"},
        "binary": {"loss": loss_rules.BINARY, "reduction": "mean of all elements"},
        "steps": {},
        "number": {"loss": loss_rules.SQUARED_ERROR},
        "number, binary": {"loss": loss_rules.BINARY, "label smoothing": 0.2},
        "number, probability": {"loss": loss_rules.BINARY, "input": loss_rules.PROBABILITIES},
    },
    "mxnet": {
        "plain": {},
        "one for each class": {},
        "logarithms": {"input": loss_rules.LOGARITHMS},
        "squared": {"loss": loss_rules.SQUARED_ERROR, "reduction": "half the mean of all elements"},
        "number": {"loss": loss_rules.ABSOLUTE_ERROR},
        "number, binary": {"loss": loss_rules.BINARY},
    },
    "jax": {
        "plain": {},
        "one for each class": {},
        "smoothed": {"label smoothing": 0.1},
        "squared": {"loss": loss_rules.SQUARED_ERROR, "reduction": "mean of all elements"},
        "number": {"loss": loss_rules.SQUARED_ERROR},
        "number, binary": {"loss": loss_rules.BINARY},
    },
}  # fmt: skip
PLAIN = {
    "loss": loss_rules.CROSS_ENTROPY, "input": loss_rules.LOGITS, "label smoothing": 0.0,
    loss_rules.CLASS_WEIGHTS: None,
    "reduction": "mean", "ignored classes": [], loss_rules.SEPARATE_MEANS: 1,
}  # fmt: skip


@pytest.mark.parametrize(
    "prefix",
    [
        pytest.param(prefix, marks=pytest.mark.framework(framework))
        for prefix, framework in (
            ("torch", "pytorch"), ("keras", "tensorflow"), ("mxnet", "mxnet"), ("jax", "jax"),
        )
    ],
)  # fmt: skip
def test_rules_compute_what_the_frameworks_do(prefix: str, tmp_path: Path) -> None:
    framework, recorder = recorders()[prefix]
    shapes = {"rows": (4, 3), "steps": (4, 5, 3), "numbers": (4, 1)}
    given = {name: given_result(shape) for name, shape in shapes.items()}
    for name, (result, classes) in given.items():
        np.savez(tmp_path / f"{name}.npz", result=result, classes=classes)
    program = MODELS / "recorded_training.py"
    run_in_framework(framework, program, prefix, recorder, RUNNER, tmp_path)
    check_losses(prefix, tmp_path, given)
    rules = json.loads((tmp_path / "rules.json").read_text())
    for case, hints in rules.items():
        updated, gradients = read_updates(tmp_path / f"{case}.npz")
        found = identified(hints, updated, gradients)
        if case == "unknown":
            assert found is None
            continue
        assert found is not None, (case, hints)
        kernel = next(rule for key, rule in found.items() if key.endswith("kernel"))
        bias = next(rule for key, rule in found.items() if key.endswith("bias"))
        expected = FOUND[prefix].get(case, {})
        assert {key: kernel[key] for key in expected} == expected, case
        expected = OF_BIAS.get((prefix, case), dict(kernel))
        assert {key: bias[key] for key in expected} == expected, case
    assert FOUND[prefix].keys() < rules.keys()


def check_losses(prefix: str, folder: Path, given: dict[str, Any]) -> None:
    recorded = sorted(path.stem for path in folder.glob("loss of *.npz"))
    names = [name.removeprefix("loss of ") for name in recorded]
    assert set(LOSSES[prefix]) == set(names) - {"unknown"}
    for name in names:
        with np.load(folder / f"loss of {name}.npz") as file:
            loss, gradient = float(file["loss"]), file["gradient"]
        kind = next((kind for kind in ("step", "number") if kind in name), "row")
        result, classes = given[f"{kind}s"]
        found = loss_rules.identified(result, classes, loss, gradient)
        if found is not None and (weights := found[loss_rules.CLASS_WEIGHTS]):
            # Only the relative size of the weights of a mean is known.
            relative = [round(each / min(weights.values()), 4) for each in weights.values()]
            found = {**found, loss_rules.CLASS_WEIGHTS: relative}
        expected = None if name == "unknown" else {**PLAIN, **LOSSES[prefix][name]}
        assert found == expected, name
        wrong = loss_rules.identified(result, classes, loss, gradient * (1 + 1e-4 * result))
        assert wrong is None


def read_updates(path: Path) -> tuple[Updated, list[Gradients]]:
    with np.load(path) as file:
        arrays = dict(file)
    names = [key.removeprefix("start|") for key in arrays if key.startswith("start|")]
    updated = {key: (arrays[f"start|{key}"], arrays[f"after|{key}"]) for key in names}
    steps = range((len(arrays) - 2 * len(names)) // len(names))
    gradients = [{key: arrays[f"{step}|{key}"] for key in names} for step in steps]
    return updated, list(map(Gradients, gradients))


def one_update(gradient: float, *more: float, **settings: Any) -> float:
    """Return a weight of 1 after an update with each gradient."""
    rule = {**ANY, **{key.replace("_", " "): value for key, value in settings.items()}}
    gradients = [Gradients({"w": np.array([each])}) for each in (gradient, *more)]
    complete = {**DEFAULTS[rule["rule"]], **rule}
    return float(simulate({"w": complete}, {"w": np.ones(1)}, gradients)["w"][0])


def test_rules_by_hand() -> None:
    assert one_update(2.0) == pytest.approx(0.8)
    assert one_update(2.0, weight_decay=0.5) == pytest.approx(0.75)
    decoupled = {"weight_decay": 0.5, "place_of_the_weight_decay": WEIGHT}
    assert one_update(2.0, **decoupled) == pytest.approx(0.75)
    assert one_update(2.0, 2.0, momentum=0.5) == pytest.approx(1 - 0.2 - 0.3)
    nesterov = {"momentum": 0.5, "Nesterov_momentum": True}
    assert one_update(2.0, **nesterov) == pytest.approx(1 - 0.1 * 3)
    # The first update of Adam is the sign of the gradient, whatever its size is.
    assert one_update(2e-3, rule="Adam", epsilon=0.0) == pytest.approx(0.9)
    assert one_update(2.0, rule="Adam", epsilon=2.0) == pytest.approx(0.95)
    uncorrected = one_update(2.0, rule="Adam", epsilon=0.0, bias_correction=False)
    assert uncorrected == pytest.approx(1 - 0.1 * 0.1 / 0.001**0.5)
    # RMSprop: the square is a tenth of 4; Adagrad: 4, then 8.
    assert one_update(2.0, rule="RMSprop", epsilon=0.0) == pytest.approx(1 - 0.1 * 2 / 0.4**0.5)
    expected = 1 - 0.1 - 0.1 * 2 / 8**0.5
    assert one_update(2.0, 2.0, rule="Adagrad", epsilon=0.0) == pytest.approx(expected)
    in_square = {"epsilon": 5.0, "place_of_the_epsilon": SQUARE}
    assert one_update(2.0, rule="Adagrad", **in_square) == pytest.approx(1 - 0.1 * 2 / 3)
    assert one_update(2.0, clipping=["by norm", 0.5]) == pytest.approx(0.95)
    assert one_update(2.0, rule="none") == 1.0


def test_a_rule_that_does_not_compute_the_updates_is_not_believed() -> None:
    gradients = [Gradients({"w": np.array([1.0, 2.0])})]
    right = {"w": (np.ones(2), np.array([0.9, 0.8]))}
    assert identified({"w": ANY}, right, gradients) is not None
    wrong = {"w": (np.ones(2), np.array([0.9, 0.8 - 10 * BOUND]))}
    assert identified({"w": ANY}, wrong, gradients) is None


@pytest.mark.framework("pytorch")
def test_losses_that_are_not_finite_or_zero(tmp_path: Path) -> None:
    path = tmp_path / "losses.py"
    path.write_text(
        """
from torch import nn

def build(factor):
    return nn.Linear(8, 3), lambda result, classes: (result * factor).sum()
"""
    )
    side = f"torch:{path}:build"
    for factor in ("0.0", "1e999"):
        report = diff(side, side, "4x8", Options(args_a="factor=1.0", args_b=f"factor={factor}"))
        assert report.status == 1
        assert {each.quantity for each in report.unexplained} >= {"gradient of the loss"}
        assert report.notes == ("the loss of side A is none that Horizont knows",)


@pytest.mark.framework("pytorch")
def test_a_loss_that_fails_leaves_no_verdict(tmp_path: Path) -> None:
    path = tmp_path / "losses.py"
    path.write_text(
        """
from torch import nn

def build(slope=1.0):
    loss = nn.CrossEntropyLoss()
    model = nn.Sequential(nn.Linear(8, 3), nn.LeakyReLU(slope))
    return model, lambda result, classes: loss(result.flatten(0, 2), classes)
"""
    )
    side = f"torch:{path}:build"
    report = diff(side, side, "4x8")
    assert report.status == 2
    assert report.unknown.startswith("the losses were not compared: side A")
    report = diff(side, side, "4x8", Options(args_b="slope=0.1"))
    assert report.status == 1
    assert any("the losses were not compared" in note for note in report.notes)


@pytest.mark.framework("pytorch")
@pytest.mark.framework("tensorflow")
def test_losses_and_optimizers_of_two_frameworks(tmp_path: Path) -> None:
    (tmp_path / "ported.py").write_text(_TORCH)
    (tmp_path / "original.py").write_text(_KERAS)
    report = diff(f"torch:{tmp_path}/ported.py:build", f"keras:{tmp_path}/original.py:build", "4x8")
    settings = {
        cause.candidate.what: (cause.candidate.value_a, cause.candidate.value_b)
        for cause in report.repairs
    }
    assert settings == {
        "epsilon of the optimizer": ("1e-08", "1e-07"),
        "place of the epsilon of the optimizer": (ROOT, UNCORRECTED),
        "weight decay of the optimizer": ("0", "0.1"),
        "learning rate of the optimizer": ("0.001", "0.01"),
        "input of the loss": (loss_rules.LOGITS, loss_rules.PROBABILITIES),
        "label smoothing of the loss": ("0.1", "0"),
    }
    assert not report.unexplained
    assert report.status == 1
    assert "updates by the optimizers: 4 of 4 tensors agree" in str(report)
    assert "the losses: 2 of 2 tensors agree" in str(report)
    assert len(report.lines()) <= 25
    (decay,) = [c.candidate for c in report.repairs if c.candidate.value_b == "0.1"]
    assert decay.layers == ("0: kernel", "2: kernel")


@pytest.mark.framework("pytorch")
def test_one_side_alone_has_an_optimizer(tmp_path: Path) -> None:
    path = tmp_path / "ported.py"
    path.write_text(_TORCH)
    report = diff(f"torch:{path}:build", f"torch:{path}:model", "4x8")
    assert report.notes == (
        "only side A has a loss of its own",
        "only side A has an optimizer of its own: updates were compared by SGD alone",
    )
    assert report.status == 0


_TORCH = """
import torch
from torch import nn

def model():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))

def build():
    built = model()
    optimizer = torch.optim.AdamW(built.parameters(), lr=0.001, weight_decay=0.0)
    return built, optimizer, nn.CrossEntropyLoss(label_smoothing=0.1)
"""

_KERAS = """
import keras

def build():
    model = keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(3)]
    )
    optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy")
    return model
"""

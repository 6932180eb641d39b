"""Attention in one layer on one side, and in several on the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from horizont.modeldiff import Options, Report, diff
from horizont.modeldiff.divisions import find_divisions
from horizont.modeldiff.pairing import flattened
from horizont.modeldiff.recording import Layer
from horizont.modeldiff.report import NOT_THE_SAME
from tests.conftest import EXTENDED, cases

MODELS = Path(__file__).parent / "models"
TORCH = f"torch:{MODELS / 'attention_models.py'}"
INPUT = "2x6:50"


def dense(name: str, outputs: int, inputs: int = 4) -> Layer:
    return Layer(name, "dense", {"kernel": (outputs, inputs), "bias": (outputs,)})


ONE = [dense("qkv", 12), dense("out", 4), dense("head", 3)]


def with_names(*names: str) -> list[Layer]:
    return [*(dense(f"block.{name}", 4) for name in names), dense("out", 4), dense("head", 3)]


def recorded(layers: list[Layer]) -> dict[str, np.ndarray]:
    """Return a run in which all layers but the last have the same input."""
    return {f"input|{each.name}": np.full(4, each is layers[-1]) for each in layers}


def divisions(layers: list[Layer], others: list[Layer]) -> dict[str, object]:
    return dict(find_divisions(layers, others, lambda: recorded(others)))


def test_rows_have_the_order_in_which_the_other_side_executes_its_layers() -> None:
    for names, rows in {
        ("query", "key", "value"): [[0, 4], [4, 8], [8, 12]],
        ("k_proj", "v_proj", "q_proj"): [[4, 8], [8, 12], [0, 4]],
        ("first", "second", "third"): [[0, 4], [4, 8], [8, 12]],
    }.items():
        assert divisions(ONE, with_names(*names)) == {"qkv": rows}
        assert divisions(with_names(*names), ONE) == {}


def test_attention_is_divided_if_the_other_side_has_none() -> None:
    attention = Layer("self", "attention", {"query kernel": (4, 4)})
    others = with_names("key", "value", "query")
    assert divisions([attention, ONE[-1]], others) == {"self": ["key", "value", "query", "output"]}
    assert divisions([attention], [attention]) == {}


def test_layers_that_follow_each_other_are_not_parts_of_one() -> None:
    others = with_names("query", "key", "value")
    chain = {f"input|{each.name}": np.full(4, n) for n, each in enumerate(others)}
    assert find_divisions(ONE, others, lambda: chain) == {}


def test_other_shapes_are_not_divided() -> None:
    assert divisions([dense("qkv", 11), *ONE[1:]], with_names("q", "k", "v")) == {}
    assert divisions([dense("qkv", 12, 5), *ONE[1:]], with_names("q", "k", "v")) == {}


def test_an_axis_of_equal_examples_is_the_same_as_none() -> None:
    places = np.arange(6.0)
    assert flattened(places, np.zeros((2, 6))).shape == (2, 6)
    assert flattened(np.stack([places, places]), places).shape == (6,)
    assert flattened(np.stack([places, places + 1]), places).shape == (2, 6)


def whats(report: Report) -> list[str]:
    return [cause.candidate.what for cause in report.repairs]


@pytest.mark.framework("pytorch")
@pytest.mark.parametrize(
    ("a", "b", "args_a", "args_b"),
    [
        ("one", "three", "", "order='kvq'"),
        ("layer", "one", "batch_first=False", ""),
        pytest.param("three", "layer", "order='vqk',causal=True", "causal=True", marks=EXTENDED),
        pytest.param("transposed", "one", "", "", marks=EXTENDED),
    ],
)
def test_attention_may_be_in_one_layer_or_in_several(
    a: str, b: str, args_a: str, args_b: str
) -> None:
    options = Options(args_a=args_a, args_b=args_b)
    report = diff(f"{TORCH}:{a}", f"{TORCH}:{b}", INPUT, options)
    assert report.verdict == "the same", report.lines()
    assert report.pairs == (10 if {a, b} == {"transposed", "one"} else 14)
    assert report.agreements[0].largest < 1e-14


@pytest.mark.framework("pytorch")
def test_a_layer_of_a_class_that_changes_it_is_not_divided() -> None:
    report = diff(f"{TORCH}:doubled", f"{TORCH}:three", INPUT)
    assert report.only_a == ("blocks.0.1.qkv", "blocks.1.1.qkv")
    assert len(report.only_b) == 6
    assert report.status == NOT_THE_SAME


@pytest.mark.framework("pytorch")
@pytest.mark.parametrize("is_swapped", cases([False, True], True))
def test_any_scale_of_attention_is_found(is_swapped: bool) -> None:
    sides, arguments = [f"{TORCH}:one", f"{TORCH}:three"], ["", "scale=0.3"]
    order = -1 if is_swapped else 1
    args_a, args_b = arguments[::order]
    report = diff(*sides[::order], INPUT, Options(args_a=args_a, args_b=args_b))
    (cause,) = report.repairs
    values = ("0.353553", "0.3")[::order]
    found = cause.candidate
    assert (found.what, found.value_a, found.value_b) == ("scale of attention", *values)
    assert not report.unexplained


@pytest.mark.framework("pytorch")
def test_an_embedding_of_one_side_alone_is_zero() -> None:
    report = diff(f"{TORCH}:Kinds", f"{TORCH}:words", INPUT)
    assert (report.only_a, report.only_b) == (("kinds",), ())
    assert not report.unexplained
    assert report.verdict == "not the same: 1 layer or tensor of one side alone"


@pytest.mark.framework("pytorch", "tensorflow")
@pytest.mark.parametrize("is_swapped", cases([False, True], True))
def test_attention_of_keras_is_divided(is_swapped: bool) -> None:
    sides = [f"{TORCH}:words", f"keras:{MODELS / 'keras_models.py'}:attention"]
    report = diff(*sides[:: -1 if is_swapped else 1], INPUT)
    assert whats(report) == ["scale of attention"]
    assert report.repairs[0].candidate.of_framework, "Keras rounds it to single precision"
    assert not report.unexplained
    assert report.pairs == 12

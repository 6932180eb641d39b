"""Ports between frameworks with usual mistakes, and ports without any that look otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from horizont.modeldiff import Options, Report, diff
from tests.conftest import EXTENDED, cases

MODELS = Path(__file__).parent / "models"
PORT = f"torch:{MODELS / 'port_models.py'}"
RECENT = f"torch:{MODELS / 'recent_models.py'}"
KERAS = f"keras:{MODELS / 'port_originals.py'}"
JAX = f"jax:{MODELS / 'port_functions.py'}"

IMAGES, FEATURES, WORDS, STEPS = "2x3x8x8", "4x8", "3x7:50", "4x6x8"


def compared(a: str, b: str, batch: str, args_a: str = "", args_b: str = "") -> Report:
    return diff(a, b, batch, Options(args_a=args_a, args_b=args_b))


def causes(report: Report) -> list[str]:
    found = [cause.candidate for cause in report.repairs]
    return [f"{each.what}: {each.value_a} against {each.value_b}" for each in found]


@pytest.mark.parametrize(
    ("b", "args_a", "args_b"),
    [
        (f"{KERAS}:heads", "", ""),
        pytest.param(f"{KERAS}:heads", "form='dict'", "form='dict'", marks=EXTENDED),
        (f"{PORT}:Heads", "form='reversed'", "form='dict'"),
        pytest.param(f"{JAX}:heads", "", "", marks=EXTENDED),
    ],
)
def test_results_in_the_same_place_are_compared(b: str, args_a: str, args_b: str) -> None:
    report = compared(f"{PORT}:Heads", b, FEATURES, args_a, args_b)
    assert report.status == 0, report
    keys = {each.key for agreement in report.agreements for each in agreement.differences}
    assert {"result", "training result"} < keys
    assert sum(key.startswith("result|") for key in keys) == 1
    assert "gradient|c|kernel" in keys
    assert not report.left_out
    squashed = f"{args_a}, squashed=False".removeprefix(", ")
    report = compared(f"{PORT}:Heads", b, FEATURES, squashed, args_b)
    assert report.status == 1
    assert report.unexplained[0].key.startswith("result|")
    assert "unexplained: result [" in str(report)


@pytest.mark.parametrize(
    ("a", "key"),
    [
        (f"{PORT}:Heads", "logits"),
        pytest.param(f"{PORT}:Heads", "last_hidden_state", marks=EXTENDED),
        pytest.param(f"{KERAS}:heads", "logits", marks=EXTENDED),
        (f"{JAX}:heads", "logits"),
    ],
)
def test_the_logits_of_a_dictionary_are_its_first_result(a: str, key: str) -> None:
    report = compared(a, f"{PORT}:Heads", FEATURES, f"form='{key}'", "form='one'")
    assert (report.status, report.verdict) == (0, "the same, further results not compared")
    assert f"compared are ['{key}'] of A and the only one of B" in str(report)


def test_complex_parameters_of_a_function_have_no_verdict() -> None:
    report = compared(f"{JAX}:complex_numbers", f"{JAX}:complex_numbers", FEATURES)
    assert report.status == 2
    assert "kernel has complex numbers, which are not compared" in report.unknown


@pytest.mark.parametrize("plus_one", [True, pytest.param(False, marks=EXTENDED)])
def test_a_norm_of_keras_may_multiply_by_its_weight_plus_one(*, plus_one: bool) -> None:
    report = compared(f"{RECENT}:norm", f"{KERAS}:norm", FEATURES, args_b=f"plus_one={plus_one}")
    assert report.verdict == "the same"
    text = "0 norms of A and 1 norm of B multiply by their weight plus one"
    assert [note.startswith(text) for note in report.notes] == ([True] if plus_one else [])


def test_both_directions_of_a_recurrent_layer_are_ported() -> None:
    report = compared(f"{RECENT}:directions", f"{KERAS}:directions", STEPS, "step=last")
    step, biases = causes(report)
    assert step == "reduction of steps of a concatenated part: the first against the last"
    assert biases.startswith("biases of a recurrent layer")
    assert not report.unexplained


def test_what_is_left_out_is_named_in_the_verdict() -> None:
    report = compared(f"{PORT}:Heads", f"{PORT}:Heads", FEATURES, "form='one'")
    assert (report.status, report.verdict) == (0, "the same, further results not compared")
    assert "the models return several tensors, 1 in A, 2 in B" in str(report)
    report = compared(f"{PORT}:Dropped", f"{PORT}:Dropped", FEATURES, "rate=0.5", "rate=0.0")
    assert (report.status, report.verdict) == (0, "the same, dropout not compared")
    assert "dropout is disabled; its layers differ: 0.5 in A, none in B" in str(report)
    report = compared(f"{PORT}:half", f"{PORT}:Dropped", FEATURES, args_b="rate=0.0")
    assert (report.status, report.verdict) == (0, "the same, precision not compared")
    assert "float16 in A, none in B" in str(report)


@pytest.mark.parametrize(
    "slopes", [(0.2, 0.2), (0.01, 0.3), pytest.param((0.07, 0.13), marks=EXTENDED)]
)
def test_a_slope_that_keras_rounds_is_found(slopes: tuple[float, float]) -> None:
    args_a, args_b = (f"slope={slope}" for slope in slopes)
    report = compared(f"{PORT}:Leaky", f"{KERAS}:leaky", FEATURES, args_a, args_b)
    one, other = (f"leaky ReLU, slope {slope}" for slope in slopes)
    assert causes(report) == [f"activation: {one} against {other}, constants in single"]
    assert not report.unexplained
    assert report.repairs[0].candidate.of_framework == (slopes[0] == slopes[1])


def test_a_group_norm_with_channels_last_is_the_same() -> None:
    report = compared(f"{PORT}:Grouped", f"{KERAS}:grouped", IMAGES)
    assert (report.status, report.verdict) == (0, "the same")


def test_an_interpolation_in_single_precision_hides_no_mistake() -> None:
    report = compared(f"{PORT}:Larger", f"{KERAS}:larger", IMAGES)
    assert (report.status, report.verdict) == (0, "the same, double precision not compared")
    assert "one side computes the input of o in single precision" in str(report)
    report = compared(f"{PORT}:Larger", f"{KERAS}:larger", IMAGES, "aligned=True")
    assert causes(report) == ["interpolation: linear, corners aligned against linear"]
    assert not report.unexplained
    report = compared(f"{PORT}:Larger", f"{KERAS}:larger", IMAGES, "mode='nearest', aligned=None")
    assert causes(report) == ["interpolation: nearest against linear"]


def test_words_in_single_precision_hide_no_difference() -> None:
    report = compared(f"{PORT}:Tokens", f"{PORT}:Tokens", WORDS, "scale=0.9999999")
    assert causes(report) == ["scale of an input: x against 1.0000001 x"]
    report = compared(f"{PORT}:Tokens", f"{PORT}:Tokens", WORDS, "scale=0.1, epsilon=1e-8")
    assert "epsilon of a norm: 1e-08 against 1e-12" in causes(report)
    assert not report.left_out


def test_what_a_transposed_convolution_cuts_is_found() -> None:
    report = compared(f"{PORT}:Transposed", f"{KERAS}:transposed", IMAGES)
    assert (report.status, report.verdict) == (0, "the same")
    report = compared(f"{PORT}:Transposed", f"{KERAS}:transposed", IMAGES, "cut=False")
    assert causes(report) == ["cropping of a transposed convolution: (1, 0) against (0, 1)"]
    assert not report.unexplained


@pytest.mark.parametrize("is_swapped", [False, pytest.param(True, marks=EXTENDED)])
def test_features_that_become_images_in_another_order_are_found(is_swapped: bool) -> None:
    sides = [f"{PORT}:Decoder", f"{KERAS}:decoder"]
    report = compared(*(sides[::-1] if is_swapped else sides), FEATURES)
    both = ["channels first", "channels last"]
    one, other = both[::-1] if is_swapped else both
    assert causes(report) == [f"order of features that become images: {one} against {other}"]
    assert not report.unexplained


def test_a_scale_of_a_function_is_no_norm() -> None:
    report = compared(f"{PORT}:Scaled", f"{JAX}:scaled", FEATURES)
    assert (report.status, report.pairs) == (0, 3), report


def test_where_a_gru_resets_is_named() -> None:
    assert compared(f"{PORT}:Gated", f"{KERAS}:gated", WORDS).status == 0
    report = compared(f"{PORT}:Gated", f"{KERAS}:gated", WORDS, args_b="reset_after=False")
    assert report.status == 1
    assert "reset gate of a GRU: after the product against before the product" in str(report)


def test_weights_that_are_tied_on_one_side_are_named() -> None:
    port = f"{PORT}:Tied"
    assert compared(port, port, WORDS).status == 0
    report = compared(port, port, WORDS, args_b="tied=False")
    assert report.unexplained
    assert "weights: one tensor against separate tensors in i and 1 more" in report.notes[0]


def test_numbers_that_are_not_finite_allow_no_verdict() -> None:
    report = compared(f"{PORT}:Infinite", f"{PORT}:Infinite", FEATURES)
    assert report.unknown == "on both sides, the input of b has values that are not finite"


@pytest.mark.parametrize("b", cases([f"{PORT}:normed", f"{JAX}:normed"], f"{PORT}:normed"))
def test_a_norm_of_a_model_itself_is_paired_with_that_of_a_library(b: str) -> None:
    report = compared(f"{PORT}:normed", b, FEATURES, "own=True")
    assert (report.status, report.verdict, report.pairs) == (0, "the same", 3), report


def test_the_number_of_groups_is_found() -> None:
    assert compared(f"{PORT}:by_groups", f"{KERAS}:by_groups", IMAGES).status == 0
    report = compared(f"{PORT}:by_groups", f"{KERAS}:by_groups", IMAGES, "groups=2")
    assert causes(report) == ["number of groups: 2 against 4"]
    assert not report.unexplained
    same = compared(f"{PORT}:by_groups", f"{PORT}:by_groups", IMAGES, "groups=8", "by_channel=True")
    assert same.status == 0, same


def test_kernels_that_are_computed_from_others_can_be_compared() -> None:
    report = compared(f"{PORT}:weight_normed", f"{PORT}:weight_normed", IMAGES)
    assert (report.status, report.verdict) == (0, "the same"), report


def test_a_rule_that_remembers_large_gradients_is_found() -> None:
    report = compared(f"{PORT}:trained", f"{PORT}:trained", FEATURES, "amsgrad=True")
    assert causes(report) == ["maximum of squares of the optimizer: True against False"]
    assert not report.unexplained


def test_two_numbers_of_a_channel_show_no_scale() -> None:
    report = compared(f"{PORT}:Squeezed", f"{PORT}:Squeezed", IMAGES, "largest=True")
    assert report.status == 1
    assert not any("scale of an input" in cause for cause in causes(report))


@pytest.mark.parametrize("b", cases([f"{PORT}:Joined", f"{KERAS}:joined"], f"{KERAS}:joined"))
def test_the_order_of_branches_side_by_side_is_found(b: str) -> None:
    assert compared(f"{PORT}:Joined", b, FEATURES).status == 0
    report = compared(f"{PORT}:Joined", b, FEATURES, "exchanged=True")
    assert causes(report) == ["order of concatenated parts: b, a against a, b"]
    assert not report.unexplained


@pytest.mark.parametrize(
    ("own", "theirs"),
    [
        ("last", "mean"),
        pytest.param("mean", "last", marks=EXTENDED),
        pytest.param("max", "mean", marks=EXTENDED),
        pytest.param("first", "max", marks=EXTENDED),
    ],
)
def test_the_reduction_of_steps_is_found(own: str, theirs: str) -> None:
    port, original = f"{PORT}:Recurrent", f"{KERAS}:recurrent"
    right, wrong = f"reduction='{theirs}'", f"reduction='{own}'"
    biases = "biases of a recurrent layer: 2 against 1"
    assert causes(compared(port, original, WORDS, right, right)) == [biases]
    report = compared(port, original, WORDS, wrong, right)
    names = {"max": "the maximum"}
    one, other = (names.get(each, f"the {each}") for each in (own, theirs))
    assert causes(report) == [f"reduction of steps: {one} against {other}", biases]
    assert not report.unexplained


def test_weights_of_classes_are_found() -> None:
    port = f"{PORT}:weighted"
    report = compared(port, port, FEATURES, "weights=(0.5, 2.0, 1.0)")
    assert causes(report) == ["class weights of the loss: 1, 4, 2 against none"]
    assert not report.unexplained


def test_losses_of_one_number_are_compared() -> None:
    port, original = f"{PORT}:weighted", f"{KERAS}:predicted"
    assert compared(port, original, FEATURES, "kind='binary'", "loss=''").status == 0
    for kind in ("absolute", "of a column"):
        assert compared(port, original, FEATURES, f"kind='{kind}'", "loss='mae'").status == 0
    report = compared(port, original, FEATURES, "kind='squared'", "loss='mae'")
    assert causes(report) == ["loss: squared error against absolute error"]
    assert not report.unexplained


@pytest.mark.parametrize(
    ("b", "joint"),
    [
        (f"{PORT}:GatedUnit", False),
        pytest.param(f"{PORT}:GatedUnit", True, marks=EXTENDED),
        pytest.param(f"{JAX}:gated_unit", False, marks=EXTENDED),
        pytest.param(f"{JAX}:gated_unit", True, marks=EXTENDED),
    ],
)
def test_what_gates_a_linear_unit_is_found(b: str, joint: bool) -> None:
    form = f"joint={joint}"
    assert compared(f"{PORT}:GatedUnit", b, FEATURES, form, form).status == 0
    exchanged = compared(f"{PORT}:GatedUnit", b, FEATURES, f"{form},exchanged=True", form)
    both = ("the second half of a", "the first half of a") if joint else ("u", "g")
    expected = f"argument of SiLU in a product: {both[0]} against {both[1]}"
    assert causes(exchanged) == [expected]
    assert not exchanged.unexplained
    other = compared(f"{PORT}:GatedUnit", b, FEATURES, f"{form},tanh=True", form)
    assert causes(other) == ["activation in a product: tanh against SiLU"]
    assert not other.unexplained


@pytest.mark.parametrize(
    ("mistake", "cause"),
    [
        pytest.param(
            "reduction='mean'",
            "pooling of a concatenated part: mean against max",
            marks=EXTENDED,
        ),
        pytest.param(
            "widths=(5, 4, 3)",
            "order of concatenated parts: c.2, c.1, c.0 against c.0, c.1, c.2",
            marks=EXTENDED,
        ),
        (
            "widths=(5, 4, 3), reduction='mean'",
            "order of concatenated parts and pooling of a concatenated part: "
            "c.2, c.1, c.0, mean against c.0, c.1, c.2, max",
        ),
    ],
)
def test_what_is_concatenated_is_found(mistake: str, cause: str) -> None:
    port, original = f"{PORT}:Windows", f"{KERAS}:windows"
    assert compared(port, original, WORDS).status == 0
    report = compared(port, original, WORDS, mistake)
    assert causes(report) == [cause]
    assert not report.unexplained

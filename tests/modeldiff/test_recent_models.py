"""Attention of recent language models, gates and norms of a port; callables without a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from horizont.errors import UserError
from horizont.modeldiff import Options, diff

pytestmark = pytest.mark.framework("pytorch")

MODELS = f"torch:{Path(__file__).with_name('models') / 'recent_models.py'}"


@pytest.mark.parametrize(
    ("arguments", "difference"),
    [
        ("group=interleaved", "heads of a group: interleaved against adjacent"),
        (
            "pairs=adjacent,base=500000.0",
            "pairs of features in the rotary embedding and base of the rotary embedding: "
            "adjacent, 500000 against halves, 10000",
        ),
        (
            "pairs=None",
            "pairs of features in the rotary embedding and base of the rotary embedding: "
            "none, none against halves, 10000",
        ),
        ("share=0.5", "rotated features of a head: 4 against 8"),
    ],
)
def test_another_attention_is_repaired(arguments: str, difference: str) -> None:
    options = Options(args_a=arguments)
    report = diff(f"{MODELS}:rotary", f"{MODELS}:rotary", "4x6:50", options)
    (cause,) = report.repairs
    assert str(cause.candidate).startswith(difference)
    assert report.verdict == "not the same: 1 difference explained"


@pytest.mark.parametrize(
    ("before", "after"),
    [("", "frequencies in single"), ("", "tables in single"), ("frequencies", "tables in single")],
)
def test_the_precision_of_a_rotation_is_repaired(before: str, after: str) -> None:
    options = Options(args_a=f"precision='{before}'", args_b=f"precision='{after.split()[0]}'")
    report = diff(f"{MODELS}:rotary", f"{MODELS}:rotary", "4x6:50", options)
    shown = f"{before} in single" if before else "double"
    name = f"precision of the rotary embedding: {shown} against {after}"
    assert [str(each.candidate) for each in report.repairs] == [f"{name} in out"]
    assert report.repairs[0].candidate.of_framework
    assert not report.unexplained


@pytest.mark.parametrize("changed", ["a", "b"])
def test_a_norm_in_single_precision_before_its_weight_is_left_out(changed: str) -> None:
    options = Options(**{f"args_{changed}": "single=True"})
    report = diff(f"{MODELS}:norm", f"{MODELS}:norm", "4x8", options)
    assert report.verdict == "the same, double precision not compared"
    text = "one side computes the input of 2 in single precision"
    assert [str(each).startswith(text) for each in report.left_out] == [True]


def test_a_norm_in_single_precision_hides_no_other_function() -> None:
    options = Options(args_a="last=tanh", args_b="single=True")
    report = diff(f"{MODELS}:norm", f"{MODELS}:norm", "4x8", options)
    assert [each.candidate.what for each in report.repairs] == ["function of the result"]


def test_the_maximum_in_the_place_of_a_mean_before_a_gate_is_repaired() -> None:
    options = Options(args_a="kind=max")
    report = diff(f"{MODELS}:gate", f"{MODELS}:gate", "4x3x12x12", options)
    assert [str(each.candidate) for each in report.repairs] == [
        "pooling: max against mean in inner"
    ]
    assert not report.unexplained


@pytest.mark.parametrize("plus_one", [True, False])
def test_an_own_norm_may_multiply_by_its_weight_plus_one(*, plus_one: bool) -> None:
    options = Options(args_a=f"plus_one={plus_one}")
    report = diff(f"{MODELS}:norm", f"{MODELS}:norm", "4x8", options)
    assert report.verdict == "the same"
    text = "1 norm of A and 0 norms of B multiply by their weight plus one"
    assert [note for note in report.notes if note.startswith(text)] == [*report.notes]
    assert bool(report.notes) == plus_one


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nothing", "the callable returned None, and not a torch.nn.Module"),
        ("type_alone", "the callable returned Linear, and not a torch.nn.Module"),
        ("complex_numbers", "weight has complex numbers, which are not compared"),
    ],
)
def test_what_is_no_model_of_real_numbers_has_no_verdict(name: str, sentence: str) -> None:
    report = diff(f"{MODELS}:{name}", f"{MODELS}:norm", "4x8")
    assert report.status == 2
    assert sentence in report.unknown


def test_an_argument_that_the_callable_lacks_is_refused() -> None:
    with pytest.raises(UserError, match=r"--args-b.*sort=max.*arguments of .*:gate: kind"):
        diff(f"{MODELS}:gate", f"{MODELS}:gate", "4x3x12x12", Options(args_b="sort=max"))


def test_a_schedule_is_named_as_not_compared() -> None:
    report = diff(
        f"{MODELS}:scheduled", f"{MODELS}:scheduled", "4x3x12x12", Options(args_a="gamma=0.1")
    )
    assert report.verdict == "the same, StepLR not compared"
    assert "not compared: StepLR of A, StepLR of B" in str(report)


@pytest.mark.filterwarnings("ignore:.*weight_norm")
def test_weights_normalized_by_either_function_are_paired() -> None:
    both = f"{MODELS}:normalized"
    report = diff(both, both, "4x8", Options(args_a="is_parametrized=False"))
    assert (report.pairs, report.verdict) == (2, "the same")


@pytest.mark.filterwarnings("ignore:.*spectral_norm")
def test_spectral_norms_of_both_functions_differ_in_training_alone() -> None:
    both = f"{MODELS}:normalized"
    options = Options(
        args_a="kind=spectral_norm,is_parametrized=False", args_b="kind=spectral_norm"
    )
    report = diff(both, both, "4x8", options)
    evaluation, training, *_ = report.agreements
    assert (report.pairs, evaluation.agreeing) == (2, len(evaluation.differences))
    assert training.agreeing < len(training.differences)
    assert report.notes == (
        "cannot be repaired on side A: power iteration of a spectral norm: from the left vector "
        "against from the right vector in 0 and 1 more",
    )


@pytest.mark.parametrize(
    ("arguments", "args_a", "args_b", "difference"),
    [
        ("", "step=last", "", "the first against the last"),
        ("kind=GRU,number=2", "", "step=last", "the last against the first"),
    ],
)
def test_the_wrong_step_of_the_backward_direction_is_repaired(
    arguments: str, args_a: str, args_b: str, difference: str
) -> None:
    both = f"{MODELS}:directions"
    texts = [",".join(filter(None, (arguments, each))) for each in (args_a, args_b)]
    report = diff(both, both, "4x6x8", Options(args_a=texts[0], args_b=texts[1]))
    name = "reduction of steps of a concatenated part"
    assert [str(each.candidate) for each in report.repairs] == [f"{name}: {difference} in last"]
    assert not report.unexplained

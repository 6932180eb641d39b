"""What models do otherwise with the same layers: modes, masks, axes, positions, gradients."""

from __future__ import annotations

from pathlib import Path

import pytest

from horizont.modeldiff import Report
from tests.modeldiff.test_ports import FEATURES, IMAGES, STEPS, WORDS, compared

MODELS = Path(__file__).parent / "models"
PYTORCH, KERAS = f"torch:{MODELS / 'called_models.py'}", f"keras:{MODELS / 'called_layers.py'}"

BIASES = "biases of a recurrent layer: 1 against 2 in sequential/lstm"
GATES = "function of the gates of a recurrent layer"
SINES = "sines and cosines alternate, base 10000, from position 0"

pytestmark = pytest.mark.framework("pytorch")


def causes(report: Report) -> list[str]:
    assert not report.unexplained, str(report)
    return [str(cause.candidate) for cause in report.repairs]


def mistaken(network: str, mistake: str, batch: str, *others: str) -> Report:
    """Compare a network of PyTorch with itself without a mistake."""
    both = f"{PYTORCH}:{network}", f"{PYTORCH}:{network}"
    own = ",".join((f"mistake={mistake!r}", *others))
    return compared(*both, batch, own, ",".join(others))


@pytest.mark.parametrize(
    ("mistake", "cause"),
    [
        ("dropout in training", "dropout in evaluation before a layer: 0.4 against none in last"),
        ("function of dropout", "dropout in evaluation before a layer: 0.3 against none in last"),
        (
            "norm in training",
            "statistics of a norm in evaluation: of the batch against running in norm",
        ),
        ("stopped", "gradient through the input of a layer: stopped against passed on in last"),
        (
            "stopped branch",
            "gradient through the input of a layer: passed on in part against passed on in second",
        ),
    ],
)
def test_what_a_network_does_otherwise_is_found(mistake: str, cause: str) -> None:
    report = mistaken("Network", mistake, IMAGES)
    assert (causes(report), report.status) == ([cause], 1)


def test_a_function_that_differs_for_larger_outputs_alone_is_found() -> None:
    report = mistaken("Padded", "ReLU6", IMAGES)
    assert report.first is None
    cause = "activation beyond the values of this batch: ReLU6 against ReLU in second"
    assert (causes(report), report.status) == ([cause], 1)


def test_dropout_in_training_alone_is_none_of_evaluation() -> None:
    report = mistaken("Network", "dropout", IMAGES)
    assert report.verdict == "the same, dropout not compared"


def test_a_gradient_that_side_b_stops_is_found() -> None:
    both = f"{PYTORCH}:Network", f"{PYTORCH}:Network"
    report = compared(*both, IMAGES, "", "mistake='stopped'")
    cause = "gradient through the input of a layer: passed on against stopped in last"
    assert causes(report) == [cause]


def test_a_norm_without_running_statistics_can_be_compared() -> None:
    report = mistaken("Network", "no running statistics", IMAGES)
    assert report.only_b == ("norm (mean)", "norm (variance)")
    assert report.status == 1


@pytest.mark.parametrize(
    ("mistake", "cause"),
    [
        ("scaled", "factor of the output of words: 4 against 1 in norm"),
        ("no positions", f"constant summand: none against {SINES} in norm"),
        (
            "halves",
            f"constant summand: sines before cosines, base 10000, from position 0 against {SINES} "
            "in norm",
        ),
        ("base", f"constant summand: {SINES.replace('10000', '100')} against {SINES} in norm"),
        ("from one", f"constant summand: {SINES[:-1]}1 against {SINES} in norm"),
        ("half branch", "factor of the output of back: 0.5 against 1 in final"),
    ],
)
def test_factors_and_positions_are_found(mistake: str, cause: str) -> None:
    assert causes(mistaken("Language", mistake, WORDS)) == [cause]


def test_learned_positions_may_have_scaled_words_beside_them() -> None:
    found = causes(mistaken("Language", "scaled", WORDS, "learned=True"))
    assert found == ["factor of the output of words: 4 against 1 in norm"]


@pytest.mark.parametrize(
    ("mistake", "own"),
    [("all", "the mean"), ("all are summed", "the sum"), ("sum", "the sum of 5 to 7 of 7 steps")],
)
def test_which_steps_a_mean_counts_is_found(mistake: str, own: str) -> None:
    found = causes(mistaken("Pooled", mistake, WORDS))
    assert found == [f"weights of steps: {own} against the mean of 5 to 7 of 7 steps in last"]


@pytest.mark.parametrize(
    ("mistake", "found"),
    [
        ("none", []),
        ("epsilon", ["epsilon of a norm: 0.001 against 1e-05 in 1"]),
        ("root", ["place of the epsilon of a norm: the root against the variance in 1"]),
        ("sample", ["variance of a norm: of a sample against of all features in 1"]),
        ("not centered", ["mean in a norm: not subtracted against subtracted in 1"]),
    ],
)
def test_what_an_own_norm_does_otherwise_is_found(mistake: str, found: list[str]) -> None:
    assert causes(mistaken("Normalized", mistake, STEPS)) == found


@pytest.mark.parametrize(
    ("network", "mistake", "cause"),
    [
        ("Recurrent", "steps first", "first axis of sequences: steps against examples in cell_l0"),
        (
            "Recurrent",
            "state",
            "initial state of a recurrent layer: others against zeros in cell_l0",
        ),
        (
            "Attention",
            "steps first",
            "first axis of sequences: steps against examples in attention",
        ),
        ("Attention", "causal", "mask of attention: causal against none in attention"),
        ("Attention", "causal by sums", "mask of attention: causal against none in attention"),
        ("Attention", "another mask", "mask of attention: another against none in attention"),
    ],
)
def test_how_sequences_are_read_is_found(network: str, mistake: str, cause: str) -> None:
    assert causes(mistaken(network, mistake, STEPS)) == [cause]


@pytest.mark.framework("tensorflow")
@pytest.mark.parametrize(
    ("args_a", "found"),
    [
        ("", [BIASES]),
        (
            "gates='hard_sigmoid'",
            [f"{GATES}: hard_sigmoid against sigmoid in sequential/lstm", BIASES],
        ),
        (
            "activation='relu'",
            ["activation of a recurrent layer: relu against tanh in sequential/lstm", BIASES],
        ),
    ],
)
def test_functions_of_a_recurrent_layer_of_keras_are_repaired(
    args_a: str, found: list[str]
) -> None:
    report = compared(f"{KERAS}:recurrent", f"{PYTORCH}:Recurrent", STEPS, args_a)
    assert causes(report) == found


@pytest.mark.framework("tensorflow")
def test_functions_of_gates_are_named_where_they_cannot_be_changed() -> None:
    report = compared(
        f"{PYTORCH}:Recurrent", f"{KERAS}:recurrent", STEPS, "", "gates='hard_sigmoid'"
    )
    name = f"{GATES}: sigmoid against hard_sigmoid in cell_l0"
    assert report.unexplained
    assert f"cannot be repaired on side A: {name}" in report.notes


@pytest.mark.framework("tensorflow")
@pytest.mark.parametrize("causal", [True, False])
def test_a_causal_mask_of_keras_is_that_of_pytorch(*, causal: bool) -> None:
    a, b = f"{PYTORCH}:Attention", f"{KERAS}:attention"
    report = compared(a, b, STEPS, "mistake='causal'", f"causal={causal}")
    mask = "mask of attention: causal against none in attention"
    assert causes(report) == ([] if causal else [mask])
    report = compared(b, a, STEPS, f"causal={causal}", "mistake='causal'")
    mask = "mask of attention: none against causal in multi_head_attention"
    assert causes(report) == ([] if causal else [mask])


@pytest.mark.framework("tensorflow")
def test_dropout_of_keras_in_evaluation_is_found() -> None:
    both = f"{KERAS}:dropped", f"{KERAS}:dropped"
    report = compared(*both, FEATURES, "always=True", "always=False")
    assert causes(report) == ["dropout in evaluation before a layer: 0.4 against none"]


@pytest.mark.framework("tensorflow")
@pytest.mark.parametrize(
    ("mistake", "cause"),
    [
        ("SiLU", "activation: SiLU against ReLU in second"),
        ("half", "scale of an input: x against 2 x in second"),
    ],
)
def test_what_precedes_explicit_zeros_is_repaired_within_them(mistake: str, cause: str) -> None:
    report = compared(f"{PYTORCH}:Padded", f"{KERAS}:padded", IMAGES, f"mistake={mistake!r}")
    assert causes(report) == [cause]

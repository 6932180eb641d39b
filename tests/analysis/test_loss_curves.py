"""The loss curves of measured runs, across frameworks."""

from __future__ import annotations

import numpy as np

from horizont.analysis.loss_curves import diverging_curves

CURVE = np.linspace(2.3, 1.1, 90)


def test_curves_that_differ_by_rounding_are_the_same() -> None:
    rounded = CURVE * (1 + 1e-6 * np.sin(np.arange(90)))
    assert diverging_curves({"a": [CURVE], "b": [rounded], "c": [CURVE[:40]]}, 0.05) == {}


def test_other_weights_or_examples_show_in_the_first_step() -> None:
    other = CURVE.copy()
    other[0] *= 1.01
    reasons = diverging_curves({"a": [CURVE], "b": [other], "c": [CURVE]}, 0.05)
    assert reasons == {"b": "the losses of a run differ from all others in step 1"}


def test_reduced_precision_may_change_the_first_loss_by_more() -> None:
    other = CURVE.copy()
    other[0] *= 1.01
    curves = {"pytorch": [CURVE], "pytorch+tf32+cuda": [other], "jax+cuda": [CURVE]}
    assert diverging_curves(curves, 0.05) == {}
    other[0] *= 1.1
    assert set(diverging_curves(curves, 0.05)) == {"pytorch+tf32+cuda"}


def test_a_run_that_stops_training_is_found_where_rounding_permits() -> None:
    frozen = np.concatenate([CURVE[:30], np.full(60, CURVE[30])])
    curves = {"a": [CURVE], "b": [CURVE, frozen], "c": [CURVE]}
    assert set(diverging_curves(curves, 0.05)) == {"b"}
    assert diverging_curves(curves, 1.0) == {}  # rounding alone changes the losses as much


def test_a_loss_that_is_not_finite_is_found_alone() -> None:
    broken = CURVE.copy()
    broken[50] = np.nan
    unstable = "the training is unstable, as the loss of step 51 is not finite"
    assert diverging_curves({"a": [broken]}, 1.0) == {"a": unstable}
    assert set(diverging_curves({"a": [CURVE], "b": [broken]}, 0.05)) == {"b"}


def test_two_frameworks_that_differ_are_both_named() -> None:
    assert set(diverging_curves({"a": [CURVE], "b": [CURVE * 1.2]}, 0.05)) == {"a", "b"}


def growing(factor: float) -> np.ndarray:
    """Return a curve that leaves `CURVE` after four steps, as an LSTM without clipping does."""
    return np.concatenate([CURVE[:4], CURVE[0] * factor * np.linspace(1, 5, 86)])


def test_a_training_that_is_unstable_in_every_framework_is_no_difference_of_these() -> None:
    curves = {"a": [growing(11)], "b": [growing(14)], "c": [CURVE, np.append(CURVE, np.inf)]}
    reasons = diverging_curves(curves, 0.05)
    shown = "the training is unstable, as the loss of step 5 is more than 10 times the first"
    assert reasons == dict.fromkeys("abc", shown)
    stable_elsewhere = diverging_curves(curves | {"d": [CURVE]}, 0.05)
    assert set(stable_elsewhere) == {"a", "b", "c"}
    assert not any("unstable" in reason for reason in stable_elsewhere.values())


def test_an_unstable_training_from_other_weights_differs() -> None:
    reasons = diverging_curves({"a": [growing(11)], "b": [growing(14)], "c": [2 * growing(11)]}, 1)
    assert reasons["c"] == "the losses of a run differ from all others in step 1"
    assert "unstable" in reasons["a"]
    assert "unstable" in reasons["b"]

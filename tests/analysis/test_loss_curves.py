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
    assert diverging_curves({"a": [broken]}, 1.0) == {"a": "a loss of a run is not finite"}
    assert set(diverging_curves({"a": [CURVE], "b": [broken]}, 0.05)) == {"b"}


def test_two_frameworks_that_differ_are_both_named() -> None:
    assert set(diverging_curves({"a": [CURVE], "b": [CURVE * 1.2]}, 0.05)) == {"a", "b"}

"""What the chapters say, as far as it is a number."""

from __future__ import annotations

import numpy as np
import pytest

from horizont.theory import blocks, filters, landscapes, memory, neuron, performance, scores
from horizont.theory.descent import Rule
from horizont.theory.images import output_size


def test_a_sigmoid_saturates_and_starves_deep_chains() -> None:
    assert neuron.saturation_point("sigmoid") == pytest.approx(2.887, abs=1e-3)
    assert neuron.saturation_point("relu") == float("inf")
    sigmoid, relu = (neuron.gradients_by_layer(name, 10)[-1] for name in ("sigmoid", "relu"))
    assert sigmoid < 0.25**10 < 1e-3 < relu


@pytest.mark.parametrize(("rate", "ends_higher"), [(0.1, False), (1.9, False), (2.1, True)])
def test_a_rate_beyond_two_diverges(rate: float, ends_higher: bool) -> None:
    places = landscapes.way("f = 0.5 * x * x", {"x": 1.0}, Rule(rate), 20)[:, 0]
    assert (abs(places[-1]) > 1) == ends_higher


def test_the_best_rules_are_as_fast_as_theory_says() -> None:
    rate, left = landscapes.best_plain(1.0, 10.0)
    start = {"x": 1.0, "y": 1.0}
    plain = landscapes.way(landscapes.BOWL, start, Rule(rate), 40)
    assert np.abs(plain[40]) == pytest.approx(np.abs(plain[39]) * left)
    rule, left = landscapes.best_momentum(1.0, 10.0)
    far = np.linalg.norm(landscapes.way(landscapes.BOWL, start, rule, 60), axis=1)
    assert (far[60] / far[20]) ** (1 / 40) == pytest.approx(left, rel=0.05)


def test_the_layer_of_the_text_costs_what_the_text_says() -> None:
    layer = filters.convolution_costs(80, 3, 100, 5, padding=2)
    assert (layer.weights, layer.outputs, layer.multiplications) == (7600, 640_000, 48_000_000)
    assert layer.output_bytes == 2_560_000
    assert filters.dense_costs(2, 3).weights == 9
    assert [output_size(80, 5, stride, 2) for stride in (1, 2, 3)] == [80, 40, 27]


def test_energy_never_rises_and_letters_are_found_again() -> None:
    weights = memory.remembered(memory.letters())
    for seed, letter in enumerate(memory.letters()):
        states = memory.recall(weights, memory.spoiled(letter, 0.2, seed), seed=seed)
        assert (np.diff(memory.energy(weights, states)) <= 1e-12).all()
        assert (states[-1] == letter).all()
        assert (states[0] != letter).sum() == 13


def test_open_gates_remember_longer() -> None:
    spans = [memory.reach(*kind)[20] for kind in (("recurrent", 25), ("lstm", 25, 3.0))]
    assert spans[0] < 1e-4 < 0.1 < spans[1]


def test_the_way_around_keeps_the_gradient() -> None:
    plain, residual = (blocks.gradients_through(30, around=way)[-1] for way in (False, True))
    assert plain > 100 > 10 > residual > 1


def test_laws_and_measures() -> None:
    assert performance.amdahl(np.array(20), 0.05) == pytest.approx(10.256, abs=1e-3)
    assert performance.gustafson(np.array(20), 0.05) == pytest.approx(19.05)
    assert performance.step_time(np.array(2), 1.0, 1e6, 1e6) == pytest.approx(2.0)
    assert performance.slowest_of(np.array([1]), 0.2)[0] == 1.0
    uniform = np.zeros((3, 4))
    assert scores.perplexity(uniform, np.array([0, 1, 2])) == pytest.approx(4.0)
    assert scores.entropy(scores.softmax(uniform)) == pytest.approx(np.log(4))
    assert scores.accuracy(np.eye(3), np.array([0, 1, 0])) == pytest.approx(2 / 3)

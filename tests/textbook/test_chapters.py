"""What the chapters state, as far as it is a number."""

from __future__ import annotations

import numpy as np
import pytest
from autograd import grad

from horizont_textbook import (
    allreduce,
    autodiff,
    convolution,
    descent,
    loss,
    metrics,
    neuron,
    normalisation,
    parallelism,
    recurrence,
    staleness,
    stragglers,
    strategies,
    tutorial,
)
from horizont_textbook.descent import Momentum


def test_a_sigmoid_saturates_and_deep_networks_of_it_lose_the_gradient() -> None:
    assert neuron.saturation_point("sigmoid") == pytest.approx(2.887, abs=1e-3)
    assert neuron.saturation_point("relu") == float("inf")
    sigmoid, relu = (neuron.gradient_norms(name, 10)[-1] for name in ("sigmoid", "relu"))
    assert sigmoid < 0.25**10 < 1e-3 < relu
    assert "divides the gradient by 4.3 on average" in neuron.plot_vanishing().caption


def test_derivatives_at_zero_are_those_of_the_frameworks() -> None:
    at_zero = {name: float(f(0.0)) for name, f in neuron.DERIVATIVES.items()}
    assert at_zero == {
        "sigmoid": 0.25, "tanh": 1.0, "relu": 0.0, "leaky_relu": 0.125, "elu": 1.0, "softplus": 0.5
    }  # fmt: skip
    x = np.linspace(-4, 4, 41)
    assert neuron.DERIVATIVES["sigmoid"](x) == pytest.approx(neuron.sigmoid_derivative(x))


@pytest.mark.parametrize(("rate", "ends_higher"), [(0.1, False), (1.9, False), (2.1, True)])
def test_a_rate_beyond_two_diverges(rate: float, ends_higher: bool) -> None:
    path = descent.trajectory(descent.parabola, (1.0,), Momentum(rate), 20)[:, 0]
    assert (abs(path[-1]) > 1) == ends_higher


def test_the_best_rules_are_as_fast_as_theory_states() -> None:
    rate, contraction = descent.optimal_rate(1.0, 10.0)
    plain = descent.trajectory(descent.bowl, (1.0, 1.0), Momentum(rate), 40)
    assert np.abs(plain[40]) == pytest.approx(np.abs(plain[39]) * contraction)
    rule, contraction = descent.optimal_momentum(1.0, 10.0)
    path = descent.trajectory(descent.bowl, (1.0, 1.0), rule, 60)
    distances = np.linalg.norm(path, axis=1)
    assert (distances[60] / distances[20]) ** (1 / 40) == pytest.approx(contraction, rel=0.05)


def test_a_value_that_is_used_twice_gets_both_gradients() -> None:
    nodes = autodiff.small_graph(2.0, 1.0)
    gradients = {name: float(node.gradient) for name, node in nodes.items()}
    assert gradients == {"a": 2.0, "b": 5.0, "c": 2.0, "d": 3.0, "e": 1.0}
    x = autodiff.Node([0.5, -1.0, 2.0])
    square = x * x
    (square * square + x).backward()
    assert x.gradient == pytest.approx(4 * x.value**3 + 1)


@pytest.mark.parametrize("weight", autodiff.WEIGHTS)
def test_the_engine_agrees_with_finite_differences(weight: str) -> None:
    inputs = autodiff.network_inputs()
    found = autodiff.gradients_by_engine(inputs)[weight]
    assert found == pytest.approx(autodiff.finite_differences(inputs, weight), abs=1e-8)
    assert found == pytest.approx(loss.gradients_by_hand(**inputs)[weight], abs=1e-15)


def test_formulas_of_gradients_are_those_of_autograd() -> None:
    rng = np.random.default_rng(1)
    x, direction = rng.normal(size=(2, 5, 3))
    by_autograd = grad(lambda v: np.sum(normalisation.batch_norm(v) * direction))(x)
    assert normalisation.batch_norm_gradient(direction, x) == pytest.approx(by_autograd)
    labels = np.array([0, 2, 1, 1, 0])
    by_autograd = grad(loss.cross_entropy)(x, labels)
    assert loss.cross_entropy_gradient(x, labels) == pytest.approx(by_autograd)


def test_the_layer_of_the_text_costs_what_the_text_states() -> None:
    layer = convolution.convolution_costs(80, 3, 100, 5, padding=2)
    assert (layer.weights, layer.outputs, layer.multiplications) == (7600, 640_000, 48_000_000)
    assert convolution.dense_costs(2, 3).weights == 9
    assert [convolution.output_size(80, 5, stride, 2) for stride in (1, 2, 3)] == [80, 40, 27]


def test_energy_never_rises_and_letters_are_recalled() -> None:
    weights = recurrence.hebbian_weights(recurrence.letters())
    for seed, letter in enumerate(recurrence.letters()):
        states = recurrence.recall(weights, recurrence.corrupt(letter, 0.2, seed), seed=seed)
        assert (np.diff(recurrence.energy(weights, states)) <= 1e-12).all()
        assert (states[-1] == letter).all()
        assert (states[0] != letter).sum() == 13


def test_open_gates_remember_longer() -> None:
    reach = [
        recurrence.gradient_reach(*kind)[20] for kind in (("recurrent", 25), ("lstm", 25, 3.0))
    ]
    assert reach[0] < 1e-4 < 0.1 < reach[1]


def test_the_skip_connection_keeps_the_gradient() -> None:
    plain, residual = (
        normalisation.gradients_by_depth(30, residual=residual)[-1] for residual in (False, True)
    )
    assert plain > 100 > 10 > residual > 1
    caption = normalisation.plot_depth().caption
    assert "all blocks multiply it by about 2,000." in caption
    assert "With the connection, they multiply it by about 10." in caption


def test_laws_and_metrics() -> None:
    assert metrics.amdahl(20, 0.05) == pytest.approx(10.256, abs=1e-3)
    assert metrics.gustafson(20, 0.05) == pytest.approx(19.05)
    assert metrics.step_time(2, 1.0, 1e6, 1e6) == pytest.approx(2.0)
    assert metrics.expected_slowest([1], 0.2)[0] == 1.0
    uniform = np.zeros((3, 4))
    assert metrics.perplexity(uniform, np.array([0, 1, 2])) == pytest.approx(4.0)
    assert metrics.entropy(loss.softmax(uniform)) == pytest.approx(np.log(4))
    assert metrics.accuracy(np.eye(3), np.array([0, 1, 0])) == pytest.approx(2 / 3)


@pytest.mark.parametrize("delay", [0, 1, 2, 5, 16])
def test_the_limit_of_a_delay_is_where_a_root_leaves_the_circle(delay: int) -> None:
    limit = staleness.stability_limit(delay)
    assert staleness.numeric_stability_limit(delay) == pytest.approx(limit, abs=1e-9)
    steps = 400 * (delay + 1)
    below, above = (
        np.abs(staleness.delayed_descent(limit * factor, delay, steps)) for factor in (0.98, 1.02)
    )
    assert below[-40:].max() < 0.5
    assert above[-40:].max() > 2


def test_limits_are_those_of_the_text() -> None:
    limits = [staleness.stability_limit(delay) for delay in (0, 1, 2)]
    assert limits == pytest.approx([2, 1, 0.618], abs=1e-3)


@pytest.mark.parametrize("delay", [0, 1, 4])
def test_no_product_is_faster_than_the_optimal_one(delay: int) -> None:
    product, contraction = staleness.optimal_product(delay)
    assert staleness.spectral_radius(product, delay) == pytest.approx(contraction, abs=1e-6)
    for other in np.linspace(0.01, staleness.stability_limit(delay), 50):
        assert staleness.spectral_radius(float(other), delay) > contraction - 1e-6


def test_a_rule_with_a_delay_is_the_recurrence() -> None:
    path = descent.trajectory(descent.parabola, (1.0,), Momentum(0.2, delay=3), 30)[:, 0]
    assert path == pytest.approx(staleness.delayed_descent(0.2, 3, 30))


def test_stale_gradients_slow_a_network_down() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(20, 32, 6))
    labels = (x @ rng.normal(size=(6, 3))).argmax(axis=-1)
    losses = [staleness.train_with_delay(x, labels, d, 0.4, 80, hidden=8) for d in (0, 16)]
    assert losses[0][-10:].mean() < 0.6 < losses[1][-10:].mean()


def test_the_slowest_of_equals_takes_longer_the_more_they_are() -> None:
    counts = np.array([1, 2, 4, 16])
    expected = stragglers.expected_maximum(counts, 1.0, 0.3)
    assert expected[:2] == pytest.approx([1.3, 1.45])
    assert stragglers.simulated_maximum(counts, 1.0, 0.3) == pytest.approx(expected, rel=0.01)
    assert stragglers.steps_per_second(np.array([1, 1, 1, 4]), synchronous=True) == 1
    assert stragglers.steps_per_second(np.array([1, 1, 1, 4]), synchronous=False) == 3.25


@pytest.mark.parametrize("times_s", [[1.0, 1.0], [1.0, 1.0, 1.0, 4.0], [1.0, 2.0, 7.0]])
def test_mean_staleness_is_the_number_of_the_others(times_s: list[float]) -> None:
    steps = stragglers.asynchronous_schedule(times_s, 1500, spread=0.1)
    assert np.mean([step.staleness for step in steps]) == pytest.approx(len(times_s) - 1, rel=0.01)
    for rank, expected in enumerate(stragglers.expected_staleness(times_s)):
        own = [step.staleness for step in steps if step.worker == rank]
        assert np.mean(own) == pytest.approx(expected, rel=0.05)


def test_synchronous_workers_all_wait_and_nothing_is_stale() -> None:
    steps = stragglers.synchronous_schedule([1.0, 4.0], 8.0)
    assert [step.start_s for step in steps] == [0, 0, 4, 4]
    assert not any(step.staleness for step in steps)


def test_equal_parts_train_as_one_process() -> None:
    single = tutorial.train(1)
    assert single.distance(tutorial.train(4)) < 1e-14
    assert single.distance(tutorial.train(3)) > 1e-4  # 32 examples have no three equal parts


@pytest.mark.parametrize("workers", [2, 3, 4, 7])
def test_a_ring_ends_with_every_sum_everywhere(workers: int) -> None:
    states = allreduce.ring_states(workers)
    assert len(states) == 2 * (workers - 1) + 1
    assert (states[-1] == (10.0**workers - 1) / 9).all()
    complete = states[workers - 1] == states[-1]
    assert (complete.sum(axis=0) == 1).all()
    assert (complete.sum(axis=1) == 1).all()
    assert (states[-2] != states[-1]).any()


def test_sums_name_their_summands() -> None:
    assert [allreduce.summand_names(number) for number in (1.0, 101.0, 1110.0)] == [
        "a",
        "ac",
        "bcd",
    ]


def test_bytes_and_times_of_ring_and_server() -> None:
    assert allreduce.ring_bytes(4, 100.0) == 150.0
    assert allreduce.server_bytes(4, 100.0) == 400.0
    assert allreduce.ring_time(5, 100.0, 10.0, 0.0) == pytest.approx(16.0)
    assert allreduce.server_time(5, 100.0, 10.0, 0.5) == pytest.approx(101.0)
    for size, is_larger in ((1e2, True), (1e8, False)):
        times = [law(8, size, 1e8, 1e-4) for law in (allreduce.ring_time, allreduce.server_time)]
        assert (times[0] > times[1]) == is_larger


def test_a_pipeline_is_less_idle_with_more_micro_batches() -> None:
    assert parallelism.idle_fraction(2, 1) == 0.5
    assert parallelism.idle_fraction(4, 12) == pytest.approx(0.2)
    assert parallelism.idle_fraction(1, 1) == 0.0


@pytest.mark.parametrize("name", list(strategies.STRATEGIES))
def test_parts_can_be_merged(name: str) -> None:
    strategy, state = strategies.STRATEGIES[name], strategies.initial_state()
    for key, array in state.items():
        split = strategy.split(key)
        parts = [strategies.part_of(array, split, rank) for rank in (0, 1)]
        held = [part for part in parts if len(part)]
        assert np.array_equal(strategies.merge(held, split), array)


def test_the_small_network_has_its_number_of_weights_and_learns() -> None:
    state = strategies.initial_state()
    assert sum(state[name].size for name in autodiff.WEIGHTS) == strategies.SMALL.weights
    trained = strategies.train_in_one_process()
    assert all(not np.allclose(trained[f"weight {n}"], state[n]) for n in autodiff.WEIGHTS)

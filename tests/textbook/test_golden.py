"""The figures, tables, numbers and gradients of the chapters, against those of commit a493d26."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from horizont_textbook import (
    allreduce,
    autodiff,
    convolution,
    descent,
    metrics,
    neuron,
    normalisation,
    parallelism,
    recurrence,
    ring,
    staleness,
    strategies,
    tutorial,
)
from horizont_textbook.cross_check import CASES, reference
from tests.textbook.summaries import array_summary, figure_summary, table_summary

GOLDEN = json.loads(Path(__file__).parents[1].joinpath("golden", "textbook.json").read_text())

#: Numbers that are rounding noise, with a bound.
NOISE = {
    "by_the_algorithm,_relative_distance": 1e-15,
    "by_finite_differences": 1e-8,
}

#: Figures of rounding errors, which each version of NumPy has of its own, with a tolerance.
ROUNDING = {"autodiff.plot_difference_errors": 0.02}


def _arguments() -> dict[str, tuple[Any, ...]]:
    """Draw what figures of measured data were given when their golden values were made."""
    rng = np.random.default_rng(123)
    before, after, image = (rng.normal(size=s) for s in ((20, 1, 5, 5), (20, 1, 5, 5), (1, 28, 28)))
    x, labels = rng.normal(size=(10, 16, 12)), rng.integers(0, 4, (10, 16))
    x[..., 0] += labels
    return {
        "convolution.plot_filters": (before, after),
        "convolution.plot_feature_maps": (image, after),
        "staleness.plot_delayed_training": (x, labels, "random numbers"),
        "stragglers.staleness_table": ([1.0, 1.0, 1.0, 4.0],),
    }


ARGUMENTS = _arguments()


def call(name: str) -> Any:
    module, function = name.split(".")
    plot = getattr(import_module(f"horizont_textbook.{module}"), function)
    return plot(*ARGUMENTS.get(name, ()))


def same(found: Any, expected: Any, tolerance: float = 1e-9) -> bool:
    return np.shape(found) == np.shape(expected) and np.allclose(
        found, expected, rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("name", list(GOLDEN["figures"]))
def test_a_figure_shows_the_same_numbers_and_has_its_data(name: str) -> None:
    figure = call(name)
    found, expected = figure_summary(figure.figure), GOLDEN["figures"][name]
    tolerance = ROUNDING.get(name, 1e-9)
    assert len(found) == len(expected)
    for panel, golden in zip(found, expected, strict=True):
        assert len(panel) == len(golden)
        assert all(same(*pair, tolerance) for pair in zip(panel, golden, strict=True))
    assert not figure.data.empty
    assert len(figure.caption) > 50


@pytest.mark.parametrize("name", list(GOLDEN["tables"]))
def test_a_table_shows_the_same_cells(name: str) -> None:
    found = table_summary(call(name))
    assert [row[1:] for row in found] == [row[1:] for row in GOLDEN["tables"][name]]


@pytest.mark.parametrize("chapter", list(GOLDEN["cases"]))
def test_values_and_gradients_by_autograd_are_those_derived_by_hand(chapter: str) -> None:
    cases = {case.name: case for case in CASES[chapter]() if not case.random}
    assert set(cases) == set(GOLDEN["cases"][chapter])
    for name, expected in GOLDEN["cases"][chapter].items():
        found = reference(cases[name])
        for what, summary in expected.items():
            assert same(array_summary(found[what]), summary), (name, what)


def _convolution() -> dict[str, float]:
    costs = convolution.convolution_costs(80, 3, 100, 5, padding=2)
    return {
        "weights": costs.weights,
        "outputs": costs.outputs,
        "mult": costs.multiplications,
        "MB": 42 * 4 * costs.outputs / 1e6,
        "dense": convolution.dense_costs(19200, 640000).weights,
        "smooth": convolution.spatial_correlation(ARGUMENTS["convolution.plot_filters"][1]),
    }


def _normalisation() -> dict[str, float]:
    return {
        "plain": normalisation.gradients_by_depth(40, residual=False)[-1],
        "residual": normalisation.gradients_by_depth(40, residual=True)[-1],
        "without": normalisation.deep_outputs(12, normalised=False, gain=0.5).std(),
        "with_": normalisation.deep_outputs(12, normalised=True, gain=0.5).std(),
    }


def _recurrence() -> dict[str, float]:
    return {
        **dict(zip(("e0", "e1", "wrong"), recurrence.recall_values(0.2).values(), strict=True)),
        "rec": recurrence.gradient_reach("recurrent", 40)[20],
        "lstm": recurrence.gradient_reach("lstm", 40, 3.0)[20],
    }


def _staleness() -> dict[str, float]:
    x, labels, _ = ARGUMENTS["staleness.plot_delayed_training"]
    return {
        **{f"l{delay}": staleness.stability_limit(delay) for delay in (0, 1, 4, 16)},
        "found": staleness.numeric_stability_limit(4),
        "left": staleness.spectral_radius(staleness.optimal_product(4)[0], 4),
        **staleness.final_losses(x, labels, 0.2),
    }


def _tutorial() -> dict[str, float]:
    trained = tutorial.train(2)
    norms = {"weights": np.linalg.norm(trained.weight), "bias": np.linalg.norm(trained.bias)}
    return {f"loss {i}": loss for i, loss in enumerate(trained.losses)} | norms


NUMBERS: dict[str, Callable[[], dict[str, Any]]] = {
    "neuron": lambda: {
        "a": neuron.sigmoid_derivative(np.array(0.0)),
        "b": neuron.saturation_point("sigmoid"),
        "c": neuron.saturation_point("tanh"),
        "d": neuron.gradient_norms("sigmoid", 10)[-1],
        "e": neuron.gradient_norms("relu", 10)[-1],
    },
    "descent": descent.descent_values,
    "autodiff": autodiff.compare_methods,
    "convolution": _convolution,
    "normalisation": _normalisation,
    "recurrence": _recurrence,
    "staleness": _staleness,
    "parallelism": lambda: {
        **{name: s.sent(strategies.SMALL) for name, s in strategies.STRATEGIES.items()},
        "idle": parallelism.idle_fraction(2, 4),
    },
    "allreduce": lambda: {
        "bytes": 8 * ring.NUMBERS,
        "ring4": allreduce.ring_bytes(4, 96000),
        "server4": allreduce.server_bytes(4, 96000),
        "rt": allreduce.ring_time(8, 44e6, 125e6, 1e-4),
        "st": allreduce.server_time(8, 44e6, 125e6, 1e-4),
    },
    "metrics": lambda: {
        "amdahl": metrics.amdahl(8, 0.05),
        "gustafson": metrics.gustafson(8, 0.05),
        "eff": 1.5 / metrics.step_time(8, 1.5, 44e6, 125e6),
        "slow": metrics.expected_slowest([8], 0.2)[0],
    },
    "tutorial": _tutorial,
    "one process": lambda: {
        name: np.linalg.norm(value) for name, value in strategies.train_in_one_process().items()
    },
}


@pytest.mark.parametrize("chapter", list(GOLDEN["numbers"]))
def test_the_numbers_of_a_chapter_are_the_same(chapter: str) -> None:
    found, expected = NUMBERS[chapter](), GOLDEN["numbers"][chapter]
    assert set(found) == set(expected)
    for name, value in expected.items():
        if name in NOISE:
            assert 0 <= found[name] < NOISE[name]
        else:
            assert found[name] == pytest.approx(value, rel=1e-9, abs=1e-9), name

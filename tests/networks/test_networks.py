"""The described networks have the published layers, and weights that follow from a seed."""

from __future__ import annotations

import numpy as np
import pytest

from horizont.errors import UserError
from horizont.networks import (
    NETWORKS,
    Conv,
    Dense,
    Flatten,
    Network,
    build_network,
    initial_weights,
    parameter_count,
    weight_shapes,
)

#: network, input, classes, parameters. LeNet-5 by hand: 6(3*25+1) + 16(6*25+1) + 120(400+1)
#: + 84(120+1) + 10(84+1); the variant: 20(25+1) + 50(500+1) + 500(800+1) + 10(500+1).
PUBLISHED = [
    ("lenet5", (3, 32, 32), 10, 62_006),
    ("lenet5", (3, 32, 32), 100, 69_656),
    ("lenet", (1, 28, 28), 10, 431_080),
]


@pytest.mark.parametrize(("name", "shape", "classes", "count"), PUBLISHED)
def test_parameter_counts(name: str, shape: tuple[int, ...], classes: int, count: int) -> None:
    assert parameter_count(build_network(name, shape, classes)) == count


def test_every_network_is_in_the_table() -> None:
    assert {row[0] for row in PUBLISHED} == set(NETWORKS)


def test_shapes_of_lenet5() -> None:
    shapes = build_network("lenet5", (3, 32, 32), 10).shapes()
    assert shapes["pool1"] == (6, 14, 14)
    assert shapes["pool2"] == (16, 5, 5)
    assert shapes["flatten"] == (400,)


def test_initial_weights_follow_the_seed() -> None:
    network = build_network("lenet5", (3, 32, 32), 10)
    one, same, other = (initial_weights(network, seed) for seed in (1, 1, 2))
    assert list(one) == list(weight_shapes(network))
    for name, value in one.items():
        assert value.shape == weight_shapes(network)[name]
        np.testing.assert_array_equal(value, same[name])
        assert name.endswith("bias") or not np.array_equal(value, other[name])


def test_initial_weights_are_glorot_uniform() -> None:
    weight = initial_weights(build_network("lenet", (1, 28, 28), 10), 3)["fc1.weight"]
    limit = np.sqrt(6 / (800 + 500))
    assert np.abs(weight).max() <= limit
    assert weight.std() == pytest.approx(limit / np.sqrt(3), rel=0.01)


def test_a_change_of_one_layer_leaves_the_others_weights() -> None:
    ten = initial_weights(build_network("lenet5", (3, 32, 32), 10), 1)
    hundred = initial_weights(build_network("lenet5", (3, 32, 32), 100), 1)
    np.testing.assert_array_equal(ten["fc2.weight"], hundred["fc2.weight"])


def test_impossible_networks_are_named() -> None:
    with pytest.raises(UserError, match="network: 'vgg'"):
        build_network("vgg", (3, 32, 32), 10)
    with pytest.raises(UserError, match=r"conv2\.kernel"):
        build_network("lenet5", (3, 8, 8), 10)
    flat = (Flatten(name="flatten"), Dense(name="fc", features=5))
    with pytest.raises(UserError, match="10 outputs"):
        Network("bad", (1, 2, 2), 10, flat)
    with pytest.raises(UserError, match="all different"):
        Network("bad", (1, 9, 9), 2, (Conv(name="c", channels=1, kernel=2),) * 2)

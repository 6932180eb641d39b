"""The networks have the published layers, and reproducible initial weights."""

from __future__ import annotations

import math

import numpy as np
import pytest

from horizont.errors import UserError
from horizont.networks.catalogue import NETWORKS, build_network
from horizont.networks.layers import (
    GATES,
    LSTM,
    Activation,
    Add,
    BatchNorm,
    Concat,
    Conv,
    Dense,
    Embedding,
    Flatten,
)
from horizont.networks.network import Network
from horizont.networks.weights import (
    initial_statistics,
    initial_weights,
    reorder_gates,
    weight_shapes,
)

#: Network, input, classes, layers with weights other than batch norm, parameters.
#: LeNet-5 by hand: 6(3*25+1) + 16(6*25+1) + 120(400+1) + 84(120+1) + 10(84+1); the variant:
#: 20(25+1) + 50(500+1) + 500(800+1) + 10(500+1). AlexNet and the ResNets with 1,000 classes are
#: as published (62.4, 11.7 and 25.6 million). The language model: 10000*200 words, twice
#: 4*200(200+200+1), 10000(200+1).
PUBLISHED = [
    ("lenet5", (3, 32, 32), 10, 5, 62_006),
    ("lenet5", (3, 32, 32), 100, 5, 69_656),
    ("lenet", (1, 28, 28), 10, 4, 431_080),
    ("alexnet", (3, 64, 64), 1000, 8, 62_378_344),
    ("alexnet", (3, 64, 64), 10, 8, 58_322_314),
    ("alexnet-small", (3, 64, 64), 10, 8, 21_622_154),
    ("resnet18", (3, 32, 32), 1000, 18 + 3, 11_689_512),
    ("resnet18", (3, 32, 32), 10, 18 + 3, 11_181_642),
    ("resnet18-small-stem", (3, 32, 32), 10, 18 + 3, 11_173_962),
    ("resnet50", (3, 32, 32), 1000, 50 + 4, 25_557_032),
    ("resnet50", (3, 32, 32), 10, 50 + 4, 23_528_522),
    ("resnet50-small-stem", (3, 32, 32), 10, 50 + 4, 23_520_842),
    ("inception", (3, 32, 32), 10, 1 + 9 * 6 + 1, 5_871_914),
    ("lstm", (30,), 10_000, 4, 4_651_600),
]


@pytest.mark.parametrize(("name", "shape", "classes", "layers", "count"), PUBLISHED)
def test_layers_and_parameters(
    name: str, shape: tuple[int, ...], classes: int, layers: int, count: int
) -> None:
    network = build_network(name, shape, classes)
    weighted = Conv | Dense | Embedding | LSTM
    assert sum(isinstance(layer, weighted) for layer in network.layers) == layers
    assert sum(map(math.prod, weight_shapes(network).values())) == count


@pytest.mark.parametrize(
    ("name", "side", "expected"),
    [
        ("alexnet", 64, {"pool5": (256, 1, 1), "repeat5": (256, 6, 6), "fc7": (4096,)}),
        ("alexnet-small", 64, {"conv1": (96, 15, 15), "pool5": (256, 1, 1)}),
        ("resnet18", 32, {"stem_pool": (64, 8, 8), "stage4_block2_relu": (512, 1, 1)}),
        ("resnet50", 32, {"stage1_block3_relu": (256, 8, 8), "stage4_block3_relu": (2048, 1, 1)}),
        ("resnet50-small-stem", 32, {"stage1_block1_relu": (256, 32, 32), "pool": (2048,)}),
        ("inception", 32, {"inception3b": (480, 32, 32), "inception5b": (1024, 8, 8)}),
    ],
)
def test_intermediate_shapes(name: str, side: int, expected: dict[str, tuple[int, ...]]) -> None:
    shapes = build_network(name, (3, side, side), 10).shapes()
    assert {layer: shapes[layer] for layer in expected} == expected


#: Parameters of the modules in table 1 of the paper, in thousands; they are approximate.
INCEPTION = {
    "3a": 159, "3b": 380, "4a": 364, "4b": 437, "4c": 463, "4d": 580, "4e": 840, "5a": 1072,
    "5b": 1388,
}  # fmt: skip


@pytest.mark.parametrize(("module", "thousands"), INCEPTION.items())
def test_inception_modules_have_the_published_size(module: str, thousands: int) -> None:
    shapes = weight_shapes(build_network("inception", (3, 32, 32), 10))
    names = [name for name in shapes if name.startswith(f"inception{module}_")]
    count = sum(math.prod(shapes[name]) for name in names if name.endswith("conv.weight"))
    assert count / 1000 == pytest.approx(thousands, rel=0.11)


def test_a_residual_block_adds_its_path_and_its_shortcut() -> None:
    network = build_network("resnet18", (3, 32, 32), 10)
    sums = {
        context.layer.name: context.sources
        for context in network.layer_contexts
        if len(context.sources) > 1
    }
    assert sums["stage1_block1_sum"] == ("stage1_block1_b_norm", "stem_pool")
    assert sums["stage2_block1_sum"] == ("stage2_block1_b_norm", "stage2_block1_short_norm")
    assert len(sums) == 8


def test_running_statistics_are_separate_from_the_weights() -> None:
    network = build_network("resnet18", (3, 32, 32), 10)
    start = initial_statistics(network)
    assert len(start) == 2 * sum(isinstance(layer, BatchNorm) for layer in network.layers)
    assert (start["stem_norm.variance"] == 1).all()
    assert (start["stem_norm.mean"] == 0).all()
    assert not set(start) & set(weight_shapes(network))
    assert (initial_weights(network, 1)["stem_norm.weight"] == 1).all()


def test_every_network_is_in_the_table() -> None:
    assert {row[0] for row in PUBLISHED} == set(NETWORKS)


def test_the_language_model_scores_every_word_at_every_time_step() -> None:
    network = build_network("lstm", (30,), 10_000)
    assert network.shapes()["fc"] == (30, 10_000)
    assert list(network.state_shapes()) == [
        "lstm1.hidden", "lstm1.cell", "lstm2.hidden", "lstm2.cell"
    ]  # fmt: skip
    for value in initial_weights(network, 1).values():
        assert 0.099 < np.abs(value).max() <= 0.1


def test_gates_can_be_reordered_and_restored() -> None:
    rows = np.repeat(np.arange(4), 3)[:, None] * np.ones(2)
    reordered = reorder_gates(rows, GATES, "icfo")
    assert reordered[:, 0].tolist() == [0] * 3 + [2] * 3 + [1] * 3 + [3] * 3
    np.testing.assert_array_equal(reorder_gates(reordered, "icfo", GATES), rows)


@pytest.mark.parametrize(("name", "shape"), [("lstm", (3, 32, 32)), ("lenet5", (30,))])
def test_a_network_refuses_input_of_the_other_kind(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="network"):
        build_network(name, shape, 10)


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


def test_changing_a_layer_does_not_change_the_weights_of_others() -> None:
    ten = initial_weights(build_network("lenet5", (3, 32, 32), 10), 1)
    hundred = initial_weights(build_network("lenet5", (3, 32, 32), 100), 1)
    np.testing.assert_array_equal(ten["fc2.weight"], hundred["fc2.weight"])


def test_invalid_networks_are_reported() -> None:
    with pytest.raises(UserError, match="network: 'vgg'"):
        build_network("vgg", (3, 32, 32), 10)
    with pytest.raises(UserError, match=r"conv2\.kernel"):
        build_network("lenet5", (3, 8, 8), 10)
    flat = (Flatten(name="flatten"), Dense(name="fc", features=5))
    with pytest.raises(UserError, match="10 outputs"):
        Network("bad", (1, 2, 2), 10, flat)
    with pytest.raises(UserError, match="an earlier layer"):
        Network("bad", (4,), 2, (Dense(name="fc", features=2, sources=("later",)),))
    with pytest.raises(UserError, match="inputs of one shape"):
        Add(name="sum").output_shape((2,), (3,))
    with pytest.raises(UserError, match="images of one size"):
        Concat(name="row").output_shape((2, 4, 4), (2, 5, 5))
    with pytest.raises(UserError, match="unique names"):
        Network("bad", (1, 9, 9), 2, (Conv(name="c", channels=1, kernel=2),) * 2)
    with pytest.raises(UserError, match=r"fc\.sources.*a Flatten before it"):
        Network("bad", (1, 2, 2), 2, (Dense(name="fc", features=2),))


def test_invalid_layers_are_reported() -> None:
    with pytest.raises(UserError, match=r"act\.function: 'tahn' .*did you mean 'tanh'"):
        Activation(name="act", function="tahn")  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"fc\.features: -1 .*at least 1"):
        Dense(name="fc", features=-1)
    with pytest.raises(UserError, match=r"conv\.kernel: 2\.5 .*an integer"):
        Conv(name="conv", channels=4, kernel=2.5)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"conv\.padding: -1 .*at least 0"):
        Conv(name="conv", channels=4, kernel=3, padding=-1)

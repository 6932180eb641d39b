"""What arrays alone show: functions, rules between layers, pairs, distances, the search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from horizont.errors import UserError
from horizont.modeldiff.attended import attended, rotated
from horizont.modeldiff.attention import identify_attention
from horizont.modeldiff.common_shapes import unpadded
from horizont.modeldiff.distances import (
    NOISE_ULPS,
    Difference,
    differences,
    distance,
    first_of_each,
    training_values,
)
from horizont.modeldiff.functions import FUNCTIONS, RESULTS, STEPS, repaired
from horizont.modeldiff.glue import Glue
from horizont.modeldiff.glue_rules import (
    attention,
    chain,
    combination,
    result_candidate,
    rounded_input,
    scaled_input,
)
from horizont.modeldiff.identification import ArrayNamespace, chains, identify, identify_pair
from horizont.modeldiff.inputs import displaced, make_batch, moved_statistics
from horizont.modeldiff.links import refined
from horizont.modeldiff.orders import channel_order, feature_order, flatten_order
from horizont.modeldiff.pairing import (
    Pair,
    neutral_weights,
    pair_layers,
    read_pairs,
    signature,
    transfer,
    write_pairs,
)
from horizont.modeldiff.precision import SINGLE_PRECISION, Precision
from horizont.modeldiff.recording import Layer, Recording, Repair
from horizont.modeldiff.repairs import Candidate, merged
from horizont.modeldiff.report import Agreement
from horizont.modeldiff.search import explain
from horizont.modeldiff.sides import parse_arguments, parse_side

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.normal(0, 3, (2, 4, 6, 6))


def test_every_function_differs_from_every_other_one() -> None:
    x = RANDOM.normal(0, 4, 2000)
    for name, function in FUNCTIONS.items():
        assert identify(x, function(ArrayNamespace, x), 1e-12) == {"function": name}
    assert identify(x, np.sin(x), 1e-12) is None


@pytest.mark.parametrize("x", [-3.0, -0.5, 0.7, 8.0])
def test_functions_are_those_of_their_names(x: float) -> None:
    values = {name: function(ArrayNamespace, np.array(x)) for name, function in FUNCTIONS.items()}
    sigmoid = 1 / (1 + math.exp(-x))
    assert values["SiLU"] == pytest.approx(x * sigmoid)
    assert values["GELU by erf"] == pytest.approx(x * 0.5 * math.erfc(-x / math.sqrt(2)))
    assert values["GELU by erf, constants in single"] == pytest.approx(
        float(values["GELU by erf"]), rel=1e-6
    )
    assert values["softplus"] == pytest.approx(math.log1p(math.exp(x)))
    assert values["ReLU6"] == min(max(x, 0), 6)
    assert values["ELU"] == pytest.approx(x if x > 0 else math.expm1(x))
    assert values["sigmoid"] == pytest.approx(sigmoid)


def windows(
    size: int, stride: int, padding: Sequence[int] = (0, 0), counted: bool = True
) -> dict[str, Any]:
    pads = [list(padding), list(padding)]
    return {"size": size, "stride": stride, "padding": pads, "counted": counted}


@pytest.mark.parametrize(
    "change",
    [
        {"function": "ReLU", "pool": "max", **windows(2, 2), "flatten": "last"},
        {"function": "GELU by tanh", "pool": "mean", **windows(3, 3)},
        {"function": "none", "pool": "max", **windows(3, 2, [1, 0])},
        {"function": "none", "pool": "max", **windows(3, 2, [0, 1])},
        {"function": "ReLU", "pool": "mean", **windows(3, 1, [1, 1], counted=False)},
        {"function": "ReLU", "pool": "mean", **windows(3, 1, [1, 1])},
        {"function": "tanh", "resize": "nearest", "times larger": 2},
        {"function": "none", "resize": "linear", "times larger": 3},
        {"function": "none", "resize": "linear, corners aligned", "times larger": 2},
        {"function": "SiLU", "pool": "mean", "size": 0},
        {"function": "tanh", "flatten": "first"},
    ],
)
def test_what_follows_a_function_is_found(change: dict[str, Any]) -> None:
    result = repaired(ArrayNamespace, IMAGES, change, {})
    assert identify(IMAGES, result, 1e-12) == change
    assert {key: value for key, value in change.items() if key != "function"} in chains(
        IMAGES.shape, result.shape
    )


@pytest.mark.parametrize("layout", ["first", "last"])
def test_features_that_become_images_are_found(layout: str) -> None:
    features = IMAGES.reshape(len(IMAGES), -1)
    change = {"function": "SiLU", "unflatten": layout, "sizes": list(IMAGES.shape[1:])}
    result = repaired(ArrayNamespace, features, change, {})
    assert result.shape == IMAGES.shape
    assert identify(features, result, 1e-12) == change


@pytest.mark.parametrize(
    "change",
    [
        {"plus": "y", "factor": 1.0, "function": "GELU by tanh"},
        {"plus": "y", "factor": 0.17, "function": "none"},
        {"plus": "y", "factor": 0.3, "function": "ReLU"},
        {"function": "ReLU", "times": "gate", "gate": "sigmoid"},
        {"function": "none", "times": "gate", "gate": "hard sigmoid, slope 1/6"},
        {"plus": "y", "factor": 1.0, "function": "ReLU6", "pool": "mean", "size": 0},
        {"plus": "y", "factor": 0.5, "function": "none", "pool": "mean", "size": 0},
        {"plus": "y", "factor": 1.0, "function": "tanh", "pool": "max", "size": 0},
    ],
)
def test_functions_of_two_tensors_are_found(change: dict[str, Any]) -> None:
    tensors = {"y": RANDOM.normal(0, 3, IMAGES.shape), "gate": RANDOM.normal(0, 3, (2, 4))}
    other = tensors[change.get("plus") or change["times"]]
    result = repaired(ArrayNamespace, IMAGES, change, tensors)
    found = identify_pair(IMAGES, other, result, 1e-12)
    assert found is not None
    named = {key: change[key] for key in ("plus", "times") if key in change}
    assert {**found, **named} == change
    assert identify_pair(IMAGES, other, np.sin(result), 1e-12) is None


GROUPS = [{"groups": 2, "group": group} for group in ("adjacent", "interleaved")]


@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize(("heads", "scale"), [(1, 1.0), (3, 0.5), (4, 12**-0.5), (12, 1.0)])
@pytest.mark.parametrize("is_fused", [False, True])
def test_attention_is_found(heads: int, scale: float, mask: str, is_fused: bool) -> None:
    parts = {name: RANDOM.normal(size=(2, 6, 12)) for name in ("v", "k", "q")}
    wanted = {"queries": ["q", 0, 1], "keys": ["k", 0, 1], "values": ["v", 0, 1]}
    if is_fused:
        parts = {"all": np.concatenate([parts[name] for name in ("q", "k", "v")], axis=2)}
        wanted = {key: ["all", i, 3] for i, key in enumerate(wanted)}
    settings: dict[str, Any] = {**wanted, "heads": heads, "scale": scale, "mask": mask}
    result = attended(ArrayNamespace, settings, parts)
    assert identify_attention(parts, result, 1e-12) == settings
    assert identify_attention(parts, np.sin(result), 1e-12) is None
    one_head = parts["all"][..., 24:] if is_fused else parts["v"]
    if mask == "causal":  # the first step sees itself only
        assert np.allclose(result[:, 0], one_head[:, 0])


FREQUENCIES = 10000.0 ** (-np.arange(0, 6, 2) / 6)


@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize("groups", [{}, *GROUPS], ids=["", "adjacent", "interleaved"])
@pytest.mark.parametrize("rotation", ["", "halves", "adjacent"])
@pytest.mark.parametrize("rounded_to", ["float64", "float32"])
def test_groups_of_heads_and_rotary_embeddings_are_found(
    mask: str, groups: dict[str, Any], rotation: str, rounded_to: str
) -> None:
    sizes = {"v": 12 if groups else 24, "k": 12 if groups else 24, "q": 24}
    parts = {name: RANDOM.normal(size=(2, 5, size)) for name, size in sizes.items()}
    named = {"queries": ["q", 0, 1], "keys": ["k", 0, 1], "values": ["v", 0, 1]}
    settings: dict[str, Any] = {**named, "heads": 4, **groups, "scale": 6**-0.5, "mask": mask}
    frequencies = FREQUENCIES.astype(rounded_to).astype(float)
    if rotation:
        settings |= {"rotation": rotation, "base": 1e4, "frequencies": frequencies.tolist()}
    found = identify_attention(parts, attended(ArrayNamespace, settings, parts), 1e-12)
    assert found is not None
    assert np.allclose(found.pop("frequencies", []), settings.pop("frequencies", []), 1e-12, 0)
    assert found == settings


def test_rotated_pairs_keep_their_length_and_depend_on_distance_alone() -> None:
    one, other = (RANDOM.normal(size=(1, 1, 1, 6)).repeat(5, axis=2) for _ in range(2))
    for rotation in ("halves", "adjacent"):
        x, y = (
            rotated(ArrayNamespace, each, rotation, FREQUENCIES.tolist()) for each in (one, other)
        )
        products = (x @ y.swapaxes(2, 3))[0, 0]
        for steps in range(-4, 5):
            assert np.ptp(products.diagonal(steps)) < 1e-12
        assert np.ptp(products) > 0.1


def test_attention_that_differs_is_named() -> None:
    parts = {name: RANDOM.normal(size=(2, 6, 12)) for name in ("v", "k", "q")}
    named = {"queries": ["q", 0, 1], "keys": ["k", 0, 1], "values": ["v", 0, 1]}
    a, b = (
        attended(ArrayNamespace, {**named, "heads": 3, "scale": scale, "mask": mask}, parts)
        for scale, mask in ((0.5, "none"), (1.0, "causal"))
    )
    found = attention(Glue("layer", parts, a, b))
    assert found is not None
    assert str(found).startswith("scale of attention and mask of attention: 0.5, none against 1, ")


@pytest.mark.parametrize(("dtype", "unit"), [("float16", 2**-11), ("bfloat16", 2**-8)])
def test_an_input_of_fewer_bits_is_found(dtype: str, unit: float) -> None:
    ends = np.array([1.0, 1.0 + unit, 1.0 + 1.01 * unit, 1.0 + 3 * unit, -0.1])
    rounded = ArrayNamespace.rounded(ends, dtype)
    # What lies in the middle of two numbers becomes the one that ends with a zero.
    assert rounded[:4].tolist() == [1.0, 1.0, 1.0 + 2 * unit, 1.0 + 4 * unit]
    assert 0 < abs(rounded[4] + 0.1) < 0.1 * unit
    found = rounded_input(glue(IMAGES, ArrayNamespace.rounded(IMAGES, dtype)))
    assert found is not None
    assert str(found) == f"precision of an input: whole against rounded to {dtype} in layer"
    assert rounded_input(glue(IMAGES, IMAGES + 1e-3)) is None


def test_a_summand_of_one_side_alone_is_named() -> None:
    x, y = RANDOM.normal(0, 3, (2, *IMAGES.shape))
    relu = FUNCTIONS["ReLU"]
    alone, both = relu(ArrayNamespace, x), relu(ArrayNamespace, x + y)
    sources = {"input|first": y}, {"input|first": y}
    without = chain(Glue("layer", {"before": x}, both, alone, *sources))
    added = combination(Glue("layer", {"before": x}, alone, both, *sources))
    assert without is not None
    assert added is not None
    assert str(without) == "summand: input of first against none in layer"
    assert str(added) == "summand: none against input of first in layer"
    # The other summand is missing, whichever of both is computed last.
    other = combination(Glue("layer", {"before": x}, y, x + y, *sources))
    assert str(other) == "summand: none against output of before in layer"


def test_the_difference_of_a_summand_arises_where_the_summand_does() -> None:
    x, y = RANDOM.normal(0, 3, (2, *IMAGES.shape))
    elu, relu = (FUNCTIONS[name](ArrayNamespace, y) for name in ("ELU", "ReLU"))

    def compared(a: Any, b: Any) -> Candidate | None:
        sources = {"input|first": relu}, {"input|first": elu}
        return combination(Glue("layer", {"before": x}, a, b, *sources))

    here = compared(np.tanh(x + elu), np.maximum(x + relu, 0))
    assert here is not None
    assert str(here) == "activation after a sum or before a product: tanh against ReLU in layer"
    there = compared(np.maximum(x + elu, 0), np.maximum(x + relu, 0))
    assert there is not None
    assert (there.what, there.follows, there.layers) == ("", "first", ())
    assert compared(np.maximum(x, 0), np.sin(x)) is None


def glue(a: Any, b: Any, **outputs: Any) -> Glue:
    return Glue("layer", outputs, a, b)


def test_an_activation_is_named_on_both_sides() -> None:
    relu, relu6 = np.maximum(IMAGES, 0), np.clip(IMAGES, 0, 6)
    found = chain(glue(relu, relu6, before=IMAGES))
    assert found is not None
    assert str(found) == "activation: ReLU against ReLU6 in layer"
    assert found.repairs == (Repair("layer", "input", {"from": "before", "function": "ReLU6"}),)
    assert chain(glue(relu, np.sin(IMAGES), before=IMAGES)) is None


def test_no_part_is_named_if_one_side_is_not_identified() -> None:
    relu = np.maximum(IMAGES, 0)
    found = chain(glue(relu[:, :, ::-1], relu, before=IMAGES))
    assert found is not None
    assert found.what == "what is between layers"
    assert (found.value_a, found.value_b) == ("not identified", "ReLU (activation)")
    other = chain(glue(IMAGES**3, relu, before=IMAGES))
    assert str(other) == "activation: not identified against ReLU in layer"


RELU: dict[str, Any] = {"function": "ReLU"}
#: Pooling that gives an image of the same size, and one twice as small.
LEVEL, HALVING = windows(3, 1, [1, 1]), windows(2, 2)


@pytest.mark.parametrize(
    ("own", "theirs", "expected"),
    [
        ({"pool": "mean", **LEVEL}, {}, "pooling: mean against none"),
        ({}, {"pool": "mean", **LEVEL}, "pooling: none against mean"),
        ({"pool": "max", **HALVING}, {}, "pooling: max against none"),
        ({"pool": "max", **LEVEL}, {"pool": "mean", **LEVEL}, "pooling: max against mean"),
        (
            {"pool": "max", **windows(2, 2)},
            {"pool": "max", **windows(3, 3)},
            "size of pooling and stride of pooling: 2, 2 against 3, 3",
        ),
        ({"resize": "nearest", "times larger": 2}, {}, "interpolation: nearest against none"),
        (
            {"resize": "nearest", "times larger": 2},
            {"resize": "nearest", "times larger": 4},
            "factor of interpolation: 2 against 4",
        ),
        (
            {"function": "tanh", "pool": "max", **LEVEL},
            {},
            "activation and pooling: tanh, max against ReLU, none",
        ),
        (
            {"flatten": "first"},
            {"pool": "mean", "size": 0},
            "pooling and order of flattened features: none, channels first against mean, none",
        ),
    ],
)
def test_what_one_side_alone_has_between_layers_is_named(
    own: dict[str, Any], theirs: dict[str, Any], expected: str
) -> None:
    a, b = (repaired(ArrayNamespace, IMAGES, {**RELU, **each}, {}) for each in (own, theirs))
    found = chain(glue(a, b, before=IMAGES))
    assert found is not None
    assert str(found) == f"{expected} in layer"
    assert not found.of_framework


def test_the_same_difference_of_many_layers_is_one_candidate() -> None:
    relu, relu6 = np.maximum(IMAGES, 0), np.clip(IMAGES, 0, 6)
    found = [
        chain(Glue(name, {"before": IMAGES}, relu, other))
        for name, other in (("a", relu6), ("b", np.tanh(IMAGES)), ("c", relu6))
    ]
    both = merged([each for each in found if each])
    assert [(each.value_b, each.layers) for each in both] == [
        ("ReLU6", ("a", "c")),
        ("tanh", ("b",)),
    ]
    assert [repair.layer for repair in both[0].repairs] == ["a", "c"]


def test_flattened_features_are_reordered() -> None:
    features = RANDOM.normal(size=(2, 4 * 9))
    last = features.reshape(2, 4, 9).transpose(0, 2, 1).reshape(2, -1)
    found = flatten_order(glue(features, last, before=IMAGES))
    assert found is not None
    assert (found.value_a, found.value_b) == ("channels first", "channels last")
    back = flatten_order(glue(last, features, before=IMAGES))
    assert back is not None
    assert (back.value_a, back.value_b) == ("channels last", "channels first")
    repaired_features = repaired(ArrayNamespace, last, back.repairs[0].value, {})
    assert np.array_equal(repaired_features, features)
    assert flatten_order(glue(features, features[:, ::-1], before=IMAGES)) is None


def test_concatenated_parts_and_reversed_features_are_reordered() -> None:
    features = RANDOM.normal(size=(2, 10))
    exchanged = np.concatenate([features[:, 6:], features[:, :6]], axis=1)
    found = feature_order(glue(features, exchanged))
    assert found is not None
    assert str(found) == "order of concatenated parts: 0:6, 6:10 against 6:10, 0:6 in layer"
    assert np.array_equal(repaired(ArrayNamespace, features, found.repairs[0].value, {}), exchanged)
    sequences = RANDOM.normal(size=(2, 5, 3))
    for axis, name in ((1, "steps"), (2, "features")):
        back = feature_order(glue(sequences, np.flip(sequences, axis)))
        assert back is not None
        assert str(back) == f"order of {name}: given against reversed in layer"
    assert feature_order(glue(features, features * (1 + 1e-15))) is None
    assert feature_order(glue(features, features[:, ::-1] * (1 + 1e-9))) is None


@pytest.mark.parametrize("theirs", STEPS)
def test_the_reduction_of_steps_is_named(theirs: str) -> None:
    sequences = RANDOM.normal(size=(2, 5, 3))
    reduced = {
        "the first": sequences[:, 0],
        "the last": sequences[:, -1],
        "the mean": sequences.mean(1),
        "the mean without the first": sequences[:, 1:].mean(1),
        "the maximum": sequences.max(1),
        "the sum": sequences.sum(1),
    }
    own = "the mean" if theirs != "the mean" else "the maximum"
    found = chain(glue(reduced[own], reduced[theirs], before=sequences))
    assert found is not None
    assert str(found) == f"reduction of steps: {own} against {theirs} in layer"


def test_channels_and_scales_of_an_input_are_found() -> None:
    found = channel_order(glue(IMAGES, IMAGES[:, ::-1]))
    assert found is not None
    assert np.array_equal(
        repaired(ArrayNamespace, IMAGES, found.repairs[0].value, {}), IMAGES[:, ::-1]
    )
    scaled = scaled_input(glue(IMAGES, IMAGES / 127.5 - 1))
    assert scaled is not None
    assert scaled.value_b == "0.00784314 x - 1"
    assert scaled_input(glue(IMAGES, IMAGES**3)) is None
    assert not scaled.of_framework
    rounded = scaled_input(glue(IMAGES / 255, IMAGES * float(np.float32(1 / 255))))
    assert rounded is not None
    assert (rounded.value_b, rounded.of_framework) == ("1.00000006 x", True)
    undone = chain(glue(4 * IMAGES, IMAGES, before=IMAGES))
    assert undone is not None
    assert (undone.what, undone.value_b) == ("scale of an input", "0.25 x")
    factors, summands = RANDOM.normal(0, 2, (2, 1, 4, 1, 1))
    by_channel = scaled_input(glue(IMAGES, IMAGES * factors + summands))
    assert by_channel is not None
    (repair,) = by_channel.repairs
    changed = repaired(ArrayNamespace, IMAGES, repair.value, {})
    assert np.allclose(changed, IMAGES * factors + summands, rtol=1e-12)
    indices = np.array([[3, 0, 7], [1, 2, 9]])
    moved = scaled_input(glue(indices, indices + 2))
    assert moved is not None
    assert str(moved) == "offset of indices: i against i + 2 in layer"
    assert repaired(ArrayNamespace, indices, moved.repairs[0].value, {}).dtype == indices.dtype
    assert scaled_input(glue(indices, indices[:, ::-1])) is None


@pytest.mark.parametrize("name", RESULTS)
def test_the_function_of_a_result_is_found(name: str) -> None:
    logits = RANDOM.normal(size=(5, 7))
    other = RESULTS["softmax" if name == "none" else "none"](ArrayNamespace, logits)
    found = result_candidate(
        Glue("", {"last": logits}, other, RESULTS[name](ArrayNamespace, logits))
    )
    assert found is not None
    assert found.value_b == name


def layer(name: str, kind: str = "dense", **shapes: tuple[int, ...]) -> Layer:
    return Layer(name, kind, shapes or {"kernel": (3, 4), "bias": (3,)})


def test_layers_are_paired_by_kind_shape_and_order() -> None:
    a = [layer("a1"), layer("a2"), layer("a3", kernel=(5, 3))]
    b = [layer("b1"), layer("b2", kernel=(3, 4)), layer("b3", kernel=(5, 3))]
    found = pair_layers(a, b)
    assert [(p.a.name, p.b.name) for p in found.pairs] == [("a1", "b1"), ("a2", "b2"), ("a3", "b3")]
    assert not found.ties
    other = pair_layers(a, [b[2], b[0], b[1]])
    assert [p.b.name for p in other.pairs] == ["b1", "b2", "b3"]
    assert [p.a.name for p in other.ties] == ["a1", "a2"]


def test_branches_are_paired_by_what_they_are_connected_to() -> None:
    """Each of two branches is a dense layer and another one, executed in either order."""
    x, one, two, three, four = (RANDOM.normal(size=(2, 3)) for _ in range(5))
    shapes = {"kernel": (3, 3)}
    names = ("stem", "long1", "long2", "short")
    runs = {
        "input|stem": x, "output|stem": one, "input|long1": one, "output|long1": two,
        "input|long2": two, "output|long2": three, "input|short": one, "output|short": four,
    }  # fmt: skip
    a = [Layer(name, "dense", shapes) for name in names]
    b = [Layer(name, "dense", shapes) for name in ("stem", "short", "long1", "long2")]
    signs = [(each, [signature(layer) for layer in each]) for each in (a, b)]
    stages = [refined(layers, found, runs) for layers, found in signs]
    found = pair_layers(a, b, list(zip(*stages, strict=True)))
    assert [pair.b.name for pair in found.pairs] == [*names]
    assert [pair.b.name for pair in pair_layers(a, b).pairs] != [*names]


def test_layers_without_a_partner_are_listed() -> None:
    a = [layer("a1"), layer("extra", kernel=(9, 9)), layer("a2")]
    found = pair_layers(a, [layer("b1"), layer("b2")])
    assert [each.name for each in found.only_a] == ["extra"]
    assert [(p.a.name, p.b.name) for p in found.pairs] == [("a1", "b1"), ("a2", "b2")]


def test_pairs_are_written_edited_and_read(tmp_path: Path) -> None:
    a, b = [layer("a1"), layer("a2")], [layer("b1"), layer("b2")]
    path = tmp_path / "diff.yaml"
    write_pairs(pair_layers(a, b), path)
    assert read_pairs(path, a, b) == pair_layers(a, b)
    path.write_text("pairs:\n- [a1, b2]\n- [a2, b1]\n")
    assert [p.b.name for p in read_pairs(path, a, b).pairs] == ["b2", "b1"]
    for text in ("pairs:\n- [a1, nowhere]\n", "pairs: 3\n", "{", "pairs:\n- [a1]\n"):
        path.write_text(text)
        with pytest.raises(UserError, match="pairs"):
            read_pairs(path, a, b)


def test_what_only_one_side_has_is_neutral() -> None:
    a = layer("a", "batch norm", scale=(2,), offset=(2,), mean=(2,), variance=(2,))
    b = layer("b", "batch norm", offset=(2,), mean=(2,), variance=(2,))
    pairing = pair_layers([a], [b])
    weights = {f"b|{role}": np.full(2, 5.0) for role in b.shapes}
    assert np.array_equal(transfer(pairing, weights)["a|scale"], np.ones(2))
    swapped = pairing.swapped()
    full = {f"a|{role}": np.full(2, 5.0) for role in a.shapes}
    assert np.array_equal(neutral_weights(swapped, full)["a|scale"], np.ones(2))
    assert np.array_equal(neutral_weights(swapped, full)["a|offset"], np.full(2, 5.0))


def test_weights_that_would_hide_something_are_displaced() -> None:
    weights = {"a|kernel": RANDOM.normal(size=4), "a|bias": np.zeros(4), "n|scale": np.ones(40)}
    found = displaced(weights)
    assert found["a|kernel"] is weights["a|kernel"]
    assert np.ptp(found["a|bias"]) > 0
    assert found["n|scale"].max() > 4
    statistics = {"n|mean": np.zeros(4), "n|variance": np.ones(4)}
    moved = moved_statistics(statistics)
    assert all(np.all(moved[key] != statistics[key]) for key in statistics)


def test_zeros_that_a_layer_before_has_added_are_removed() -> None:
    kernel = {"kernel": (4, 4, 3, 3)}
    pair = Pair(Layer("a", "convolution", kernel), Layer("b", "convolution", kernel))
    padded = np.pad(IMAGES, [(0, 0), (0, 0), (2, 0), (1, 1)])
    one, other, zeros = unpadded(pair, IMAGES, padded)
    assert np.array_equal(one, other)
    assert zeros == [[[0, 0], [0, 0]], [[2, 0], [1, 1]]]
    one, other, zeros = unpadded(pair, padded, IMAGES)
    assert np.array_equal(one, other)
    assert zeros == [[[2, 0], [1, 1]], [[0, 0], [0, 0]]]
    assert unpadded(pair, IMAGES, padded + 1)[2] == [[[0, 0], [0, 0]]] * 2


def test_distances_of_what_cannot_be_compared_are_infinite() -> None:
    one = np.ones(3)
    assert distance(one, np.ones(4)) == math.inf
    assert distance(one, np.array([1, np.nan, 1])) == math.inf
    assert distance(one, np.zeros(3)) == math.inf
    assert distance(np.zeros(3), np.zeros(3)) == 0
    steps = RANDOM.normal(size=(2, 5, 3))
    assert distance(steps, steps[:, -1]) == 0


def recording(gradient: float, outer: float = 1.0) -> dict[str, Any]:
    """Return a layer with a bias whose gradient is zero but for rounding."""
    return {
        "result": np.ones((8, 3)),
        "loss": np.array(1.0),
        "input|l": np.ones((8, 4)),
        "output|l": np.ones((8, 3)),
        "outer|l": np.array(outer),
        "gradient|l|kernel": np.ones((3, 4)),
        "gradient|l|bias": np.full(3, gradient),
        "after|l|kernel": np.ones((3, 4)),
        "after|l|bias": np.full(3, -0.1 * gradient),
    }


def test_a_gradient_that_is_mathematically_zero_raises_no_alarm() -> None:
    pair = Pair(layer("l"), layer("l"))
    weights = {"l|kernel": np.full((3, 4), 1.1), "l|bias": np.zeros(3)}
    one, other = recording(1e-17), recording(-3e-17)
    values = training_values([pair], one, other, weights)
    found = {each.key: each for each in differences(values, ())}
    assert not any(each.exceeds for each in found.values())
    assert distance(one["gradient|l|bias"], other["gradient|l|bias"]) > 1
    wrong = training_values([pair], recording(1e-8), other, weights)
    exceeding = {each.key for each in differences(wrong, ()) if each.exceeds}
    assert exceeding == {"gradient|l|bias", "update|l|bias"}


def test_a_gradient_that_one_side_does_not_compute_as_zero_raises_no_alarm() -> None:
    """That of attention to one step is zero; what is left of it on one side is not."""
    pair = Pair(layer("l"), layer("l"))
    weights = {"l|kernel": np.full((3, 4), 1.1), "l|bias": np.zeros(3)}
    zero, eps = recording(0.0, outer=0.0), float(np.finfo(np.float64).eps)
    values = training_values([pair], recording(eps, outer=0.0), zero, weights)
    assert values["gradient|l|bias"] == values["update|l|bias"] == 0.0
    values = training_values([pair], recording(100 * eps, outer=0.0), zero, weights)
    assert values["gradient|l|bias"] > 1


def test_a_gradient_just_above_the_rounding_of_all_is_within_ten_times_its_noise() -> None:
    pair, eps = Pair(layer("l"), layer("l")), float(np.finfo(np.float64).eps)
    weights = {"l|kernel": np.full((3, 4), 1.1), "l|bias": np.zeros(3)}
    plain, rerun, other = (recording(1e-6 + n * eps, outer=0.0) for n in (0, 8, 70))
    noise = training_values([pair], rerun, plain, weights, NOISE_ULPS)
    found = differences(training_values([pair], other, plain, weights), [noise])
    assert not any(each.exceeds for each in found)
    noise = training_values(
        [pair], recording(1e-6 + 2 * eps, outer=0.0), plain, weights, NOISE_ULPS
    )
    found = differences(training_values([pair], other, plain, weights), [noise])
    assert [each.key for each in found if each.exceeds] == ["gradient|l|bias", "update|l|bias"]


def test_the_noise_of_an_update_is_at_least_that_of_its_gradient() -> None:
    values = {"gradient|a|kernel": 1e-4, "update|a|kernel": 1e-4, "update|b|kernel": 1e-4}
    found = differences(values, [{"gradient|a|kernel": 1e-3, "gradient|b|bias": 1e-3}])
    assert [each.exceeds for each in found] == [False, False, True]


def test_bounds_follow_the_noise_and_say_when_they_hide_a_defect() -> None:
    quiet, loud = differences({"output|a": 1e-9, "output|b": 1e-9}, [{"output|b": 1e-3}])
    assert quiet.exceeds
    assert not quiet.is_mute
    assert not loud.exceeds
    assert loud.is_mute


def test_a_tensor_that_only_noise_moves_does_not_count_as_agreeing() -> None:
    noise = [{"output|b": 1e-3, "output|c": 1e-3}]
    found = differences({"output|a": 1e-15, "output|b": 1e-9, "output|c": 0.5}, noise)
    agreement = Agreement("evaluation", tuple(found))
    assert (agreement.agreeing, agreement.largest) == (1, 0.5)
    assert str(agreement).startswith("evaluation: 1 of 3 tensors agree")
    assert str(agreement).endswith("; 1 cannot be compared")
    assert str(Agreement("evaluation", (found[1],))).endswith(
        "0 of 1 tensors agree; 1 cannot be compared"
    )


def candidate(name: str) -> Candidate:
    return Candidate(name, "1", "2", ("layer",), ())


def trial_of(rules: dict[str, set[str]]) -> Any:
    """Return a trial: each tensor agrees if one of the candidates that repair it is applied."""

    def trial(chosen: Any) -> list[Difference]:
        names = {each.what for each in chosen}
        return [
            Difference("output", key, "", 0.0 if needed & names else 1.0, 1e-11)
            for key, needed in rules.items()
        ]

    return trial


def test_only_what_brings_a_tensor_below_its_bound_is_a_cause() -> None:
    every = [candidate(name) for name in ("momentum", "epsilon", "useless", "again")]
    rules = {"x": {"epsilon"}, "y": {"momentum"}, "z": {"epsilon", "again"}, "w": set()}
    found = explain(every, trial_of(rules))
    assert [cause.candidate.what for cause in found.causes] == ["epsilon", "momentum"]
    assert [each.what for each in found.without_effect] == ["useless", "again"]
    assert [each.layer for each in found.unexplained] == ["w"]
    assert found.causes[0].explained[0].layer == "x"
    assert found.causes[0].repaired.distance == 0


def test_of_two_that_repair_the_same_one_remains() -> None:
    found = explain([candidate("one"), candidate("two")], trial_of({"x": {"one", "two"}}))
    assert [cause.candidate.what for cause in found.causes] == ["two"]
    assert not found.unexplained


def test_a_candidate_that_harms_is_dropped() -> None:
    def trial(chosen: Any) -> list[Difference]:
        harmed = any(each.what == "harm" for each in chosen)
        return [Difference("output", "x", "", float(harmed), 1e-11)]

    found = explain([candidate("harm")], trial)
    assert not found.causes
    assert not found.unexplained


def test_agreement_within_a_bound_that_hides_a_defect_is_no_evidence() -> None:
    def trial(chosen: Any) -> list[Difference]:
        return [Difference("output", "x", "", 0.4 if chosen else 39.0, 0.5 if chosen else 0.1)]

    found = explain([candidate("padding")], trial)
    assert not found.causes
    assert [each.what for each in found.without_effect] == ["padding"]


def test_batches_are_made_from_sizes_and_files(tmp_path: Path) -> None:
    assert make_batch("2x3x4").shape == (2, 3, 4)
    tokens = make_batch("2x5:7")
    assert tokens.dtype.kind == "i"
    assert tokens.max() < 7
    np.save(tmp_path / "batch.npy", IMAGES)
    assert np.array_equal(make_batch(str(tmp_path / "batch.npy")), IMAGES)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "batch.npy").read_bytes()[:90])
    np.save(tmp_path / "empty.npy", IMAGES[:0])
    np.save(tmp_path / "words.npy", np.array(["a", "b"]))
    np.save(tmp_path / "objects.npy", np.array([{}, None]), allow_pickle=True)
    files = [str(tmp_path / f"{name}.npy") for name in ("none", "cut", "empty", "words", "objects")]
    for text in ("", "2x", "0x3", "2x3:a", "4x8:0", *files):
        with pytest.raises(UserError, match="--input"):
            make_batch(text)
    with pytest.raises(UserError, match=r"99999999x8, 5\.96 GiB.* at most 1 GiB"):
        make_batch("99999999x8")


def test_arguments_are_literals_or_text() -> None:
    found = parse_arguments("A", "weights=None,width=1.5,name='a,b',shape=(2, 3),kind=relu")
    assert found == {
        "weights": None, "width": 1.5, "name": "a,b", "shape": (2, 3), "kind": "relu",
    }  # fmt: skip
    assert parse_arguments("B", "") == {}
    for text in ("1", "a=", "**x", "a=1;b"):
        with pytest.raises(UserError, match="--args-a"):
            parse_arguments("A", text)


def test_sides_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    for text in ("nothing", "caffe:module:build", "torch:module", "torch:none.py:build"):
        with pytest.raises(UserError, match="side B"):
            parse_side("B", text)
    for text, near in {"torh:a.b:build": "torch:", "dmp:folder": "dump:"}.items():
        with pytest.raises(UserError, match=f"did you mean '{near}'"):
            parse_side("A", text)
    with pytest.raises(UserError, match="dump"):
        parse_side("A", f"dump:{tmp_path}")
    with pytest.raises(UserError, match="--python-a"):
        parse_side("A", "torch:module:build", python="/no/python")
    assert parse_side("A", "torch:a.b:C.build").target == "a.b:C.build"


SINGLE = IMAGES.astype(np.float32).astype(np.float64)
#: Pixels of bytes that are added without rounding, to numbers with more than 16 bits.
PIXELS = RANDOM.integers(2**14, 2**16, IMAGES.shape).astype(np.float64)


def precision(given: Any, a: Any, b: Any) -> tuple[Precision, Recording]:
    pairs = [Pair(layer(name), layer(name)) for name in ("first", "second", "third")]
    recorded = {"output|first": IMAGES, "input|second": a}
    other = {"output|first": IMAGES, "input|second": b}
    return Precision(pairs, recorded, other, [given]), recorded


@pytest.mark.parametrize(
    ("given", "a", "b", "is_single"),
    [
        (PIXELS, IMAGES, SINGLE, True),
        (PIXELS, SINGLE, IMAGES, True),
        (PIXELS, SINGLE, SINGLE, False),
        (SINGLE[:1], IMAGES, SINGLE, True),
        # Copies: of weights, or of the batch, of some of them, and behind ReLU.
        (SINGLE, IMAGES, SINGLE, False),
        (SINGLE, SINGLE * 0.9999999, SINGLE, False),
        (SINGLE, SINGLE[:, :2], SINGLE[:, :2] * 0.9999999, False),
        (SINGLE, np.maximum(IMAGES, 0), -4 * np.maximum(SINGLE, 0), False),
        # What is computed without rounding, and scaled on the other side.
        (IMAGES, PIXELS * 0.9999999, PIXELS, False),
        (IMAGES, PIXELS * (1 + 1e-8), PIXELS, False),
        # What the sides differ in by more than rounding, or by the rounding of double precision.
        (PIXELS, IMAGES + 1e-4, SINGLE, False),
        (PIXELS, SINGLE * (1 + 2e-16), SINGLE, False),
    ],
)
def test_single_precision_is_what_was_computed_in_it(
    given: Any, a: Any, b: Any, is_single: bool
) -> None:
    found, recorded = precision(given, a, b)
    assert found.layers(recorded) == (("second",) if is_single else ())


def test_single_precision_raises_no_bound_before_it() -> None:
    found, recorded = precision(PIXELS, IMAGES, SINGLE)
    quantities = ("input", "output", "statistics", "gradient")
    every = [
        Difference(quantity, name, "", 1e-8, 1e-11)
        for name in ("first", "second", "third")
        for quantity in quantities
    ]
    every.append(Difference("result", "", "", 1e-8, 1e-11))
    bounds = {each.key: each.bound for each in found.bounded(every, recorded)}
    tight = {key for key, bound in bounds.items() if bound < SINGLE_PRECISION}
    assert tight == {"input|first", "output|first", "statistics|first"}
    output_alone = {key: value for key, value in recorded.items() if key.startswith("output")}
    assert found.bounded(every, output_alone) == every


def test_a_tensor_that_diverges_twice_keeps_its_first_place() -> None:
    first, last = (Difference("output", name, "", 1.0, 1e-11) for name in ("first", "last"))
    again = Difference("output", "first", "", 0.5, 1e-11)
    assert first_of_each([first, last, again]) == (first, last)

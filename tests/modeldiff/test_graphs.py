"""Graphs of ONNX: their layers, what they compute in double precision, and their comparison."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

from horizont.errors import UserError
from horizont.modeldiff import Options, Report, diff, functions, runner, timing
from horizont.modeldiff.divisions import find_divisions
from horizont.modeldiff.functions import exact
from horizont.modeldiff.onnx.arrays import NumPyNamespace
from horizont.modeldiff.recording import Layer
from horizont.modeldiff.report import NOT_THE_SAME, SAME, UNKNOWN
from horizont.modeldiff.sides import recorders
from tests.modeldiff.models import onnx_models
from tests.modeldiff.models.onnx_models import Writer

MODELS = Path(__file__).parent / "models"
TORCH = f"torch:{MODELS / 'torch_models.py'}:Images"
GRAPH = f"onnx:{MODELS / 'onnx_models.py'}"
IMAGES = "4x3x16x16"

recorder = runner.load_recorder(str(recorders()["onnx"][1]))


def record(model: Any, batch: Any, dtype: str = "float64", **options: Any) -> Any:
    """Return the recorder of a graph, which the tests of this file run in their own process."""
    return recorder.Recorder(lambda: model, {}, batch, dtype, functions, **options)


def run(one: Any, **changes: Any) -> dict[str, Any]:
    request = {
        "weights": {}, "feed": {}, "projection": None, "repairs": [], "training": False,
        "rate": 0.1, "seed": 0, **changes,
    }  # fmt: skip
    return dict(one.run(**request))


@pytest.mark.parametrize(
    "value",
    [1e-5, 0.1, 6.0, -(2**0.5), 0.5**0.5, (2 / np.pi) ** 0.5, 0.044715, 0.125**0.25, 1280**-0.5,
     1 / 255, -1 / 3, 0.0, float("inf")],
)  # fmt: skip
def test_a_constant_in_single_precision_gets_the_number_it_stands_for(value: float) -> None:
    assert exact(float(np.float32(value))) == pytest.approx(value, rel=1e-15)


def test_any_other_constant_remains_within_its_rounding() -> None:
    values = np.random.default_rng(0).normal(size=500).astype(np.float32)
    found = np.array([exact(float(each)) for each in values])
    assert np.array_equal(found.astype(np.float32), values)


def test_layers_have_kinds_names_weights_and_settings() -> None:
    one = record(onnx_models.images(folded=False), np.zeros((4, 3, 16, 16)))
    found = {each["name"]: each for each in one.layers()}
    assert {name: each["kind"] for name, each in found.items()} == {
        "conv1": "convolution", "norm": "batch norm", "conv2": "convolution",
        "dense1": "dense", "dense2": "dense",
    }  # fmt: skip
    assert all(each["roles"][1:2] for name, each in found.items() if name != "conv1")
    assert found["conv1"]["settings"]["padding"] == [[1, 1], [1, 1]]
    assert found["conv1"]["settings"]["stride"] == [2, 2]
    assert found["norm"]["settings"]["epsilon"] == 1e-5
    weights = one.weights()
    assert weights["dense1|kernel"].shape == (16, 96)
    assert weights["dense1|bias"].shape == (16,)
    assert all(each.dtype == np.float64 for each in weights.values())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_graph_computes_what_the_reference_of_onnx_does(dtype: str) -> None:
    model, batch = (
        onnx_models.images(folded=False),
        np.random.default_rng(1).normal(size=(4, 3, 16, 16)),
    )
    (expected,) = ReferenceEvaluator(model).run(None, {"images": batch.astype(np.float32)})
    found = run(record(model, batch, dtype))["result"]
    assert found.dtype == dtype
    assert np.allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_an_unfolded_norm_changes_nothing() -> None:
    model, batch = onnx_models.images(), np.random.default_rng(1).normal(size=(4, 3, 16, 16))
    plain = record(model, batch)
    how = {"conv1": {"channels": 8, "epsilon": 1e-3, "bias": False}}
    parts = record(model, batch, divisions=how)
    assert [each["kind"] for each in parts.layers()][:2] == ["convolution", "batch norm"]
    assert parts.layers()[1]["settings"] == {"epsilon": 1e-3}
    assert np.allclose(run(plain)["result"], run(parts)["result"], rtol=1e-14, atol=1e-16)
    assert np.array_equal(parts.weights()["conv1[norm]|offset"], plain.weights()["conv1|bias"])


def test_statistics_of_a_batch_are_recorded_in_training() -> None:
    batch = np.random.default_rng(1).normal(size=(4, 3, 16, 16))
    one = record(onnx_models.images(folded=False), batch)
    recorded = run(one, training=True)
    output = recorded["output|conv1"]
    assert np.allclose(recorded["after|norm|mean"], output.mean((0, 2, 3)))
    assert np.allclose(recorded["after|norm|variance"], output.var((0, 2, 3)))


@pytest.mark.parametrize(
    ("kind", "function"), [("HardSwish", "hard swish"), ("Gelu", "GELU by erf"), ("Mish", "mish")]
)
def test_operators_that_onnx_defines_by_others_are_exact(kind: str, function: str) -> None:
    graph, x = Writer(), np.linspace(-4, 4, 200)[None]
    one = record(graph.model(graph.node(kind, "x"), ("x", TensorProto.FLOAT, x.shape)), x)
    expected = functions.FUNCTIONS[function](NumPyNamespace, x)
    assert np.allclose(run(one)["result"], expected, rtol=1e-14, atol=1e-15)


def test_what_is_fed_takes_the_place_of_an_input() -> None:
    batch = np.random.default_rng(1).normal(size=(4, 3, 16, 16))
    one = record(onnx_models.images(), batch)
    plain = run(one)
    fed = run(one, feed={"input|dense2": np.zeros((4, 16)), "output|conv1": plain["output|conv1"]})
    assert np.array_equal(fed["output|dense2"], np.tile(one.weights()["dense2|bias"], (4, 1)))
    assert np.array_equal(fed["input|dense1"], plain["input|dense1"])


def test_a_changed_setting_is_undone() -> None:
    batch = np.random.default_rng(1).normal(size=(4, 3, 16, 16))
    one = record(onnx_models.images(), batch)
    change = {"layer": "conv2", "key": "padding", "value": [[2, 0], [1, 1]]}
    before, changed = run(one), run(one, repairs=[change])
    with pytest.raises(ValueError, match="negative"):  # no image is so small
        run(one, repairs=[{**change, "value": [[-20, 0], [1, 1]]}])
    after = run(one)
    assert not np.array_equal(before["output|conv2"], changed["output|conv2"])
    assert np.array_equal(before["result"], after["result"])


def norm_in_steps(x: str, graph: Writer) -> str:
    """Write a layer norm as exporters did before ONNX had one."""
    two, tiny = graph.constant("two", np.float32(2)), graph.constant("tiny", np.float32(1e-3))
    axes = graph.constant("axes", np.array([-1]))
    centred = graph.node("Sub", x, graph.node("ReduceMean", x, axes))
    variance = graph.node("ReduceMean", graph.node("Pow", centred, two), axes)
    root = graph.node("Sqrt", graph.node("Add", variance, tiny))
    y = graph.node(
        "Mul", graph.node("Div", centred, root), graph.weight("ln.weight", 6, around=1.0)
    )
    return graph.node("Add", y, graph.weight("ln.bias", 6))


def root_of_mean_square(x: str, graph: Writer) -> str:
    """Write a norm by the root of the mean square, which casts before it scales."""
    two, tiny = graph.constant("two", np.float32(2)), graph.constant("tiny", np.float32(1e-3))
    mean = graph.node(
        "ReduceMean", graph.node("Pow", x, two), graph.constant("axes", np.array([-1]))
    )
    root = graph.node("Sqrt", graph.node("Add", mean, tiny))
    y = graph.node("Cast", graph.node("Mul", x, graph.node("Reciprocal", root)), to=1)
    return graph.node("Mul", graph.weight("rms.weight", 6, around=1.0), y)


def norm_of_groups(x: str, graph: Writer) -> str:
    """Write a group norm as a norm of instances, with constants that are no weights."""
    y = graph.node("Reshape", x, graph.constant("grouped", np.array([0, 3, -1])))
    ones, zeros = graph.constant("ones", np.ones(3)), graph.constant("zeros", np.zeros(3))
    y = graph.node("InstanceNormalization", y, ones, zeros, epsilon=1e-3)
    y = graph.node("Reshape", y, graph.constant("whole", np.array([0, 6, 5, 4])))
    y = graph.node("Mul", y, graph.weight("gn.weight", 6, 1, 1, around=1.0))
    return graph.node("Add", y, graph.weight("gn.bias", 6, 1, 1))


@pytest.mark.parametrize(
    ("write", "shape", "kind", "settings"),
    [
        (norm_in_steps, (2, 3, 6), "layer norm", {"epsilon": 1e-3}),
        (root_of_mean_square, (2, 3, 6), "rms norm", {"epsilon": 1e-3}),
        (norm_of_groups, (2, 6, 5, 4), "group norm", {"epsilon": 1e-3, "groups": 3}),
    ],
)
def test_a_norm_of_several_nodes_is_one_layer(
    write: Any, shape: tuple[int, ...], kind: str, settings: dict[str, Any]
) -> None:
    graph = Writer()
    model = graph.model(write("x", graph), ("x", TensorProto.FLOAT, shape))
    one = record(model, np.random.default_rng(2).normal(size=shape))
    (layer,) = one.layers()
    assert (layer["kind"], layer["settings"]) == (kind, settings)
    assert json.loads(json.dumps(layer)) == {**layer, "fixed": list(layer["fixed"])}
    weights = one.weights()
    name = layer["name"]
    roles = ("scale",) if kind == "rms norm" else ("scale", "offset")
    assert {key: value.shape for key, value in weights.items()} == {
        f"{name}|{role}": (6,) for role in roles
    }
    other = np.random.default_rng(5).normal(size=shape)
    fed = run(one, feed={f"input|{name}": other}, weights={f"{name}|scale": np.ones(6)})
    assert np.allclose(fed["result"], run(one, weights={"batch": other})["result"])


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_gates_of_a_recurrent_node_have_the_canonical_order(kind: str) -> None:
    gates, units, features = (4 if kind == "LSTM" else 3), 2, 3
    graph = Writer()
    weights = [
        graph.constant(name, np.arange(gates * units * size).reshape(1, gates * units, size) / 7.0)
        for name, size in (("W", features), ("R", units))
    ]
    bias = graph.constant("B", np.arange(2.0 * gates * units)[None])
    graph.node(kind, "x", *weights, bias, hidden_size=units, name="cell", outputs=["y"])
    model = graph.model("y", ("x", TensorProto.FLOAT, (5, 2, features)))
    one = record(model, np.random.default_rng(2).normal(size=(5, 2, features)))
    order = [0, 1, 4, 5, 6, 7, 2, 3] if kind == "LSTM" else [2, 3, 0, 1, 4, 5]
    found = one.weights()
    assert np.array_equal(found["cell|kernel"], (graph.weights["W"][0].astype(float))[order])
    halves = np.split(graph.weights["B"][0].astype(float), 2)
    if kind == "LSTM":
        assert np.array_equal(found["cell|bias"], (halves[0] + halves[1])[order])
    else:
        assert np.array_equal(found["cell|recurrent bias"], halves[1][order])
    recorded = run(one, weights=found)
    assert recorded["input|cell"].shape == (2, 5, features)
    assert recorded["output|cell"].shape == (2, 5, units)
    assert np.allclose(recorded["result"], run(one)["result"])


def test_equal_vectors_that_a_file_has_once_are_weights_of_several_layers() -> None:
    graph = Writer()
    kernel, bias = graph.weight("kernel", 4, 4), graph.weight("bias", 4)
    x = graph.node("Gemm", graph.node("Gemm", "x", kernel, bias, name="a"), kernel, bias, name="b")
    one = record(graph.model(x, ("x", TensorProto.FLOAT, (2, 4))), np.ones((2, 4)))
    weights = {**one.weights(), "a|bias": np.zeros(4)}
    run(one, weights=weights)
    assert not one.weights()["a|bias"].any()
    assert one.weights()["b|bias"].any()


def convolution(name: str, channels: int, *roles: str) -> Layer:
    shapes = {role: (channels, 3, 3, 3) if role == "kernel" else (channels,) for role in roles}
    return Layer(name, "convolution", shapes)


def batch_norm(name: str, channels: int) -> Layer:
    return Layer(name, "batch norm", {"scale": (channels,), "mean": (channels,)}, {"epsilon": 0.5})


def test_a_norm_is_found_in_the_convolution_that_it_follows_on_the_other_side() -> None:
    graph = [convolution("a", 4, "kernel", "bias"), convolution("b", 6, "kernel", "bias")]
    model = [
        convolution("one", 4, "kernel"), batch_norm("n", 4), convolution("two", 6, "kernel", "bias")
    ]  # fmt: skip
    folded = {"a": {"channels": 4, "epsilon": 0.5, "bias": False}}
    assert find_divisions(graph, model, dict) == folded
    assert find_divisions(model, graph, dict) == {}
    # What follows begins with a norm of as many channels.
    assert find_divisions([graph[0], model[1]], [*model[:2], batch_norm("m", 4)], dict) == folded
    assert find_divisions([graph[0], model[1]], model[:2], dict) == {}
    other = [model[0], batch_norm("n", 5), model[2]]  # of other channels, behind a concatenation
    assert find_divisions(graph, other, dict) == {}


def whats(report: Report) -> list[str]:
    return [cause.candidate.what for cause in report.repairs]


@pytest.mark.framework("pytorch")
def test_a_graph_with_a_folded_norm_is_the_same_in_evaluation(tmp_path: Path) -> None:
    path = tmp_path / "images.onnx"
    onnx.save(onnx_models.images(channels_last=True), path)
    report = diff(TORCH, f"onnx:{path}", IMAGES, Options(accept=("weights",)))
    assert report.status == SAME, report.lines()
    assert report.verdict == "the same in evaluation, apart from 1 accepted difference"
    assert replace(report, accepted=()).verdict.startswith("not the same: other weights")
    assert [each.what for each in report.agreements] == ["evaluation in float64", "both in float32"]
    assert report.agreements[0].largest < 1e-13
    (note,) = report.notes
    assert "a norm is folded into convolutions of side B" in note
    assert "with the weights of each side, the results differ" in note


@pytest.mark.framework("pytorch")
def test_faults_of_a_graph_are_repaired_on_the_other_side() -> None:
    options = Options(args_b="folded=False,epsilon=0.01,padding=2,activation='Sigmoid'")
    report = diff(f"{GRAPH}:images", TORCH, IMAGES, Options(args_a=options.args_b))
    assert report.status == NOT_THE_SAME
    assert report.changed == "B"
    assert sorted(whats(report)) == ["activation", "epsilon of a norm", "padding of a convolution"]
    assert not report.unexplained


def test_two_graphs_are_compared_and_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SEGMENT_S", 0.01)
    options = Options(args_a="is_gelu_a_node=False", args_b="padding=0", time=True)
    report = diff(f"{GRAPH}:images", f"{GRAPH}:images", IMAGES, options)
    assert report.status == NOT_THE_SAME
    assert report.timing is not None
    assert [each.part for each in report.timing.parts] == ["evaluation"]
    assert all("Conv" in each.operators for each in report.timing.profiles)
    assert any("in one evaluation: A " in line for line in report.lines())
    plain = Options(args_a="is_gelu_a_node=False", accept=("padding",))
    same = diff(f"{GRAPH}:images", f"{GRAPH}:images", IMAGES, plain)
    assert "accepted, but not found: padding; differences here are named weights" in same.lines()
    assert same.status == SAME
    assert "with the weights of each side, the results agree" in same.notes[0]


@pytest.mark.parametrize(
    ("name", "sizes", "words"),
    [
        ("two_inputs", "2x3", "the graph has 2 inputs (left, right)"),
        ("foreign", "2x3", "ONNX does not define the operators FusedGelu"),
    ],
)
def test_a_graph_that_cannot_be_compared_is_named(name: str, sizes: str, words: str) -> None:
    report = diff(f"{GRAPH}:{name}", f"{GRAPH}:{name}", sizes)
    assert report.status == UNKNOWN
    assert words in report.unknown


def test_a_graph_of_16_bits_is_the_same_with_other_weights() -> None:
    report = diff(f"{GRAPH}:half", f"{GRAPH}:images", IMAGES, Options(accept=("weights",)))
    assert report.status == SAME, report.lines()
    assert replace(report, accepted=()).status == NOT_THE_SAME
    assert "with the weights of each side, the results differ" in report.notes[0]


def test_a_file_that_is_no_graph_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a file that exists"):
        diff(f"onnx:{tmp_path / 'missing.onnx'}", f"{GRAPH}:images", IMAGES)
    (tmp_path / "broken.onnx").write_bytes(b"no graph at all")
    with pytest.raises(UserError, match="--args-a"):
        diff(f"onnx:{tmp_path / 'broken.onnx'}", f"{GRAPH}:images", IMAGES, Options(args_a="x=1"))
    report = diff(f"onnx:{tmp_path / 'broken.onnx'}", f"{GRAPH}:images", IMAGES)
    assert report.status == UNKNOWN
    assert "broken.onnx is no graph of ONNX" in report.unknown

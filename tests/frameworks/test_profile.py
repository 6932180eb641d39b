"""Operators of a step: every framework's own profiler, in real runs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.conftest import run_in_framework, small_run

from horizont.config.system import installed_version
from horizont.frameworks.operators import (
    OperatorCall,
    ProfileError,
    check_profile,
    operator_table,
    self_times,
)
from horizont.launchers.execute import RunPaths, execute
from horizont.records.record import Record
from horizont.records.schema import OPERATOR_CLASSES, OTHER_CLASS

SYSTEMS = ("tensorflow/local", "pytorch/local", "mxnet/local", "jax/local")

#: How each framework calls a convolution's forward pass.
CONVOLUTIONS = {
    # The last two by oneDNN, which depends on the processor.
    "tensorflow/local": ("Conv2D", "_FusedConv2D", "_MklNativeConv2D", "_MklNativeFusedConv2D"),
    "pytorch/local": ("aten::mkldnn_convolution",),
    "mxnet/local": ("Convolution",),
    "jax/local": ("conv_general_dilated",),
}


@pytest.fixture(scope="module", params=SYSTEMS)
def profiled(
    request: pytest.FixtureRequest, small_cifar: Path, tmp_path_factory: pytest.TempPathFactory
) -> Record:
    steps = {"warmup": 1, "timed": 3, "instrumented": 0, "profiled": 3}
    run = small_run(request.param, steps=steps)
    if installed_version(run.system.framework) is None:
        pytest.skip(f"{run.system.framework} is not installed")
    place = RunPaths(tmp_path_factory.mktemp("profiles"), small_cifar, {})
    record = execute(run, "profiled", place, lambda done, planned: None)
    assert record.ok, record.result.reason
    return record


def table_of(record: Record) -> pd.DataFrame:
    table = record.operators()
    assert table is not None
    return table.to_pandas()


def trace_of(record: Record) -> list[dict[str, Any]]:
    with gzip.open(record.folder / "traces" / "worker-0.trace.json.gz", "rt") as file:
        return [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]


@pytest.mark.framework
def test_every_operator_has_its_place(profiled: Record) -> None:
    table = table_of(profiled)
    assert set(table["operator_class"]) <= set(OPERATOR_CLASSES)
    sums = table.groupby("operator_class")["self_s"].sum()
    for name in ("convolution", "convolution backward", "pooling", "weight update", "loss"):
        assert sums[name] > 0
    assert sums.get(OTHER_CLASS, 0.0) < 0.05 * sums.sum()
    assert set(table["phase"]) == {"forward", "backward", "update"}


@pytest.mark.framework
def test_convolutions_have_the_shapes_of_their_inputs(profiled: Record) -> None:
    table = table_of(profiled)
    framework = profiled.run.system.framework
    if framework == "mxnet":
        assert set(table["shapes"]) == {""}
        return
    found = table[table["operator"].isin(CONVOLUTIONS[profiled.run.system.name])]
    images = {"tensorflow": "?, 32, 32, 3", "jax": "32, 32, 3"}.get(framework, "3, 32, 32")
    assert any(images in shapes for shapes in found["shapes"])
    assert (found["shapes"] != "").all()
    backward = table[table["operator_class"] == "convolution backward"]
    shapes = backward.loc[backward["shapes"] != "", "shapes"]
    assert shapes.nunique() >= 2, "one for each convolution"


@pytest.mark.framework
def test_calls_are_counted_by_the_step(profiled: Record) -> None:
    table = table_of(profiled)
    names = CONVOLUTIONS[profiled.run.system.name]
    own = table[table["operator"].isin(names) & (table["phase"] == "forward")]
    assert own["calls"].sum() == pytest.approx(2)  # LeNet-5 has two


@pytest.mark.framework
def test_self_times_do_not_exceed_the_time_of_their_threads(profiled: Record) -> None:
    calls = trace_of(profiled)
    threads = len({call["tid"] for call in calls})
    elapsed_us = max(c["ts"] + c["dur"] for c in calls) - min(c["ts"] for c in calls)
    self_us = 3 * table_of(profiled)["self_s"].sum() * 1e6
    assert 0 < self_us <= 1.001 * elapsed_us * threads


@pytest.mark.framework
def test_the_trace_holds_what_the_table_sums_up(profiled: Record) -> None:
    events = trace_of(profiled)
    assert len(events) == pytest.approx(3 * table_of(profiled)["calls"].sum())
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in events)


def test_self_time_leaves_out_what_is_called() -> None:
    # An outer call from 0 to 10, in it one from 1 to 4 with one from 2 to 3, and one from 5 to 6.
    calls = [(0, 1, 4), (0, 0, 10), (0, 5, 6), (0, 2, 3)]
    assert self_times(calls) == [2, 6, 1, 1]
    assert self_times([*calls, (1, 2, 3)]) == [2, 6, 1, 1, 1]  # on another thread


def evaluated(expression: str) -> Any:
    """Evaluate an expression with TensorFlow's profiler, where TensorFlow is installed."""
    if installed_version("tensorflow") is None:
        pytest.skip("tensorflow is not installed")
    program = "import json; from horizont.frameworks.tensorflow import profiler\n"
    printed = run_in_framework("tensorflow", "-c", f"{program}print(json.dumps({expression}))")
    return json.loads(printed.splitlines()[-1])


@pytest.mark.framework
def test_a_dense_layer_merged_with_its_activation_is_no_activation() -> None:
    kinds = {"fc1": "fully connected", "tanh3": "activation", "conv1": "convolution"}
    classes = {
        ("net/tanh3/Tanh", "_MklNativeFusedMatMul"): "fully connected",
        ("net/tanh3/Tanh", "Tanh"): "activation",
        ("net/conv1/MatMul", "_FusedMatMul"): "convolution",
    }
    found = evaluated(f"[profiler.class_of(*each, {kinds}) for each in {list(classes)}]")
    assert found == list(classes.values())


@pytest.mark.framework
def test_statistics_assigned_on_the_way_forward_are_no_update() -> None:
    step = ["Conv2D", "AssignVariableOp", "Relu", "ReluGrad", "Conv2DBackpropFilter"]
    phases = evaluated(f"profiler.phases_in_order({[*step, 'AssignSubVariableOp', 'Mul', *step]})")
    one = ["forward"] * 3 + ["backward"] * 2
    assert phases == [*one, "update", "update", *one]


def operation(phase: str, self_s: float = 1.0, name: str = "mul") -> OperatorCall:
    return OperatorCall(name, "element-wise", phase, 0.0, self_s, self_s)


@pytest.mark.parametrize(
    ("operations", "missing"),
    [
        ([], "no operator"),
        ([operation("forward"), operation("update")], "backward"),
        ([operation("forward"), operation("backward"), operation("update", 0.0)], "update"),
    ],
)
def test_a_profile_without_a_phase_is_an_error(
    operations: list[OperatorCall], missing: str
) -> None:
    with pytest.raises(ProfileError, match=missing):
        check_profile(operations)


def test_rows_are_means_over_the_steps() -> None:
    table = operator_table([operation("forward", 1.0), operation("forward", 3.0)], steps=2)
    assert table.num_rows == 1
    assert table["calls"].to_pylist() == [1.0]
    assert table["self_s"].to_pylist() == [2.0]

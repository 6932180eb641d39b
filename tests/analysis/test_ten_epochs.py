"""Ten epochs of the 2021 study: values by hand, subtraction, extrapolations against whole runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import exp, log, sqrt
from pathlib import Path
from statistics import mean, stdev

import pandas as pd
import pyarrow as pa
import pytest
from claim_maker import make_runs
from test_operators_table import add_profile

from horizont.analysis.operators import WHOLE_STEP, classes_by_workload
from horizont.analysis.ten_epochs import extrapolation_errors, ten_epochs
from horizont.records.files import write_table
from horizont.records.record import Record, read_record
from horizont.reporting.figures.operators import operator_matrix
from horizont.reporting.figures.published import (
    extrapolation_table,
    ten_epochs_figure,
    ten_epochs_table,
)
from horizont.reporting.registry import find_entry

PT, TF, MX = "pytorch/sync/allreduce", "tensorflow/sync/allreduce", "mxnet/sync/parameter_server"
SHORT = {"warmup": 2, "timed": 4, "instrumented": 2}
LONG = {"warmup": 1, "timed": 3959}

#: The published 3,960 steps.
STEPS = 3960

#: Milliseconds of the phases of an instrumented step of 55 ms: 7 ms are outside all of them.
PHASES_MS = {"load": 1, "forward": 10, "backward": 20, "waiting": 2, "communication": 12}
PHASES_MS |= {"update": 3}
LOCAL_MS = {"load": 2, "forward": 9, "backward": 18, "update": 4}


def with_steps(record: Record, timed_ms: float, phases_ms: Mapping[str, float]) -> Record:
    """Write equal timed steps, and equal instrumented steps of 55 ms."""
    steps = record.steps().to_pandas()
    phases = {f"{name}_s": time_ms / 1e3 for name, time_ms in phases_ms.items()}
    steps = steps.assign(waiting_s=float("nan"), communication_s=float("nan"))
    steps = steps.assign(**phases, step_s=timed_ms / 1e3)
    steps.loc[steps["kind"] == "warmup", "step_s"] = 9.0
    steps.loc[steps["kind"] == "instrumented", "step_s"] = 0.055
    table = pa.Table.from_pandas(steps, preserve_index=False)
    write_table(record.folder / "steps.parquet", table)
    return record


def runs(
    folder: Path, system: str, timed_ms: tuple[float, ...], *, long: bool = False
) -> list[Record]:
    is_local = system.endswith("/local")
    settings = {"steps": LONG, "experiment": "epochs"} if long else {"steps": SHORT}
    made = make_runs(
        folder, system, timed_ms, workers=1 if is_local else 3, sampler_hz=0, **settings
    )
    phases_ms = LOCAL_MS if is_local else PHASES_MS
    return [with_steps(*pair, phases_ms) for pair in zip(made, timed_ms, strict=True)]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    folder = tmp_path_factory.mktemp("records")
    return [*runs(folder, PT, (50, 52, 54)), *runs(folder, "pytorch/local", (33, 34, 35))]


def times_of(table: pd.DataFrame, origin: str, system: str = PT) -> pd.Series:
    return table.set_index(["system", "origin"]).loc[(system, origin)]


def test_steps_are_extrapolated_with_the_interval_over_blocks(records: list[Record]) -> None:
    times = times_of(ten_epochs(records), "measured")
    assert times["total_s"] == pytest.approx(0.052 * STEPS)
    logs = [log(timed_ms / 1e3 * STEPS) for timed_ms in (50, 52, 54)]
    half = 4.302653 * stdev(logs) / sqrt(3)  # Student's t, 2 degrees of freedom
    assert times["low_s"] == pytest.approx(exp(mean(logs) - half))
    assert times["high_s"] == pytest.approx(exp(mean(logs) + half))
    parts = {"load": 1, "forward": 10, "backward": 20, "network": 14, "update": 3, "other": 7}
    for part, time_ms in parts.items():
        assert times[f"{part}_s"] == pytest.approx(time_ms * STEPS / 1e3), part
    assert list(times[["blocks", "steps", "workers"]]) == [3, 4, 3]
    assert 2.4 <= times["startup_s"] <= 4.4  # as made


def test_the_network_by_subtraction_is_the_rest_after_one_process(records: list[Record]) -> None:
    times = times_of(ten_epochs(records), "subtraction")
    assert times["total_s"] == pytest.approx(0.052 * STEPS)
    assert times["network_s"] == pytest.approx((0.052 - 0.034) * STEPS)
    assert times["forward_s"] == pytest.approx(0.009 * STEPS)
    assert times["other_s"] == pytest.approx((0.055 - 0.033) * STEPS)


def test_published_systems_have_rows_without_records(records: list[Record]) -> None:
    table = ten_epochs(records)
    assert times_of(table, "published", MX)["total_s"] == 197.29
    assert list(table.loc[table["system"] == PT, "origin"]) == [
        "published", "measured", "subtraction",
    ]  # fmt: skip
    assert list(table.loc[table["system"] == TF, "origin"]) == ["published"]
    assert "pytorch/local" not in set(table["system"])


def test_other_setups_are_not_compared(tmp_path: Path) -> None:
    other_batch = make_runs(tmp_path, PT, (9.0,), batch=10, steps=SHORT, sampler_hz=0)
    assert ten_epochs(other_batch).empty
    assert not find_entry("ten_epochs").needs(other_batch)
    assert not find_entry("extrapolation").needs(other_batch)


def test_table_and_figure_show_seconds(records: list[Record]) -> None:
    table = ten_epochs_table(records)
    (row,) = (row for row, name in table.groups.items() if name.startswith("PyTorch"))
    published, measured, subtracted = (table.cells.iloc[row + n] for n in range(3))
    assert published["total"] == "110.9"
    assert measured["total"] == subtracted["total"] == "205.9"
    assert measured["95% interval"] == "187.1 to 226.5"
    assert measured["network"] == "55.4"
    assert measured["update, other"] == "39.6"
    assert measured["from steps"] == "3 × 4"
    assert subtracted["network"] == "71.3"
    output = ten_epochs_figure(records)
    assert "3,960 steps of 42 images" in output.caption
    assert "here: 205.9 s" in output.svg()
    assert "here: not measured" in output.svg()
    assert output.caption.endswith("timed steps, with its 95% interval over 3 blocks.")


def test_without_instrumented_steps_no_section_promises_phases(
    records: list[Record], tmp_path: Path
) -> None:
    only_timed = runs(tmp_path, PT, (50,), long=True)
    for name in ("phases", "phase_table", "instrumentation_overhead"):
        assert find_entry(name).needs(records)
        assert not find_entry(name).needs(only_timed)
    for name in ("distribution_cost", "ten-epochs-{workload}"):
        assert "no instrumented steps" not in find_entry(name).text_on(records)
        assert "no instrumented steps" in find_entry(name).text_on(only_timed)
    caption = ten_epochs_figure(only_timed).caption
    assert caption.endswith("The diamond and the label are the mean of the timed steps.")


def test_an_extrapolation_is_compared_with_ten_epochs_that_were_run(
    records: list[Record], tmp_path: Path
) -> None:
    assert not find_entry("extrapolation").needs(records)
    both = [*records, *runs(tmp_path, PT, (50,), long=True)]
    assert find_entry("extrapolation").needs(both)
    (errors,) = extrapolation_errors(both).to_dict("records")
    assert errors["system"] == PT
    assert errors["measured_s"] == pytest.approx(0.050 * 3959)  # without the first step
    assert errors["extrapolated_s"] == pytest.approx(0.052 * 3959)
    assert errors["error"] == pytest.approx(0.04)
    assert errors["own_error"] == pytest.approx(0.0)  # all of its steps are equal
    assert (errors["experiment"], errors["blocks"], errors["steps"]) == ("distributed", 3, 4)
    (cells,) = extrapolation_table(both).cells.to_dict("records")
    assert (cells["measured, s"], cells["error"]) == ("198.0", "+4.0%")
    assert cells["error, own steps"] == "+0.0%"


def test_first_steps_that_are_faster_are_seen(tmp_path: Path) -> None:
    (long,) = runs(tmp_path, PT, (50,), long=True)
    steps = long.steps().to_pandas()
    first = (steps["kind"] == "timed") & (steps["step"] <= 4)  # after one of warm-up
    steps.loc[first, "step_s"] = 0.040
    write_table(long.folder / "steps.parquet", pa.Table.from_pandas(steps, preserve_index=False))
    (errors,) = extrapolation_errors([*runs(tmp_path, PT, (50,)), long]).to_dict("records")
    assert errors["own_error"] == pytest.approx(0.040 / 0.050 - 1, abs=1e-3)


def test_another_machine_is_no_evidence_for_an_extrapolation(
    records: list[Record], tmp_path: Path
) -> None:
    long = runs(tmp_path, PT, (50,), long=True)
    file = long[0].folder / "environment.json"
    environment = json.loads(file.read_text())
    environment.setdefault("provenance", {})["machine"] = "another"
    file.write_text(json.dumps(environment))
    assert extrapolation_errors([*records, read_record(long[0].folder)]).empty


def test_other_hosts_are_no_evidence_for_an_extrapolation(
    records: list[Record], tmp_path: Path
) -> None:
    settings = {"experiment": "epochs", "steps": LONG, "sampler_hz": 0}
    long = make_runs(tmp_path, PT, (9.0,), workers=2, **settings)
    assert extrapolation_errors([*records, *long]).empty


def test_classes_are_related_to_the_fastest_framework(tmp_path: Path) -> None:
    records = []
    for framework, factor in (("tensorflow", 1.0), ("pytorch", 0.5)):
        system = f"{framework}/local"
        for workload in ("lenet5-cifar10", "resnet18-cifar10"):
            made = make_runs(tmp_path, system, (9.0,), workers=1, workload=workload, sampler_hz=0)
            missing = "assign" if framework == "pytorch" else ""
            add_profile(made[0], factor, missing)
            records += made
    table = classes_by_workload(records)
    ratios = table.set_index(["workload", "operator_class", "framework"])["ratio"]
    for workload in ("lenet5-cifar10", "resnet18-cifar10"):
        assert ratios[workload, "convolution", "tensorflow"] == pytest.approx(2.0)
        assert ratios[workload, "convolution", "pytorch"] == 1.0
        assert pd.isna(ratios[workload, "weight update", "tensorflow"])  # no other has it
        assert ratios[workload, WHOLE_STEP, "tensorflow"] == pytest.approx(1.0)
    output = operator_matrix(records)
    first, second = output.figure.axes
    assert "only" in [text.get_text() for text in first.texts]
    assert second.get_title(loc="left") == "ResNet-18\non CIFAR-10"

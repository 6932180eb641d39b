"""Throughput, speed-up and training time over the number of workers; crossovers."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from record_maker import ENVIRONMENT
from tests.conftest import small_run

from horizont.analysis import scaling
from horizont.records.files import write_table
from horizont.records.record import RecordWriter, read_record
from horizont.records.results import RunResult
from horizont.reporting.figures.scaling import training_time_figure
from horizont.reporting.registry import find_entry

PT, MX = "pytorch/async/parameter_server", "mxnet/async/parameter_server"


def scaled(
    tmp_path, steps_per_s, *, local_batch=None, system=PT, servers=1, workload="lenet5-cifar10"
):
    """Write records with given steps per second, by number of workers and block."""
    records = []
    for workers, by_block in steps_per_s.items():
        for block, rate in enumerate(by_block):
            batch = local_batch * workers if local_batch else 48
            topology = {
                "launcher": "emulated",
                "workers": workers,
                "servers": workers if servers == "each" else servers,
                "cpus_per_host": 0.5,
            }
            run = small_run(system, topology=topology, global_batch=batch)
            run = run.model_copy(update={"block": block, "workload_name": workload})
            writer = RecordWriter(tmp_path, f"{run.system.slug}-{workers}-{block}-{batch}")
            environment = {**ENVIRONMENT, "cpu": {**ENVIRONMENT["cpu"], "affinity": [0, 1]}}
            environment["capabilities"] = ["shared_clock"]
            writer.start(run, environment)
            steps = pd.DataFrame({"step": np.arange(10), "kind": "timed", "loss": 1.0})
            steps = steps.assign(start_s=np.arange(10) / rate, step_s=1 / rate)
            steps = pd.concat([steps.assign(worker=n) for n in range(workers)])
            steps = steps.assign(examples=run.local_batch)
            table = pa.Table.from_pandas(steps, preserve_index=False)
            write_table(writer.folder / "steps.parquet", table)
            records.append(read_record(writer.finish(RunResult(status="ok"))))
    return records


def test_weak_scaling_has_a_constant_local_batch(tmp_path):
    records = scaled(tmp_path, {1: [10, 20], 2: [8, 16], 8: [2, 4]}, local_batch=12)
    table = scaling.scaling(records).set_index("workers")
    assert not scaling.is_strong_scaling([record.run for record in records])
    assert table["batch"].tolist() == [12, 12, 12]
    # Paired by block: in each, two workers are 1.6 times as fast as one.
    assert table["speedup"].tolist() == pytest.approx([1.0, 1.6, 1.6])
    assert table["efficiency"].tolist() == pytest.approx([1.0, 0.8, 0.2])
    # Geometric means over the blocks: of 10 and 20, and of 16 and 32.
    assert table["batches_per_s"].tolist() == pytest.approx([200**0.5, 512**0.5, 512**0.5])
    assert table["oversubscribed"].tolist() == [False, False, True]


def test_a_point_with_a_failed_run_uses_the_others(tmp_path):
    first, *others = scaled(tmp_path, {1: [10, 20]}, local_batch=12)
    failed = dataclasses.replace(first, result=RunResult(status="failed", reason="why"))
    (row,) = scaling.scaling([failed, *others]).to_dict("records")
    assert (row["ok"], row["planned"], row["reason"]) == (1, 2, "why")
    assert row["batches_per_s"] == pytest.approx(20)


def test_strong_scaling_has_a_constant_global_batch(tmp_path):
    records = scaled(tmp_path, {1: [10], 2: [15], 4: [20]})
    table = scaling.scaling(records)
    assert scaling.is_strong_scaling([record.run for record in records])
    assert table["batch"].tolist() == [48, 48, 48]
    assert table["speedup"].tolist() == pytest.approx([1.0, 1.5, 2.0])


def test_a_server_per_worker_is_one_curve(tmp_path):
    records = scaled(tmp_path, {1: [10], 2: [8], 4: [5]}, local_batch=12, servers="each")
    table = scaling.scaling(records)
    assert table["servers"].tolist() == [1, 2, 4]
    assert table["speedup"].tolist() == pytest.approx([1.0, 1.6, 2.0])
    more = scaled(tmp_path / "1", {4: [6]}, local_batch=12)
    assert sorted(scaling.scaling([*records, *more])["layout"]) == [1, 1, 2, 4]


def test_intervals_have_95_percent(tmp_path):
    (row,) = scaling.scaling(scaled(tmp_path, {1: [10, 40]}, local_batch=12)).to_dict("records")
    # Student's t of two logarithms, ln 2 from their mean: 12.706 = t(0.975, 1).
    half = 12.7062 * math.log(2)
    assert row["batches_per_s"] == pytest.approx(20)
    assert math.log(row["high"] / 20) == pytest.approx(half, rel=1e-4)
    assert math.log(20 / row["low"]) == pytest.approx(half, rel=1e-4)


def test_the_faster_system_changes_between_measured_numbers_of_workers(tmp_path):
    ours = scaled(tmp_path, {1: [8], 4: [8], 16: [2]}, local_batch=12)
    theirs = scaled(tmp_path, {1: [2], 4: [4], 16: [4]}, local_batch=12, system=MX)
    # Ratios of 4, 2 and 1/2: in logarithms half way from 4 to 16 workers.
    (row,) = scaling.crossovers([*ours, *theirs]).to_dict("records")
    assert (row["batch"], row["system"], row["other_system"]) == (12, PT, MX)
    assert row["crossover"] == pytest.approx(8)
    assert math.isnan(row["crossover_low"])  # a single run
    assert scaling.crossovers(ours).empty
    assert scaling.crossovers([*ours[:2], *theirs[:2]]).empty
    assert not find_entry("crossovers").needs(ours)


@pytest.mark.parametrize("order", [1, -1])
def test_the_limits_of_a_crossover_are_where_its_interval_crosses(tmp_path, order):
    spread = math.exp(0.1)
    fast, slow = [8 * spread, 8 / spread], [0.25 * spread, 0.25 / spread]
    first = scaled(tmp_path, {1: fast, 16: slow}, local_batch=12)
    second = scaled(tmp_path, {1: [1, 1], 16: [1, 1]}, local_batch=12, system=MX)
    (row,) = scaling.crossovers([*first, *second][::order]).to_dict("records")
    # Log ratios from 3 ln 2 to -2 ln 2 over log2 = 0 to 4, each +- 12.706 * 0.1.
    half = 1.27062 / math.log(2)
    assert (row["system"], row["other_system"]) == (PT, MX)
    for limit, shift in (("crossover", 0), ("crossover_low", -half), ("crossover_high", half)):
        assert math.log2(row[limit]) == pytest.approx(0.8 * (3 + shift), rel=1e-4)


def test_training_times_are_those_of_the_published_steps(tmp_path):
    fashion = {"workload": "lenet-fashion-mnist"}
    records = scaled(tmp_path, {1: [10], 2: [4]}, local_batch=512, **fashion)
    records += scaled(tmp_path, {1: [50]}, local_batch=128, **fashion)
    table = scaling.published_training_times(records)
    assert table["local_batch"].tolist() == [128, 512, 512]
    # Every worker makes 3,750 steps of 128 or 938 of 512 examples.
    assert table["training_s"].tolist() == pytest.approx([3750 / 50, 938 / 10, 938 / 4])
    output = training_time_figure(records)
    assert [axes.get_title(loc="left") for axes in output.figure.axes] == [
        "one worker",
        "batch per worker: 512",
    ]
    assert "938 steps of 512 examples" in output.caption
    needs = find_entry("training_time").needs
    assert needs(records)
    assert not needs(scaled(tmp_path / "1", {1: [10], 2: [4]}, local_batch=7, **fashion))

"""Tables from synthetic records: the numbers are right and every planned run is listed."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from record_maker import make_records

from horizont.analysis import learning, resources, runs, steps, throughput
from horizont.analysis.steps import examples_per_second, phase_breakdown
from horizont.config.system import GradientExchange
from horizont.records.record import read_record

pytestmark = pytest.mark.filterwarnings("error")

FAILED = "mxnet/async/parameter_server"
SKIPPED = "tensorflow/async/parameter_server"


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return make_records(tmp_path_factory.mktemp("store"), failed=(FAILED,), skipped=(SKIPPED,))


def timed(start_s, step_s, worker=0, examples=10):
    return {
        "kind": "timed",
        "worker": worker,
        "start_s": start_s,
        "step_s": step_s,
        "examples": examples,
    }


def test_every_planned_run_is_a_row_with_its_reason(records):
    table = runs.run_table(records, {"mxnet": "verified"})
    assert len(table) == 15
    assert set(table.loc[table["system"] == FAILED, "status"]) == {"failed"}
    assert table.loc[table["system"] == FAILED, "reason"].str.contains("address already").all()
    assert set(table.loc[table["system"] == SKIPPED, "status"]) == {"skipped"}
    assert set(table.loc[table["system"] == FAILED, "comparable"]) == {"verified"}
    others = table.loc[table["system"] != FAILED]
    assert (
        others.loc[~others["system"].str.startswith("mxnet"), "comparable"]
        .str.startswith("not comparable: ")
        .all()
    )


@pytest.mark.parametrize(
    "setting", [{"record_updates": "order"}, {"gradient_exchange": GradientExchange(local_steps=4)}]
)
def test_a_run_with_different_work_is_not_comparable(records, setting):
    other = replace(records[0], run=records[0].run.model_copy(update=setting))
    (status,) = runs.run_table([other], "verified")["comparable"]
    assert status.startswith("not comparable: ")


def test_a_variant_needs_a_certificate_of_its_own(tmp_path):
    systems = ["mxnet/local", "mxnet/local+dynamic_alloc"]
    records = make_records(tmp_path, "local", blocks=1, systems=systems)
    table = runs.run_table(records, {"mxnet": "verified"}).set_index("system")["comparable"]
    assert table["mxnet/local"] == "verified"
    assert table["mxnet/local+dynamic_alloc"].startswith("not comparable")
    assert runs.systems_of(records) == systems


def metrics_table(records):
    return (
        pd.DataFrame.from_dict(throughput.metrics(records), "index")
        .rename_axis("system")
        .reset_index()
    )


@pytest.mark.parametrize(
    "table_of",
    [throughput.throughput_by_system, steps.instrumentation_overhead, metrics_table],
)
def test_systems_without_a_successful_run_are_listed(records, table_of):
    table = table_of(records)
    assert len(table) == 5
    assert {FAILED, SKIPPED} <= set(table["system"])


def test_throughput_of_one_worker_is_examples_over_time():
    steps = pd.DataFrame([timed(1.0, 0.5), timed(1.5, 0.5), timed(2.5, 0.5)])
    assert examples_per_second(steps) == pytest.approx(30 / 2.0)


def test_throughput_is_measured_over_the_common_window():
    # Worker 1 starts a second later; its two steps and the matching half of worker 0 count.
    steps = pd.DataFrame(
        [timed(t, 0.5) for t in (0.0, 0.5, 1.0, 1.5)]
        + [timed(t, 0.5, worker=1) for t in (1.0, 1.5, 2.0)]
    )
    assert examples_per_second(steps) == pytest.approx(40 / 1.0)


def test_a_cut_step_counts_with_its_fraction():
    steps = pd.DataFrame([timed(0.0, 1.0), timed(0.75, 1.0, worker=1)])
    assert examples_per_second(steps) == pytest.approx((2.5 + 2.5) / 0.25)


def test_throughput_without_a_common_window_is_unknown():
    steps = pd.DataFrame([timed(0.0, 1.0), timed(5.0, 1.0, worker=1)])
    assert np.isnan(examples_per_second(steps))


def test_phases_add_up_to_the_step_and_unmeasured_is_not_zero():
    row = {"kind": "instrumented", "step_s": 1.0, "load_s": 0.1, "forward_s": 0.3}
    phases = phase_breakdown(pd.DataFrame([{**row, "backward_s": np.nan}])).iloc[0]
    assert phases["other"] == pytest.approx(0.6)
    assert np.isnan(phases["backward"])
    assert np.isnan(phases["communication"])


def test_mean_phases_add_up_to_the_instrumented_step(records):
    table = steps.phases(records)
    times = steps.instrumentation_overhead(records).set_index("system")
    for system, rows in table.groupby("system"):
        if system in (FAILED, SKIPPED):
            assert rows["mean_s"].isna().all()
        else:
            assert rows["mean_s"].sum() == pytest.approx(
                times.loc[system, "instrumented_s"], rel=0.05
            )
            assert rows["fraction"].sum() == pytest.approx(1.0)


def test_the_instrumentation_overhead_is_measured(records):
    # Instrumented steps of the synthetic records are 6 % slower.
    ratio = (
        steps.instrumentation_overhead(records).set_index("system").loc["pytorch/sync/allreduce"]
    )
    assert 1.03 < ratio["ratio"] < 1.09
    assert ratio["ratio_low"] <= ratio["ratio"] <= ratio["ratio_high"]


def test_startup_phases_are_in_chronological_order(records):
    table = runs.startup_times(records)
    phases = table.loc[table["system"] == "pytorch/sync/allreduce", "phase"]
    assert list(phases) == ["interpreter", "framework", "data", "network", "first_step"]


def test_resources_share_one_time_axis(records):
    record = next(record for record in records if record.run.system.name.startswith("mxnet/sync"))
    table, segments = resources.run_resource_series(record), resources.segments(record)
    assert set(table["quantity"]) == set(resources.RESOURCES)
    assert {"worker-0", "worker-1", "server-0"} <= set(table["name"])
    assert list(segments["kind"]) == ["start-up", "warmup", "timed", "instrumented"]
    assert segments["start_s"].iloc[1] == 0.0
    cpu = table[(table["quantity"] == "cpu") & (table["name"] == "worker-0")]
    assert cpu["value"].between(50, 130).all()


def test_the_total_is_the_sum_of_the_processes(records):
    record = next(record for record in records if record.run.system.name.startswith("mxnet/sync"))
    table = resources.run_resource_series(record)
    for quantity in ("cpu", "memory", "processes"):
        wide = table[table["quantity"] == quantity].pivot(
            index="time_s", columns="name", values="value"
        )
        assert wide[resources.TOTAL].to_numpy() == pytest.approx(
            wide.drop(columns=resources.TOTAL).sum(axis=1).to_numpy()
        )


def test_the_evaluation_is_a_segment_after_the_last_step(records, tmp_path):
    record = next(record for record in records if record.ok)
    folder = shutil.copytree(record.folder, tmp_path / "record")
    spec = json.loads((folder / "spec.json").read_text()) | {"evaluation": {"examples": 10}}
    (folder / "spec.json").write_text(json.dumps(spec))
    end_s = resources.segments(record)["end_s"].max()
    closed = {"event": "closed", "time_s": 1000.0 + end_s + 2.5, "process": "worker-0"}
    (folder / "events.jsonl").write_text(json.dumps(closed) + "\n")
    last = resources.segments(read_record(folder)).iloc[-1]
    assert last["kind"] == "evaluation"
    assert (last["start_s"], last["end_s"]) == pytest.approx((end_s, end_s + 2.5))


def test_losses_are_means_over_workers(records):
    table = learning.losses(records)
    run = table[(table["system"] == "pytorch/sync/allreduce") & (table["block"] == 0)]
    assert len(run) == 130
    assert run["examples"].iloc[-1] == 130 * 84
    assert learning.smoothed(table)["smoothed_loss"].std() < table["loss"].std()


def test_metrics_are_builtin_values_and_restore_the_tables(records):
    metrics = throughput.metrics(records, "verified")
    assert metrics[FAILED]["examples_per_s"] is None
    assert metrics[FAILED]["reason"].startswith("failed: ")
    assert metrics[FAILED]["comparable"] == throughput.NO_SUCCESS
    phases, times = throughput.from_metrics(dict(sorted(metrics.items())))
    assert list(times["system"]) == runs.systems_of(records)
    timed_s = times.set_index("system").loc["pytorch/sync/allreduce", "timed_s"]
    assert timed_s == pytest.approx(
        steps.instrumentation_overhead(records).iloc[2]["timed_s"], rel=1e-4
    )
    assert phases["mean_s"].notna().any()


def test_one_block_and_no_successful_run(tmp_path):
    single = make_records(tmp_path / "one", "local", blocks=1)
    assert throughput.throughput_by_system(single)["low"].isna().all()
    failed = make_records(
        tmp_path / "none",
        "local",
        blocks=1,
        failed=("tensorflow/local", "pytorch/local", "mxnet/local"),
    )
    assert len(throughput.metrics(failed)) == 3
    assert learning.losses(failed).empty
    assert runs.startup_times(failed).empty


def test_a_counter_that_decreases_is_no_traffic(records):
    record = next(record for record in records if record.ok)
    samples = record.samples().to_pandas()
    host = samples["scope"] == "host"
    late = samples["time_s"] > samples["time_s"].median()
    samples.loc[host & late, ["sent_bytes", "received_bytes"]] -= 1e9
    series = resources.resource_series(samples, float(samples["time_s"].min()), ())
    network = series[series["quantity"] == "network"]["value"]
    assert len(network) > 10
    assert network.min() >= 0

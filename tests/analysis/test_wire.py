"""Traffic in theory and from counters, cost of distribution, time to loss."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from record_maker import ENVIRONMENT, make_records
from tests.conftest import small_run

from horizont.analysis import communication, learning
from horizont.analysis.communication import interpolate_counter, steps_in_window
from horizont.records.files import write_table
from horizont.records.record import RecordWriter, read_record
from horizont.records.results import RunResult
from horizont.reporting.registry import find_entry

SIZE = 1000  # parameters; 4000 bytes


def run_on(system, **topology):
    values = {"launcher": "emulated", "workers": 3, "servers": 1, **topology}
    if "parameter_server" not in system:
        values["servers"] = 0
    batch = 12 * values["workers"]
    return small_run(system, topology=values, global_batch=batch)


def volumes(run, steps=None):
    found = communication.theoretical_traffic(run, SIZE, steps or [1.0] * run.topology.workers)
    return {host: (v.sent_bytes, v.received_bytes) for host, v in found.items()}


def test_a_ring_loads_all_links_equally():
    run = run_on("pytorch/sync/allreduce")
    assert volumes(run) == {f"host-{n}": pytest.approx((16000 / 3, 16000 / 3)) for n in range(3)}


def test_traffic_within_a_host_is_not_counted():
    # Four workers assigned to two hosts in turn: every edge of the ring crosses.
    run = run_on("pytorch/sync/allreduce", workers=4, hosts=2)
    assert volumes(run) == dict.fromkeys(("host-0", "host-1"), (2 * 6000.0, 2 * 6000.0))
    one_host = run_on("pytorch/sync/allreduce", workers=2, hosts=1)
    assert volumes(one_host) == {"host-0": (0.0, 0.0)}


def test_a_server_exchanges_with_the_workers_of_other_hosts():
    colocated = run_on("mxnet/sync/parameter_server")
    assert [volumes(colocated)[f"host-{n}"][0] for n in range(3)] == [8000.0, 4000.0, 4000.0]
    dedicated = run_on("mxnet/sync/parameter_server", placement="dedicated")
    assert [volumes(dedicated)[f"host-{n}"][0] for n in range(4)] == [
        4000.0,
        4000.0,
        4000.0,
        12000.0,
    ]


def test_asynchronous_workers_count_with_their_own_steps():
    dedicated = run_on("pytorch/async/parameter_server", placement="dedicated")
    found = volumes(dedicated, [1.0, 2.0, 0.5])
    assert [found[f"host-{n}"][0] for n in range(4)] == [4000.0, 8000.0, 2000.0, 14000.0]


def test_the_split_over_several_servers_is_unknown():
    run = run_on("mxnet/sync/parameter_server", servers=2, placement="dedicated")
    found = volumes(run)
    assert found["host-0"] == (4000.0, 4000.0)
    assert math.isnan(found["host-3"][0])


def test_equal_slices_split_the_traffic_to_the_servers():
    dedicated = volumes(run_on("pytorch/sync/parameter_server", servers=2, placement="dedicated"))
    assert [dedicated[f"host-{n}"][0] for n in range(5)] == [4000.0] * 3 + [6000.0] * 2
    # A host with a server exchanges half with the other server, and half with each other worker.
    colocated = volumes(run_on("pytorch/sync/parameter_server", servers=2))
    assert [colocated[f"host-{n}"][0] for n in range(3)] == [6000.0, 6000.0, 4000.0]


def test_compression_and_local_steps_reduce_traffic():
    run = run_on("pytorch/sync/allreduce")
    compressed = run.model_copy(
        update={
            "gradient_exchange": run.gradient_exchange.model_copy(update={"compression": "float16"})
        }
    )
    local_steps = run.model_copy(
        update={"gradient_exchange": run.gradient_exchange.model_copy(update={"local_steps": 4})}
    )
    full = volumes(run)["host-0"][0]
    assert volumes(compressed)["host-0"][0] == pytest.approx(full / 2)
    assert volumes(local_steps)["host-0"][0] == pytest.approx(full / 4)


def test_the_busiest_direction_sets_the_wire_time():
    ring = run_on("pytorch/sync/allreduce", link={"rate_mbit": 1})
    assert communication.wire_time(ring, SIZE) == pytest.approx(16000 / 3 * 8 / 1e6)
    slow_uplink = run_on("mxnet/sync/parameter_server", link={"rate_mbit": 100, "uplink_mbit": 1})
    assert communication.wire_time(slow_uplink, SIZE) == pytest.approx(8000 * 8 / 1e6)
    assert communication.wire_time(run_on("pytorch/sync/allreduce"), SIZE) == 0.0


def test_counters_are_interpolated():
    samples = pd.DataFrame({"time_s": [2.0, 0.0, 1.0], "sent_bytes": [300, 0, 100]})
    assert interpolate_counter(samples, "sent_bytes", 0.5, 1.5) == pytest.approx(150.0)
    assert math.isnan(interpolate_counter(samples.head(1), "sent_bytes", 0, 1))
    assert math.isnan(interpolate_counter(samples, "sent_bytes", 0.5, 2.5))
    assert math.isnan(interpolate_counter(samples, "sent_bytes", -0.5, 1.5))


def test_cut_steps_count_with_their_fraction():
    steps = pd.DataFrame(
        {
            "worker": [0, 0, 1],
            "kind": "timed",
            "start_s": [0.0, 1.0, 0.5],
            "step_s": [1.0, 1.0, 2.0],
        }
    )
    assert steps_in_window(steps, 0.5, 1.5) == [1.0, 0.5]


@pytest.fixture
def wired(tmp_path):
    """Write a record of three hosts that each send 5500 bytes per step of a tenth of a second."""
    return wired_record(tmp_path, "pytorch/sync/allreduce")


def wired_record(folder, system, busy_workers=3):
    run = run_on(system, link={"rate_mbit": 1})
    writer = RecordWriter(folder, "wired")
    writer.start(run, {**ENVIRONMENT, "capabilities": ["byte_counters"]})
    starts = np.arange(20) * 0.1
    steps = pd.DataFrame({"step": np.arange(20), "start_s": starts, "kind": "timed"})
    steps = pd.concat([steps.assign(worker=worker) for worker in range(busy_workers)])
    steps = steps.assign(step_s=0.1, examples=12, communication_s=0.05, waiting_s=0.01, loss=1.0)
    write_table(writer.folder / "steps.parquet", pa.Table.from_pandas(steps, preserve_index=False))
    times = np.arange(-1, 4, 0.25)
    sent = (np.clip(times, 0, 2) * 55000).astype(int)
    samples = pd.concat(
        pd.DataFrame({"time_s": times, "host": host, "scope": "interface", "name": name}).assign(
            sent_bytes=sent, received_bytes=sent, pid=None
        )
        for host in ("host-0", "host-1", "host-2", "localhost")
        for name in ("eth0", "lo")
    )
    write_table(
        writer.folder / "samples.parquet", pa.Table.from_pandas(samples, preserve_index=False)
    )
    return read_record(writer.finish(RunResult(status="ok", parameters=SIZE)))


def test_measured_bytes_are_compared_with_theory(wired):
    table = communication.traffic([wired])
    assert list(table["host"]) == ["host-0", "host-1", "host-2"]
    assert table["sent_bytes"].tolist() == pytest.approx([5500.0] * 3)
    assert table["sent_ratio"].tolist() == pytest.approx([5500 / (16000 / 3)] * 3)


def test_without_a_common_window_no_bytes_are_counted(tmp_path):
    record = wired_record(tmp_path, "tensorflow/async/parameter_server", busy_workers=2)
    assert communication.traffic([record]).empty
    (row,) = communication.link_utilisation([record]).to_dict("records")
    assert math.isnan(row["busiest_ratio"])


def test_the_step_is_compared_with_the_wire_time(wired):
    (row,) = communication.link_utilisation([wired]).to_dict("records")
    assert row["wire_s"] == pytest.approx(16000 / 3 * 8e-6)
    assert row["step_ratio"] == pytest.approx(0.1 / (16000 / 3 * 8e-6))
    assert row["busiest_ratio"] == pytest.approx(5500 / (16000 / 3))


def test_runs_without_byte_counters_have_no_traffic(tmp_path):
    assert communication.traffic(make_records(tmp_path, blocks=1)).empty


def test_the_cost_of_distribution_is_measured_and_subtracted(tmp_path):
    records = make_records(tmp_path / "d", "distributed", blocks=2)
    local = make_records(tmp_path / "l", "local", blocks=2)
    table = communication.distribution_cost([*records, *local]).set_index("system")
    row = table.loc["pytorch/sync/allreduce"]
    assert row["subtraction_estimate_s"] == pytest.approx(row["timed_s"] - row["single_process_s"])
    assert row["measured_s"] == pytest.approx(row["communication_s"] + row["waiting_s"])
    assert math.isnan(communication.distribution_cost(records)["single_process_s"].iloc[0])


def paused(record, pause_s):
    """Shift the timed steps of a record."""
    path = record.folder / "steps.parquet"
    steps = record.steps().to_pandas()
    steps.loc[steps["kind"] != "warmup", "start_s"] += pause_s
    write_table(path, pa.Table.from_pandas(steps, preserve_index=False))
    return read_record(record.folder)


def test_the_pause_before_the_timed_steps_is_not_training_time(tmp_path):
    (first, *_) = make_records(tmp_path, blocks=1)
    before = learning.losses([first])
    after = learning.losses([paused(first, 5.0)])
    assert after["time_s"].tolist() == pytest.approx(before["time_s"].tolist())


def test_failed_runs_count_as_planned(tmp_path):
    records = make_records(tmp_path, blocks=2)
    records[0] = dataclasses.replace(records[0], result=RunResult(status="failed", reason="why"))
    table = learning.time_to_loss(records).set_index("system")
    row = table.loc[records[0].run.system.name]
    assert (row["reached"], row["planned"]) == (1, 2)


def test_time_to_a_loss_that_all_runs_reached(tmp_path):
    records = make_records(tmp_path, blocks=2)
    table = learning.time_to_loss(records)
    assert (table["reached"] == table["planned"]).all()
    assert (table["time_s"] > 0).all()


def test_a_few_steps_reach_no_loss(tmp_path):
    """Inception ran for three timed steps, and a system was said to learn faster."""
    records = make_records(tmp_path / "short", blocks=2)
    for record in records:
        path = record.folder / "steps.parquet"
        steps = record.steps().to_pandas()
        write_table(path, pa.Table.from_pandas(steps.head(8), preserve_index=False))
    short = [read_record(record.folder) for record in records]
    assert learning.time_to_loss_by_run(short).empty
    assert learning.time_to_loss(short).empty
    has_table = find_entry("time_to_loss").needs
    distributed = make_records(tmp_path / "distributed", "distributed", blocks=1)
    assert has_table(distributed)
    assert not has_table(short)

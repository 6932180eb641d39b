"""CPU over the common window of the timed steps, and peak memory, by process and by host."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.conftest import small_run

from horizont.analysis.resources import TOTAL, WINDOW_TOO_SHORT, resource_totals
from horizont.analysis.steps import common_window
from horizont.launchers.execute import RunPaths, execute
from horizont.records.files import write_table
from horizont.records.record import RecordWriter, read_record
from horizont.records.results import RunResult
from horizont.reporting.figures.resources import resource_table

MIB = 2**20
TOPOLOGY = {"launcher": "emulated", "workers": 2, "servers": 1}


def write_record(store, topology, step_s=0.5, helper=()):
    """Write a run of two workers with a server that is busy before the timed steps only.

    Worker 1 makes its first timed step a second later. Each worker uses half a core.
    """
    writer = RecordWriter(store, "record")
    run = small_run("pytorch/async/parameter_server", topology=topology, global_batch=24)
    capabilities = ["byte_counters"] if topology.get("launcher") == "emulated" else []
    writer.start(run, {"capabilities": capabilities})
    kinds = ["warmup"] + ["timed"] * 8
    steps = [
        {"step": step, "worker": worker, "kind": kind, "examples": 12, "step_s": step_s}
        | {"start_s": 3.0 + worker + step * step_s if step else 0.0}
        for worker in range(2)
        for step, kind in enumerate(kinds)
    ]
    times = np.arange(-1.0, 12.0, 0.25)
    cpu_s = {
        "worker-0": 0.5 * (times + 1),
        "worker-1": 0.5 * (times + 1),
        "server-0": np.minimum(times + 1, 3.0),
    }
    rows = [
        {"time_s": time_s, "scope": "process", "name": name, "pid": 40 + number}
        | {"cpu_s": counter, "rss_bytes": (100 + 10 * number) * MIB}
        for number, (name, counters) in enumerate(cpu_s.items())
        for time_s, counter in zip(times, counters, strict=True)
    ]
    rows += [{"scope": "process", "pid": 99, "rss_bytes": 5 * MIB, **row} for row in helper]
    for name, table in (("steps", steps), ("samples", rows)):
        frame = pd.DataFrame(table).assign(sample=0, host="localhost")
        path = writer.folder / f"{name}.parquet"
        write_table(path, pa.Table.from_pandas(frame, preserve_index=False))
    return read_record(writer.finish(RunResult(status="ok")))


def totals_of(*args, **values):
    return resource_totals(write_record(*args, **values)).set_index("name")


def test_only_the_common_window_counts(tmp_path):
    # From 4.5 s, where the later worker starts, to 7.5 s, where the earlier one ends.
    totals = totals_of(tmp_path, TOPOLOGY)
    assert totals.loc["worker-0", "cpu_mean"] == pytest.approx(50.0)
    assert totals.loc["server-0", "cpu_mean"] == pytest.approx(0.0, abs=1e-9)
    assert totals.loc[TOTAL, "cpu_mean"] == pytest.approx(100.0)
    assert totals["note"].isna().all()


def test_a_host_adds_up_its_processes(tmp_path):
    totals = totals_of(tmp_path, TOPOLOGY)
    assert list(totals.index) == ["server-0", "worker-0", "worker-1", "host-0", "host-1", TOTAL]
    # A colocated server is on the host of the first worker.
    assert totals["host"].dropna().to_dict() == {
        "server-0": "host-0", "worker-0": "host-0", "worker-1": "host-1",
        "host-0": "host-0", "host-1": "host-1",
    }  # fmt: skip
    assert totals.loc["host-0", "cpu_mean"] == pytest.approx(50.0)
    assert totals.loc["host-0", "memory_max"] == pytest.approx(100 + 120)
    assert totals.loc["host-1", "memory_max"] == pytest.approx(110)
    dedicated = totals_of(tmp_path, TOPOLOGY | {"placement": "dedicated"})
    assert dedicated.loc["server-0", "host"] == "host-2"
    assert dedicated.loc["host-2", "memory_max"] == pytest.approx(120)


def test_on_this_machine_there_are_no_rows_of_hosts(tmp_path):
    totals = totals_of(tmp_path, {"workers": 2, "servers": 1})
    assert list(totals.index) == ["server-0", "worker-0", "worker-1", TOTAL]
    assert totals["host"].isna().all()


def test_a_short_window_has_no_cpu_but_memory(tmp_path):
    record = write_record(tmp_path, TOPOLOGY, step_s=0.35)
    begin_s, end_s = common_window(record.steps().to_pandas())
    assert end_s - begin_s < 2
    totals = resource_totals(record).set_index("name")
    assert totals["cpu_mean"].isna().all()
    assert (totals["note"] == WINDOW_TOO_SHORT).all()
    assert totals.loc[TOTAL, "memory_max"] == pytest.approx(330)
    assert (resource_table([record]).cells["note"] == "window too short").all()


def test_a_helper_process_counts_with_its_worker(tmp_path):
    helper = [
        {"name": "worker-1", "time_s": time_s, "cpu_s": 0.2 * (time_s - 5.0)}
        for time_s in (5.5, 6.0, 6.5)
    ]
    totals = totals_of(tmp_path, TOPOLOGY, helper=helper)
    assert totals.loc["worker-1", "cpu_mean"] == pytest.approx(50 + 100 * 0.2 / 3)
    assert totals.loc["worker-1", "memory_max"] == pytest.approx(115)


def test_a_process_sampled_for_a_moment_has_no_cpu(tmp_path):
    helper = [{"name": "scheduler-0", "time_s": time_s, "cpu_s": 0.1} for time_s in (5.0, 6.0)]
    totals = totals_of(tmp_path, TOPOLOGY, helper=helper)
    assert totals.loc[["scheduler-0", "host-0", TOTAL], "cpu_mean"].isna().all()
    assert totals.loc["worker-1", "cpu_mean"] == pytest.approx(50.0)


@pytest.mark.framework("mxnet")
def test_the_cpu_of_a_real_run_agrees_with_its_counters(tmp_path, small_cifar):
    steps = {"warmup": 2, "timed": 1000, "instrumented": 2}
    run = small_run("mxnet/local", steps=steps, sampler_hz=20)
    record = execute(run, "key", RunPaths(tmp_path, small_cifar, {}), lambda done, planned: None)
    assert record.ok, record.result.reason
    begin_s, end_s = common_window(record.steps().to_pandas())
    totals = resource_totals(record).set_index("name")
    assert list(totals.index) == ["worker-0", TOTAL]
    assert totals.loc["worker-0", "memory_max"] > 50
    if end_s - begin_s < 2:
        assert totals.loc["worker-0", "note"] == WINDOW_TOO_SHORT
        return
    samples = record.samples().to_pandas()
    own = samples[(samples["name"] == "worker-0") & samples["time_s"].between(begin_s, end_s)]
    used_s, span_s = np.ptp(own.groupby("time_s")["cpu_s"].sum()), np.ptp(own["time_s"])
    cpu = totals.loc["worker-0", "cpu_mean"]
    assert cpu == pytest.approx(100 * used_s / span_s, rel=0.1)
    assert cpu == totals.loc[TOTAL, "cpu_mean"]

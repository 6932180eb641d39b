"""Quantities that only claims need: rates of links, memory of hosts, pipelines alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from claim_maker import MX, PT, make_runs, only_part, verdict

from horizont.analysis.claims.quantities import measure
from horizont.records.files import write_table
from horizont.records.record import Record

#: Milliseconds of load, forward, backward, waiting, communication, update and other.
LOCAL_MS = (1.0, 3.0, 5.0, 0.0)


def linked(
    store: Path, rates: dict[float | None, float], cpus_per_host: float | None = None
) -> list[Record]:
    """Write runs on links of these rates, whose communication takes so many milliseconds."""
    records = []
    for rate, communication_ms in rates.items():
        topology = {"launcher": "emulated", "link": {"rate_mbit": rate}}
        topology["cpus_per_host"] = cpus_per_host
        phases = (*LOCAL_MS, communication_ms, 0.5, 0.5)
        records += make_runs(store, PT, [phases] * 4, topology=topology)
    return records


@pytest.mark.parametrize(
    ("communication_ms", "threshold", "expected", "half"),
    [
        ({100: 20.0, 400: 5.0}, 100, "reproduced", 200),
        ({100: 20.0, 400: 5.0, None: 0.1}, 1000, "not reproduced", 200),
        ({100: 80.0, 400: 60.0}, 1000, "reproduced", 100_000),  # even without a limit
        ({100: 2.0, 400: 2.0}, 50, "not reproduced", None),
    ],
)
def test_half_rate(
    tmp_path: Path,
    communication_ms: dict[float | None, float],
    threshold: float,
    expected: str,
    half: float | None,
) -> None:
    check = {"kind": "half_rate", "system": PT, "threshold": threshold}
    claim = verdict(check, linked(tmp_path, communication_ms))
    part = only_part(claim)
    assert claim["verdict"] == expected
    if half is not None:
        assert part["value"] == pytest.approx(half, rel=0.2)  # instrumented steps are slower
    assert "% at 100 Mbit/s" in part["conditions"]


def test_the_half_rate_is_that_of_hosts_at_full_speed(tmp_path: Path) -> None:
    check = {"kind": "half_rate", "system": PT, "threshold": 1}
    rates: dict[float | None, float] = {100: 20.0, 400: 5.0}
    whole = only_part(verdict(check, linked(tmp_path / "whole", rates)))
    slow = only_part(verdict(check, linked(tmp_path / "slow", rates, cpus_per_host=0.25)))
    assert slow["value"] == pytest.approx(4 * whole["value"], rel=1e-3)
    assert "rates divided by 0.25" in slow["conditions"]
    assert "divided" not in whole["conditions"]


def test_one_rate_gives_no_half_rate(tmp_path: Path) -> None:
    check = {"kind": "half_rate", "system": PT, "threshold": 100}
    claim = verdict(check, linked(tmp_path, {100: 20.0, None: 1.0}))
    assert claim["verdict"] == "not testable"
    assert "at 1 limited link rate, two are needed" in claim["reason"]


def sample_processes(record: Record, processes: Mapping[str, int]) -> None:
    """Write samples of this machine: MiB of each process, more before the first step."""
    start_s = record.steps().to_pandas()["start_s"].min()
    rows = [
        (start_s + after_s, "localhost", name, used_mib * scale * 2**20)
        for after_s, scale in ((-1.0, 9.0), (0.1, 1.0), (0.2, 2.0))
        for name, used_mib in processes.items()
    ]
    samples = pd.DataFrame(rows, columns=["time_s", "host", "name", "rss_bytes"])
    samples = samples.assign(scope="process", pid=1, cpu_s=0.0)
    table = pa.Table.from_pandas(samples, preserve_index=False)
    write_table(record.folder / "samples.parquet", table)


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        # worker-0 with server-0; server-1 is on a host without workers, or on that of worker-1.
        ({"launcher": "emulated", "placement": "dedicated"}, 8.0),
        ({"launcher": "emulated"}, 26.0),
        ({"launcher": "local"}, 36.0),
    ],
)
def test_the_memory_of_a_worker_host_is_that_of_all_its_processes(
    tmp_path: Path, topology: dict[str, str], expected: float
) -> None:
    values = {"workers": 2, "servers": 2, **topology}
    (record,) = make_runs(tmp_path, "pytorch/sync/parameter_server", (1.0,), topology=values)
    sample_processes(record, {"worker-0": 3, "server-0": 2, "worker-1": 4, "server-1": 9})
    assert measure(record, "host_memory_mib") == expected
    assert measure(record, "memory_mib") == 36.0


def test_the_pipeline_alone(tmp_path: Path) -> None:
    (record,) = make_runs(tmp_path, PT, (1.0,))
    assert pd.isna(measure(record, "pipeline_s"))
    epoch = [0] * 30 + [1] * 30
    batch_s = [0.011] * 30 + [0.001] * 30
    batches = pa.table({"batch": list(range(60)), "epoch": epoch, "batch_s": batch_s})
    write_table(record.folder / "input_batches.parquet", batches)
    assert measure(record, "pipeline_s") == pytest.approx(0.001)
    # 100 batches, of which 30 or 10 are not in the cache.
    expected = (30 * 11 + 70) / (10 * 11 + 90)
    assert measure(record, "whole_set_load_ratio") == pytest.approx(expected)


def test_the_published_network_time_is_what_one_process_does_not_have(tmp_path: Path) -> None:
    local = [
        *make_runs(tmp_path, "pytorch/local", (1.0,) * 3, workers=1),
        *make_runs(tmp_path, "mxnet/local", (1.0,) * 3, workers=1),
    ]
    records = [*make_runs(tmp_path, PT, (3.0,) * 3), *make_runs(tmp_path, MX, (1.5,) * 3)]
    check = {"kind": "ratio", "quantity": "network_difference_s", "over": PT, "under": MX}
    part = only_part(verdict(check, [*local, *records]))
    pt_local, mx_local, pt, mx = (
        measure(runs[0], "step_s") for runs in (local[:3], local[3:], records[:3], records[3:])
    )
    assert part["value"] == pytest.approx((pt - pt_local) / (mx - mx_local), rel=0.1)
    assert len(part["records"]) == 12
    assert verdict(check, records)["verdict"] == "not testable"
    shorter = make_runs(tmp_path, MX, (0.5,) * 3)
    assert verdict(check, [*local, *records[:3], *shorter])["verdict"] == "not testable"


def test_without_instrumented_steps_there_is_no_fraction(tmp_path: Path) -> None:
    (record,) = make_runs(tmp_path, PT, (1.0,))
    steps = record.steps().to_pandas()
    table = pa.Table.from_pandas(steps[steps["kind"] != "instrumented"], preserve_index=False)
    write_table(record.folder / "steps.parquet", table)
    assert pd.isna(measure(record, "network_fraction"))

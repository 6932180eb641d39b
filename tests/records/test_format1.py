"""Records of format 1, written by an earlier version, are read with the names of format 2."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from horizont.analysis.changes import compare_quantities
from horizont.records.format1 import convert_run, convert_table
from horizont.records.record import read_record
from horizont.records.schema import STEP_COLUMNS, STEP_KINDS

FOLDER = Path(__file__).parent / "format1"


def test_a_record_of_format_1_is_read() -> None:
    record = read_record(FOLDER / "input")
    assert record.ok
    assert record.format == 1
    assert record.run.system.name == "pytorch/local"
    assert record.run.steps.timed == 30
    assert record.run.steps.input_batches == 1530
    assert record.run.topology.launcher == "local"
    assert record.run.topology.addresses == ("127.0.0.1",)
    assert record.environment["provenance"]["python"]
    assert record.has("shared_clock")
    assert not record.has("byte_counters")
    assert "input_batches" in record.result.startup_s
    assert record.result.input is not None
    steps = record.steps()
    assert tuple(steps.column_names) == STEP_COLUMNS
    assert set(steps["kind"].to_pylist()) == set(STEP_KINDS) - {"profiled"}
    batches = record.input_batches()
    assert batches is not None
    assert batches.num_rows == 1530


def test_a_fault_report_of_format_1_is_read() -> None:
    record = read_record(FOLDER / "fault")
    assert record.is_final
    fault = record.run.fault
    assert fault is not None
    assert (fault.kind, fault.target, fault.rank, fault.duration_s) == ("restart", "worker", 1, 1.0)
    report = record.fault_report()
    assert report is not None
    assert (report.target, report.end_reason) == ("worker-1", "completed")
    assert [process.outcome for process in report.processes] == ["injected", "completed", "running"]
    assert report.rejoined is not None


def test_records_of_both_formats_can_be_compared() -> None:
    record = read_record(FOLDER / "input")
    changes = compare_quantities([record], [record])
    assert len(changes)
    assert (changes["ratio"] == 1).all()


def test_settings_of_hosts_and_links_are_converted() -> None:
    run = convert_run(
        {
            "experiment": "incidents",
            "system": {"build": "compiled"},
            "topology": {
                "engine": "emulated",
                "machines": 2,
                "host_cpus": 0.5,
                "placement": "apart",
                "sharding": "by_shard",
                "link": {"up_mbit": 10},
            },
            "exchange": {"average_every": 4},
            "evaluate_examples": 100,
        }
    )
    assert run == {
        "experiment": "faults",
        "system": {"variant": "compiled"},
        "topology": {
            "launcher": "emulated",
            "hosts": 2,
            "cpus_per_host": 0.5,
            "placement": "dedicated",
            "sharding": "static_shards",
            "link": {"uplink_mbit": 10},
        },
        "gradient_exchange": {"local_steps": 4},
        "evaluation": {"examples": 100, "every": 0},
    }


def test_operator_classes_are_converted() -> None:
    table = convert_table(
        pa.table({"operator_class": ["word table", "loss"], "self_s": [1.0, 2.0]})
    )
    assert table["operator_class"].to_pylist() == ["embedding", "loss"]

"""A study beside the reference: speeds, verdicts, and what is not comparable."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest
from claim_maker import WORKLOAD, make_runs

from horizont.analysis.reproduction import Results, changed_verdicts, compare_with_reference
from horizont.records.record import Record
from horizont.reporting.reproduction import reproduction_rows, reproduction_summary

PT, MX = "pytorch/sync/allreduce", "mxnet/sync/parameter_server"
VERIFIED = {WORKLOAD: "verified"}
BLOCKS = 6


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """PyTorch needs half the time of MXNet."""
    return _study(tmp_path_factory.mktemp("reference"), 1.0, 2.0)


def _study(folder: Path, pytorch_ms: float, mxnet_ms: float) -> list[Record]:
    times_ms = {PT: pytorch_ms, MX: mxnet_ms}
    return [
        record
        for system, time_ms in times_ms.items()
        for record in make_runs(folder, system, (time_ms,) * BLOCKS)
    ]


def _outcomes(reference: Sequence[Record], own: Sequence[Record]) -> dict[str, str]:
    table = compare_with_reference(reference, own)
    rates = table[table["quantity"] == "examples_per_s"]
    return dict(zip(rates["system"], rates["outcome"], strict=True))


def test_the_reference_is_the_same_as_itself(reference: list[Record]) -> None:
    table = compare_with_reference(reference, reference)
    assert set(table["outcome"]) == {"same"}
    assert set(table["ratio"]) == {1.0}
    assert (table["expected_low"] <= table["expected"]).all()
    assert (table["obtained"] <= table["obtained_high"]).all()
    names = {record.folder.name for record in reference if record.run.system.name == PT}
    rows = table[table["system"] == PT]
    assert set(rows["records"].iloc[0].split(", ")) == names
    results = Results(reference, VERIFIED)
    assert changed_verdicts(results, results).empty


def test_faster_and_slower_systems_are_found(reference: list[Record], tmp_path: Path) -> None:
    own = _study(tmp_path, 4.0, 1.0)
    assert _outcomes(reference, own) == {PT: "slower", MX: "faster"}
    table = compare_with_reference(reference, own).set_index(["system", "quantity"])
    assert table.loc[(PT, "backward_s"), "outcome"] == "slower"
    assert table.loc[(PT, "examples_per_s"), "ratio"] == pytest.approx(0.25, rel=0.1)
    assert _outcomes(reference, own[:1]) == {PT: "other"}  # a single run has no interval
    changes = changed_verdicts(Results(reference, VERIFIED), Results(own, VERIFIED))
    pair = next(row for row in changes.to_dict("records") if PT in row["subject"])
    assert pair["subject"].startswith(f"distributed, {WORKLOAD}, 2 workers: ")
    assert pair["expected"] != pair["obtained"]
    claims = changes[changes["subject"].str.startswith("claim ")]
    assert len(claims)
    assert not set(claims["obtained"]) & {"not testable", "not settled"}


def test_only_equal_settings_are_compared(reference: list[Record], tmp_path: Path) -> None:
    longer = [
        dataclasses.replace(
            record,
            run=record.run.model_copy(
                update={
                    "seed": record.run.seed + 1,
                    "steps": record.run.steps.model_copy(update={"warmup": 99}),
                }
            ),
        )
        for record in reference
    ]
    assert _outcomes(reference, longer) == {PT: "same", MX: "same"}
    assert compare_with_reference(reference, make_runs(tmp_path, PT, (1.0,), batch=8)).empty
    threads = reference[0].run.topology.model_copy(update={"threads": 2})
    other = reference[0].run.model_copy(update={"topology": threads})
    assert compare_with_reference(reference, [dataclasses.replace(reference[0], run=other)]).empty
    assert changed_verdicts(Results(reference, VERIFIED), Results([], VERIFIED)).empty


def test_every_quantity_is_a_row_with_both_intervals(reference: list[Record]) -> None:
    table = compare_with_reference(reference, reference)
    cells = reproduction_rows(table)
    rate = cells[cells["quantity"] == "examples/s"].iloc[0]
    assert rate["work"].endswith("2 x 42; no limit")
    assert rate["expected"] == rate["obtained"]
    assert " to " in rate["expected"]
    assert rate["outcome"] == "same"
    assert reproduction_summary(table).text == f"Of {len(table)} quantities: {len(table)} same."

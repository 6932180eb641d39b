"""The fit of a latency and a bandwidth to the communication of networks of several sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.analysis.record_maker import make_records

from horizont.analysis.network_growth import communication_by_size, communication_fits
from horizont.records.files import write_table
from horizont.records.record import Record
from horizont.reporting.figures.networks import (
    communication_fit_table,
    communication_growth_figure,
)
from horizont.reporting.registry import find_entry

SYSTEM = "pytorch/sync/allreduce"
LATENCY_S, S_PER_MIB = 2e-3, 5e-3


def with_size(record: Record, parameters: int) -> Record:
    """Return a record of a network of that size, whose communication lies on the line."""
    steps = record.steps().to_pandas()
    is_known = steps["communication_s"].notna()
    size_mib = 4 * parameters / 2**20
    steps["waiting_s"] = steps["waiting_s"].where(~is_known, LATENCY_S)
    steps["communication_s"] = steps["communication_s"].where(~is_known, S_PER_MIB * size_mib)
    table = pa.Table.from_pandas(steps, preserve_index=False)
    write_table(record.folder / "steps.parquet", table)
    return replace(record, result=record.result.model_copy(update={"parameters": parameters}))


@pytest.fixture
def records(tmp_path: Path) -> list[Record]:
    """Write records of networks of three sizes, three blocks each."""
    return [
        with_size(record, parameters)
        for parameters in (60_000, 11_000_000, 58_000_000)
        for record in make_records(tmp_path / str(parameters))
        if record.run.system.name == SYSTEM
    ]


def test_a_line_through_all_sizes_is_found(records: list[Record]) -> None:
    (fit,) = communication_fits(records).to_dict("records")
    assert fit["system"] == SYSTEM
    assert fit["latency_s"] == pytest.approx(LATENCY_S, rel=1e-6)
    assert fit["s_per_mib"] == pytest.approx(S_PER_MIB, rel=1e-6)
    assert (fit["blocks"], fit["sizes"]) == (3, 3)
    assert "2 2 to 2 (75%)" in communication_fit_table(records).html()
    assert "weights, MiB" in communication_growth_figure(records).svg()


def test_two_sizes_are_not_enough(records: list[Record]) -> None:
    two = [record for record in records if (record.result.parameters or 0) < 50_000_000]
    assert len(communication_by_size(two)) == 6
    assert communication_fits(two).empty
    assert not find_entry("communication_fits").needs(two)
    assert find_entry("communication_fits").needs(records)

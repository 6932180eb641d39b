"""Operator tables: medians over runs, classes in order, the time outside operators."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from tests.analysis.record_maker import make_records

from horizont.analysis import operators
from horizont.errors import UserError
from horizont.records.files import read_table, write_table
from horizont.records.record import Record
from horizont.reporting.figures.operators import (
    operator_class_table,
    operator_figure,
    slowest_operator_table,
)

ROWS = [
    ("conv", "convolution", "forward", 1.0, 0.004),
    ("conv_back", "convolution backward", "backward", 1.0, 0.005),
    ("assign", "weight update", "update", 2.0, 0.001),
]


def add_profile(record: Record, factor: float = 1.0, missing: str = "") -> None:
    """Write a profile of steps of 20 ms into a record."""
    rows = [
        {
            "operator": name,
            "operator_class": operator_class,
            "shapes": "[[42, 3, 32, 32], [6, 3, 5, 5], [6]]" if name == "conv" else "",
            "phase": phase,
            "calls": calls,
            "self_s": self_s * factor,
        }
        for name, operator_class, phase, calls, self_s in ROWS
        if name != missing
    ]
    write_table(record.folder / "operators.parquet", pa.Table.from_pylist(rows))
    steps = read_table(record.folder / "steps.parquet").to_pandas()
    profiled = steps.head(3).assign(kind="profiled", step_s=0.020)
    table = pa.Table.from_pandas(pd.concat([steps, profiled]), preserve_index=False)
    write_table(record.folder / "steps.parquet", table)


@pytest.fixture
def records(tmp_path: Path) -> list[Record]:
    records = make_records(tmp_path, "local", blocks=3)
    for record in records:
        if record.run.system.framework == "pytorch":
            factor = (1.0, 3.0, 1.5)[record.run.block]
            add_profile(record, factor, missing="assign" if record.run.block == 0 else "")
    return records


def test_times_are_medians_over_runs(records: list[Record]) -> None:
    table = operators.operator_table(records).set_index("operator")
    assert set(table["system"]) == {"pytorch/local"}
    assert table.loc["conv", "self_s"] == pytest.approx(0.006)
    assert table.loc["assign", "self_s"] == pytest.approx(0.0015)  # of 0, 0.003 and 0.0015
    assert list(table.index) == ["conv_back", "conv", "assign"]


def test_classes_and_outside_add_up_to_the_step(records: list[Record]) -> None:
    classes = operators.operator_classes(records)
    assert list(classes["operator_class"]) == [
        "convolution", "convolution backward", "weight update", operators.OUTSIDE_OPERATORS,
    ]  # fmt: skip
    assert classes["self_s"].sum() == pytest.approx(0.020)
    assert classes["fraction"].sum() == pytest.approx(1.0)


def test_the_pages_have_one_column_per_system(records: list[Record]) -> None:
    slowest = slowest_operator_table(records).cells.set_index("operator")
    assert set(slowest.loc[["conv"], "inputs"]) == {"42×3×32×32, 6×3×5×5"}
    assert set(slowest.loc[["assign"], "inputs"]) == {"–"}
    assert "PyTorch" in operator_class_table(records).cells.columns
    assert list(slowest_operator_table(records, 2).cells["operator"]) == ["conv_back", "conv"]
    assert operator_figure(records).name == "operators"


def test_records_without_a_profile_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="profiled"):
        operator_figure(make_records(tmp_path, "local", blocks=1))

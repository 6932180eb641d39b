"""Every table and claim that is computed from records, to compare two sources of the same ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
import pytest

from horizont.analysis import (
    communication,
    faults,
    input,
    learning,
    operators,
    resources,
    runs,
    scaling,
    steps,
    surveys,
    throughput,
    verdicts,
)
from horizont.analysis.changes import compare_machines
from horizont.analysis.claims.judge import claim_verdicts
from horizont.analysis.drilldown import drilldowns
from horizont.records.record import Record

TABLES = (
    runs.run_table,
    runs.startup_times,
    steps.means_by_run,
    steps.phases,
    steps.instrumentation_overhead,
    throughput.throughput_by_run,
    throughput.throughput_by_system,
    learning.losses,
    learning.evaluations,
    learning.final_metrics,
    learning.time_to_loss,
    operators.operator_table,
    operators.operator_classes,
    operators.profiler_overhead,
    operators.phases_from_profile,
    communication.traffic,
    communication.link_utilisation,
    communication.distribution_cost,
    faults.fault_outcomes,
    input.input_pipelines,
    verdicts.pairwise_verdicts,
    verdicts.stability,
    scaling.scaling,
    surveys.run_outcomes,
)

#: Times are whole microseconds in a pack: rates and fractions deviate by that of a step of some
#: milliseconds.
TOLERANCE_S, TOLERANCE_OF_STEP = 1e-6, 1e-3

#: A row of a drill-down is the difference of two sums of phases, each off by half a microsecond.
#: The t interval of two blocks is 6 times as wide as these are apart.
TOLERANCE_OF_DIFFERENCE_S, TOLERANCE_OF_INTERVAL_S = 5e-6, 3e-5

#: Columns of a drill-down that follow from its differences; where that of the whole step is some
#: microseconds, the fractions of it are arbitrary.
FOLLOWING = ["fraction", "is_dominant"]


def assert_equal_quantities(packed: Sequence[Record], original: Sequence[Record]) -> None:
    """Assert that all numbers are equal up to the microsecond, and all texts exactly."""
    expected, seen = dict(_quantities(original)), dict(_quantities(packed))
    assert seen.keys() == expected.keys()
    for name, value in expected.items():
        _assert_close(seen[name], value, name)


def _quantities(records: Sequence[Record]) -> Iterator[tuple[str, Any]]:
    for table in TABLES:
        yield table.__name__, _rows(table(records))
    yield (
        "drilldowns",
        [_rows(each.table().drop(columns=FOLLOWING)) for each in drilldowns(records)],
    )
    workloads = {record.run.workload_name for record in records}
    yield "claims", claim_verdicts(records, dict.fromkeys(workloads, "verified"))
    for record in records:
        yield f"segments of {record.folder.name}", _rows(resources.segments(record))
        yield f"resources of {record.folder.name}", _rows(resources.resource_totals(record))
    yield "machines", _rows(compare_machines(records, records))


def _rows(table: pd.DataFrame) -> list[dict[Any, Any]]:
    return table.to_dict("records")


def _assert_close(seen: Any, expected: Any, where: str) -> None:
    if isinstance(expected, dict):
        assert seen.keys() == expected.keys(), where
        for key, value in expected.items():
            _assert_close(seen[key], value, f"{where}, {key}")
    elif isinstance(expected, list | tuple):
        assert len(seen) == len(expected), where
        for index, value in enumerate(expected):
            _assert_close(seen[index], value, f"{where}, {index}")
    elif isinstance(expected, float):
        close = pytest.approx(expected, rel=TOLERANCE_OF_STEP, abs=_tolerance(where), nan_ok=True)
        assert seen == close, where
    else:
        assert seen == expected or (pd.isna(seen) and pd.isna(expected)), where


def _tolerance(where: str) -> float:
    if where.endswith("fraction"):
        return TOLERANCE_OF_STEP
    # The rest of a step is the difference from all its phases.
    if where.startswith("phases") or where.endswith(", other"):
        return TOLERANCE_OF_DIFFERENCE_S
    if not where.startswith("drilldowns"):
        return TOLERANCE_S
    is_limit = where.endswith(("low_s", "high_s"))
    return TOLERANCE_OF_INTERVAL_S if is_limit else TOLERANCE_OF_DIFFERENCE_S

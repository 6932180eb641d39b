"""The analysis of runs on a GPU, with the records of the reference, measured on one H200."""

from __future__ import annotations

import pytest

from horizont.analysis.operators import (
    OUTSIDE_OPERATORS,
    operator_classes,
    phases_from_profile,
    profiler_overhead,
)
from horizont.analysis.resources import (
    GPU_RESOURCES,
    TOTAL,
    resource_totals,
    run_resource_series,
    segments,
)
from horizont.records.record import Record
from horizont.reporting.figures.resources import resource_charts
from horizont.reporting.setup_tables import setup_table
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.reference import open_pack, open_packs, open_reference, packed_experiments


@pytest.fixture(scope="module")
def paths() -> Paths:
    return study_paths()


@pytest.fixture(scope="module")
def records(paths: Paths) -> list[Record]:
    return open_pack("gpu", paths)[0].records("resnet50-cifar10")


def test_a_timed_step_is_kernels_and_the_time_without_one(records: list[Record]) -> None:
    """The profiler makes the step longer, which would hide what the GPU waits for."""
    steps = profiler_overhead(records).set_index("system")
    assert (steps["profiled_s"] > 1.4 * steps["timed_without_load_s"]).all()
    classes = operator_classes(records)
    sums_s = classes.groupby("system")["self_s"].sum()
    assert sums_s.to_dict() == pytest.approx(steps["timed_s"].to_dict())
    outside = classes[classes["operator_class"] == OUTSIDE_OPERATORS].set_index("system")
    fractions = outside["fraction"]
    assert fractions["pytorch/local+tf32"] > 0.5 > fractions["pytorch/local"]
    assert phases_from_profile(records)["remainder_s"].abs().max() < 1e-12


def test_a_gpu_is_among_the_resources(records: list[Record]) -> None:
    record = next(record for record in records if record.run.system.name == "pytorch/local")
    totals = resource_totals(record).set_index("name")
    assert 50 < totals["gpu_mean"]["worker-0"] <= 100
    assert totals["gpu_memory_max"][TOTAL] > 1000
    series = run_resource_series(record)
    plot = resource_charts(series, segments(record))
    titles = {axes.get_title().partition(":")[0] for axes in plot.axes}
    assert {"GPU, % busy", "GPU memory, MiB"} <= titles
    without = series[~series["quantity"].isin(list(GPU_RESOURCES))]
    assert len(plot.axes) - len(resource_charts(without, segments(record)).axes) == 4


def test_the_page_names_the_gpu(paths: Paths, records: list[Record]) -> None:
    _, study = open_pack("gpu", paths)
    settings = study.experiment("gpu").on("resnet50-cifar10")
    assert "NVIDIA H200, CUDA 13.0" in setup_table(settings, records).html()
    assert "GPU" not in setup_table(settings).html()


def test_runs_on_a_gpu_are_a_reference_of_their_own(paths: Paths) -> None:
    assert "gpu" in packed_experiments(paths)
    assert "gpu" not in open_packs(paths)
    devices = {record.run.topology.device for record in open_reference(paths).records}
    assert devices == {"cpu"}

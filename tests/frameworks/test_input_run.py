"""A run that reads from files: its record, and the order of the training examples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.conftest import small_run

from horizont.analysis.input import input_pipelines
from horizont.config.jobs import Endpoints, WorkerJob
from horizont.config.system import installed_version
from horizont.data.files import write_files_if_missing
from horizont.data.prepared import ImageData, load
from horizont.data.sharding import example_order
from horizont.launchers.execute import RunPaths, execute
from horizont.training.context import worker_example_order

#: Two epochs of 32 batches but one are read without training; four, of a half of the set.
STEPS = {"warmup": 1, "timed": 3, "instrumented": 2, "input_batches": 63}


@pytest.mark.framework
@pytest.mark.usefixtures("nothing_left")
def test_a_run_reads_from_files(tmp_path: Path, small_cifar: Path) -> None:
    if installed_version("pytorch") is None:
        pytest.skip("pytorch is not installed")
    data = load(small_cifar)
    assert isinstance(data, ImageData)
    way = {"source": "files", "cache": True, "workers": 1, "prefetch": 2, "shards": 2}
    way |= {"page_cache": "cold"}
    run = small_run("pytorch/local", input=way, steps=STEPS, timeout_s=90)
    # The path is too long for a socket, which loader processes need.
    deep = tmp_path / ("a-long-name-" * 6)
    place = RunPaths(deep, small_cifar, {}, write_files_if_missing(data, tmp_path / "files"))
    record = execute(run, "key", place, lambda done, planned: None)
    assert record.ok, record.result.reason
    assert "input_batches" in record.result.startup_s
    batches = record.input_batches()
    assert batches is not None
    assert batches["epoch"].to_pylist() == np.repeat(range(4), 16).tolist()[:63]
    (row,) = input_pipelines([record]).to_dict(orient="records")
    assert row["input"] == "DataLoader, cache, 1 worker, 2 ahead, 1 of 2 shards, cold"
    assert all(
        row[name] > 0 for name in ("first_batch_s", "first_epoch_s", "later_epochs_s", "wait_s")
    )
    assert row["memory_bytes"] > 0
    assert 0 <= row["page_cache_fraction"] <= 1
    assert np.isnan(row["extra_over_memory_s"])  # there is no run from memory to compare with


def test_a_shard_is_read_in_the_order_of_a_smaller_data_set(small_cifar: Path) -> None:
    about = load(small_cifar).description
    third = about.model_copy(update={"splits": {**about.splits, "train": 512 // 3}})
    run = small_run("pytorch/local", steps=STEPS)
    part = small_run("pytorch/local", steps=STEPS, input={"source": "files", "shards": 3})
    assert np.array_equal(example_order(part, 0, about), example_order(run, 0, third))


@pytest.mark.parametrize("profiled", [0, 5])
def test_measuring_the_input_does_not_change_the_training_examples(
    tmp_path: Path, small_cifar: Path, profiled: int
) -> None:
    about = load(small_cifar).description
    run = small_run("pytorch/local", steps={**STEPS, "profiled": profiled})
    folders = {"data_folder": small_cifar, "folder": tmp_path, "progress": tmp_path / "progress"}
    job = WorkerJob(run=run, role="worker", rank=0, endpoints=Endpoints(), **folders)
    order, training = worker_example_order(job, about), example_order(run, 0, about)
    assert len(order) == 63 + 6 + profiled
    assert np.array_equal(order[63:], training)
    assert np.array_equal(
        order[:6], training[:6]
    )  # its own order, which begins like that of the training

"""A run that reads from files: its records, and the order in which its training sees them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.conftest import small_run

from horizont.analysis import inputs
from horizont.cluster import Place, execute
from horizont.data import ImageData, load
from horizont.data.files import ensure_files
from horizont.data.order import order_for
from horizont.spec import ProcessJob, installed_version
from horizont.spec.job import Endpoints
from horizont.worker.session import order_of

#: Two epochs of 32 batches but one are drained.
STEPS = {"warmup": 1, "bare": 3, "instrumented": 2, "drained": 63}


@pytest.mark.framework
@pytest.mark.usefixtures("nothing_left")
def test_a_run_reads_from_files(tmp_path: Path, small_cifar: Path) -> None:
    if installed_version("pytorch") is None:
        pytest.skip("pytorch is not installed")
    data = load(small_cifar)
    assert isinstance(data, ImageData)
    way = {"source": "files", "cache": True, "workers": 1, "prefetch": 2, "page_cache": "cold"}
    run = small_run("pytorch/local", input=way, steps=STEPS, deadline_s=90)
    # In a folder whose name is too long for a socket, of which loader processes need one.
    deep = tmp_path / ("a-long-name-" * 6)
    place = Place(deep, small_cifar, {}, ensure_files(data, tmp_path / "files"))
    record = execute(run, "key", place, lambda done, planned: None)
    assert record.ok, record.result.reason
    assert "drained" in record.result.startup_s
    drained = record.input()
    assert drained is not None
    assert drained["epoch"].to_pylist() == [0] * 32 + [1] * 31
    (row,) = inputs([record]).to_dict(orient="records")
    assert row["input"] == "DataLoader, cache, 1 worker, 2 ahead, cold"
    assert all(row[name] > 0 for name in ("first_s", "first_epoch_s", "later_s", "wait_s"))
    assert row["memory_bytes"] > 0
    assert 0 <= row["resident_share"] <= 1
    assert np.isnan(row["extra_s"])  # nothing was read from memory to compare it with


@pytest.mark.parametrize("profiled", [0, 5])
def test_training_sees_the_same_examples_after_a_drain(
    tmp_path: Path, small_cifar: Path, profiled: int
) -> None:
    about = load(small_cifar).about
    run = small_run("pytorch/local", steps={**STEPS, "profiled": profiled})
    folders = {"data_folder": small_cifar, "folder": tmp_path, "progress": tmp_path / "progress"}
    job = ProcessJob(run=run, role="worker", rank=0, endpoints=Endpoints(), **folders)
    order, training = order_of(job, about), order_for(run, 0, about)
    assert len(order) == 63 + 6 + profiled
    assert np.array_equal(order[63:], training)
    assert np.array_equal(order[:6], training[:6])  # an order of its own, from the same beginning

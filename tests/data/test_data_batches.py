"""Sharding: the workers share the batches of one process, or read disjoint shards."""

import numpy as np
import pytest

from horizont.data.sharding import batch_indices, epoch_order, steps_per_epoch
from horizont.errors import UserError

PUBLISHED = {"examples": 1000, "global_batch": 126, "local_batch": 42, "workers": 3}


def per_worker(sharding, steps, last="drop", **sizes):
    sizes = {**PUBLISHED, **sizes}
    return [
        batch_indices(**sizes, rank=rank, sharding=sharding, seed=7, steps=steps, last=last)
        for rank in range(sizes["workers"])
    ]


def test_the_order_is_a_permutation_that_depends_on_seed_and_epoch():
    order = epoch_order(100, 1, 2)
    assert order.dtype == np.int64
    assert sorted(order) == list(range(100))
    np.testing.assert_array_equal(order, epoch_order(100, 1, 2))
    assert not np.array_equal(order, epoch_order(100, 1, 3))
    assert not np.array_equal(order, epoch_order(100, 2, 2))


def test_the_order_is_pinned_because_records_of_older_runs_rely_on_it():
    assert epoch_order(10, 0, 0).tolist() == [4, 6, 2, 7, 3, 5, 9, 0, 8, 1]


def test_global_batches_are_those_of_one_process():
    single_process = batch_indices(
        examples=1000, global_batch=126, local_batch=126, workers=1, rank=0,
        sharding="global_batches", seed=7, steps=20,
    )  # fmt: skip
    all_workers = np.concatenate(per_worker("global_batches", 20), axis=1)
    np.testing.assert_array_equal(all_workers, single_process)
    assert single_process.shape == (20, 126)
    assert single_process.dtype == np.int64


def test_epochs_drop_the_incomplete_batch():
    length = steps_per_epoch(1000, 42, 3, "global_batches")
    assert length == 7
    all_workers = np.concatenate(per_worker("global_batches", 15), axis=1)
    for epoch in (0, 1):
        used = all_workers[epoch * length : (epoch + 1) * length].ravel()
        np.testing.assert_array_equal(used, epoch_order(1000, 7, epoch)[: 7 * 126])


def test_static_shards_are_disjoint_in_every_epoch():
    length = steps_per_epoch(1000, 42, 3, "static_shards")
    assert length == 333 // 42
    shards = per_worker("static_shards", 5 * length)
    for rank, batches in enumerate(shards):
        assert batches.shape == (5 * length, 42)
        assert set(np.unique(batches % 3)) == {rank}
        for epoch in range(5):
            used = batches[epoch * length : (epoch + 1) * length].ravel()
            assert len(set(used)) == len(used)
        assert not np.array_equal(batches[0], batches[length])


@pytest.mark.parametrize("sharding", ["global_batches", "static_shards"])
@pytest.mark.parametrize(
    ("examples", "workers"), [(1000, 3), (127, 3), (1001, 2), (50, 1), (43, 3)]
)
def test_with_keep_an_epoch_has_every_example_once(sharding, examples, workers):
    sizes = {"examples": examples, "workers": workers, "global_batch": 42 * workers}
    length = steps_per_epoch(examples, 42, workers, sharding, "keep")
    parts = per_worker(sharding, length, last="keep", **sizes)
    assert all(len(part) == length for part in parts)
    assert all(len(batch) <= 42 for part in parts for batch in part)
    used = np.concatenate([batch for part in parts for batch in part])
    assert sorted(used) == list(range(examples))


def test_with_keep_the_last_batch_is_split_evenly():
    parts = per_worker("global_batches", 8, last="keep", examples=7 * 126 + 10)
    assert [len(part[-1]) for part in parts] == [4, 3, 3]


def test_no_steps_give_no_batches():
    assert per_worker("global_batches", 0)[0].shape == (0, 42)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"examples": 0}, "examples"),
        ({"workers": 0}, "workers"),
        ({"local_batch": 0}, "local_batch"),
        ({"global_batch": 125}, "global_batch"),
        ({"workers": 2}, "global_batch"),
        ({"examples": 125}, "global_batch"),
        ({"rank": 3}, "rank"),
        ({"rank": -1}, "rank"),
        ({"sharding": "random"}, "sharding"),
        ({"steps": -1}, "steps"),
        ({"seed": -1}, "seed"),
        ({"last": "pad"}, "last"),
    ],
)
def test_invalid_numbers_are_refused(change, field):
    request = {**PUBLISHED, "rank": 0, "sharding": "global_batches", "seed": 0, "steps": 1}
    with pytest.raises(UserError) as caught:
        batch_indices(**{**request, **change})
    assert caught.value.field == field

"""Sharding: the workers share the batches of one process, or read disjoint shards."""

import numpy as np
import pytest

from horizont.data.sharding import batch_indices, epoch_order
from horizont.errors import UserError

PUBLISHED = {"examples": 1000, "global_batch": 126, "workers": 3}
STEPS_PER_EPOCH = 7  # 1000 // 126, and for a shard 333 // 42


def per_worker(sharding, steps):
    return [
        batch_indices(**PUBLISHED, rank=rank, sharding=sharding, seed=7, steps=steps)
        for rank in range(PUBLISHED["workers"])
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
        examples=1000, global_batch=126, workers=1, rank=0,
        sharding="global_batches", seed=7, steps=20,
    )  # fmt: skip
    all_workers = np.concatenate(per_worker("global_batches", 20), axis=1)
    np.testing.assert_array_equal(all_workers, single_process)
    assert single_process.shape == (20, 126)
    assert single_process.dtype == np.int64


def test_epochs_drop_the_incomplete_batch():
    length = STEPS_PER_EPOCH
    all_workers = np.concatenate(per_worker("global_batches", 15), axis=1)
    for epoch in (0, 1):
        used = all_workers[epoch * length : (epoch + 1) * length].ravel()
        np.testing.assert_array_equal(used, epoch_order(1000, 7, epoch)[: 7 * 126])


def test_static_shards_are_disjoint_in_every_epoch():
    length = STEPS_PER_EPOCH
    shards = per_worker("static_shards", 5 * length)
    for rank, batches in enumerate(shards):
        assert batches.shape == (5 * length, 42)
        assert set(np.unique(batches % 3)) == {rank}
        for epoch in range(5):
            used = batches[epoch * length : (epoch + 1) * length].ravel()
            assert len(set(used)) == len(used)
        assert not np.array_equal(batches[0], batches[length])


def test_no_steps_give_no_batches():
    assert per_worker("global_batches", 0)[0].shape == (0, 42)


@pytest.mark.parametrize(
    ("sharding", "examples"), [("global_batches", 125), ("static_shards", 3 * 42 - 1)]
)
def test_fewer_examples_than_a_batch_are_refused(sharding, examples):
    request = {**PUBLISHED, "rank": 0, "sharding": sharding, "seed": 0, "steps": 1}
    with pytest.raises(UserError) as caught:
        batch_indices(**{**request, "examples": examples})
    assert caught.value.field == "global_batch"

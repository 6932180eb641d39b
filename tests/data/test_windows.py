"""Windows of a text: every word is read once per epoch, in order, row by row."""

from __future__ import annotations

import numpy as np
import pytest

from horizont.data.sharding import window_starts
from horizont.errors import UserError
from horizont.frameworks.base import TextWindows

WORDS, TIME_STEPS, ROWS = 1000, 7, 4


def starts(workers: int = 1, rank: int = 0, steps: int = 35) -> np.ndarray:
    return window_starts(
        words=WORDS,
        time_steps=TIME_STEPS,
        global_batch=ROWS,
        workers=workers,
        rank=rank,
        steps=steps,
    )


def test_a_row_continues_where_it_ended() -> None:
    begins = starts()
    assert begins.shape == (35, ROWS)
    assert (np.diff(begins, axis=0) == TIME_STEPS).all()
    assert begins[0].tolist() == [0, 249, 498, 747]  # four streams of 999 // 4 words


def test_no_word_is_read_twice_in_an_epoch() -> None:
    text = TextWindows(np.arange(WORDS, dtype=np.int32), TIME_STEPS, list(starts()))
    read = np.concatenate([text.inputs_and_targets(begins)[0].ravel() for begins in text.order])
    assert len(np.unique(read)) == len(read) == 35 * TIME_STEPS * ROWS
    inputs, targets = text.inputs_and_targets(text.order[-1])
    np.testing.assert_array_equal(targets, inputs + 1)


def test_a_stream_starts_over_at_its_end() -> None:
    np.testing.assert_array_equal(starts(steps=36)[35], starts()[0])


@pytest.mark.parametrize("workers", [2, 4])
def test_workers_share_the_rows_of_one_process(workers: int) -> None:
    rows = [starts(workers, rank) for rank in range(workers)]
    np.testing.assert_array_equal(np.concatenate(rows, axis=1), starts())


def test_a_text_that_is_too_short_is_refused() -> None:
    with pytest.raises(UserError, match="global_batch"):
        window_starts(words=20, time_steps=7, global_batch=3, workers=1, rank=0, steps=1)

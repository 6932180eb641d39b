"""The input of a worker that is led by a coordinator: it reads the examples on its own side.

The worker lays down the order in which it sees the examples in a file of its working directory
before it serves. The coordinator sends the pipeline, as a graph, to run there: it opens the
worker's file and the worker's copy of the data set. No example crosses the network.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from horizont.data import order_for
from horizont.data.about import read_about
from horizont.frameworks.tensorflow.input import Convert, fetcher, scheduled, window_fetcher
from horizont.spec import ProcessJob

#: The worker's rank and then the indices of its batches, int64. Without a folder: a worker's
#: working directory is its own.
ORDER_FILE = "order.int64"


def leave_order(job: ProcessJob) -> None:
    """Lay down which examples this worker sees, batch by batch."""
    order = order_for(job.run, job.rank, read_about(job.data_folder))
    np.concatenate([[job.rank], *order]).astype(np.int64).tofile(ORDER_FILE)


def remote_dataset(job: ProcessJob, convert: Convert) -> Any:
    """Describe the pipeline of whichever worker this is called for.

    A worker that is faster than the others makes more than its share of the steps; it then
    starts with its order anew.

    Returns
    -------
    tf.data.Dataset
        Elements are (rank, inputs, labels).
    """
    if read_about(job.data_folder).kind == "text":
        words = _read_array(job.data_folder / "train_tokens.npy")
        fetch = window_fetcher(words, job.run.workload.time_steps)
    else:
        images = tf.transpose(_read_array(job.data_folder / "train_images.npy"), (0, 2, 3, 1))
        fetch = fetcher(images, _read_array(job.data_folder / "train_labels.npy"), convert)
    numbers = tf.io.decode_raw(tf.io.read_file(ORDER_FILE), tf.int64)
    order = tf.data.Dataset.from_tensor_slices(tf.reshape(numbers[1:], (-1, job.run.local_batch)))
    return scheduled(order.map(lambda indices: (numbers[0], *fetch(indices))).repeat())


def _read_array(path: Path) -> Any:
    """Read a NumPy file with TensorFlow's means; its header is known from the copy that is here."""
    known = np.load(path, mmap_mode="r")
    content = tf.strings.substr(tf.io.read_file(str(path)), known.offset, known.nbytes)
    return tf.reshape(tf.io.decode_raw(content, known.dtype), known.shape)

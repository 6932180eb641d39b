"""TensorFlow's input pipelines from files, in tf.data."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

import tensorflow as tf

from horizont.data.files import ImageFiles
from horizont.frameworks.base import OnDisk, when_asked
from horizont.frameworks.tensorflow.input import Batch, Convert, fetcher, options, stretched
from horizont.spec import Input


def batches(examples: OnDisk, convert: Convert) -> Iterator[Batch]:
    """Yield batches: in the given order, or in that of the files if the reader knows no other."""
    given = examples.input
    if examples.reader == "FixedLengthRecordDataset":
        dataset = in_file_order(examples, convert)
    elif given.cache:
        dataset = from_whole_set(examples, convert)
    else:
        dataset = one_by_one(examples, convert)
    if given.prefetch:
        dataset = dataset.prefetch(given.prefetch)
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    return when_asked(dataset.with_options(options(max(threads, given.workers))))


def one_by_one(examples: OnDisk, convert: Convert) -> Any:
    """Read each example of a batch where it lies.

    TensorFlow has no operator that reads from the middle of a file, so Python does it.
    """
    files, labels = examples.files, tf.constant(examples.files.labels)

    def fetch(indices: Any) -> Batch:
        images = tf.numpy_function(files.read, [indices], tf.uint8, stateful=False)
        images = channels_last(tf.ensure_shape(images, (None, *files.shape)))
        return convert(images), tf.gather(labels, indices)

    flat, dataset = stretched(examples.order)
    return dataset.map(lambda start, stop: fetch(flat[start:stop]), **parallel(examples.input))


def from_whole_set(examples: OnDisk, convert: Convert) -> Any:
    """Keep the whole set as the one element of a cached data set, and gather from it.

    ``cache()`` gives its elements back in the order in which they came. An order that differs
    from epoch to epoch is only to be had inside an element.
    """
    files, labels = examples.files, tf.constant(examples.files.labels)
    whole = records(files).batch(len(files)).map(lambda raw: decoded(raw, files)).cache()
    flat, order = stretched(examples.order)

    def fetch(images: Any, place: Any) -> Batch:
        return fetcher(images, labels, convert)(flat[place[0] : place[1]])

    return tf.data.Dataset.zip((whole.repeat(), order.map(lambda *place: place))).map(
        fetch, **parallel(examples.input)
    )


def in_file_order(examples: OnDisk, convert: Convert) -> Any:
    """Read example after example, from the first to the last and again."""
    files, given = examples.files, examples.input
    images = records(files).map(lambda raw: decoded(raw[None], files)[0], **parallel(given))
    if given.cache:
        images = images.cache()
    labels = tf.data.Dataset.from_tensor_slices(files.labels)
    dataset = tf.data.Dataset.zip((images, labels)).repeat()
    dataset = dataset.batch(len(examples.order[0])).take(len(examples.order))
    return dataset.map(lambda images, labels: (convert(images), labels))


def records(files: ImageFiles) -> Any:
    """List the images of all files as strings of bytes, in the order of the files."""
    size = files.image_bytes
    each = [
        tf.data.FixedLengthRecordDataset(
            str(stretch.path),
            record_bytes=size,
            header_bytes=stretch.begin,
            footer_bytes=stretch.size - stretch.begin - stretch.count * size,
        )
        for stretch in files.stretches
    ]
    return reduce(lambda before, after: before.concatenate(after), each)


def decoded(raw: Any, files: ImageFiles) -> Any:
    """Turn strings of bytes into images, uint8 (examples, height, width, channels)."""
    return channels_last(tf.reshape(tf.io.decode_raw(raw, tf.uint8), (-1, *files.shape)))


def channels_last(images: Any) -> Any:
    """Lay out images as TensorFlow's networks take them."""
    return tf.transpose(images, (0, 2, 3, 1))


def parallel(given: Input) -> dict[str, Any]:
    """Tell how a map is spread over threads; the order stays."""
    if not given.workers:
        return {}
    return {"num_parallel_calls": given.workers, "deterministic": True}

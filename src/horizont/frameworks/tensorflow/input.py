"""TensorFlow's own input pipeline: tf.data that gathers whole batches from memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from horizont.config.input import InputPipeline
from horizont.data.files import ImageFiles
from horizont.frameworks.base import (
    ImagesOnDisk,
    InMemoryImages,
    Normalisation,
    TextWindows,
    TrainingSetup,
    lazily,
)

Batch = tuple[Any, Any]

#: From what is stored to what a network takes.
Convert = Callable[[Any], Any]


class Normaliser:
    """From bytes to normalised numbers."""

    def __init__(self, normalisation: Normalisation, dtype: str) -> None:
        self.dtype = dtype
        self.upscale = normalisation.upscale
        # NumPy, so that the same object serves in any graph, a remote worker's too.
        self.scale = normalisation.scale.astype(dtype)
        self.offset = normalisation.offset.astype(dtype)

    def __call__(self, images: Any) -> Any:
        """Normalise (examples, height, width, channels) bytes."""
        if self.upscale > 1:
            images = tf.repeat(tf.repeat(images, self.upscale, axis=1), self.upscale, axis=2)
        return tf.cast(images, self.dtype) * self.scale + self.offset


def to_index_tensor(indices: Any) -> Any:
    """Make numbers of words what TensorFlow looks up and compares fastest."""
    return tf.cast(indices, tf.int64)


def input_converter(setup: TrainingSetup) -> Convert:
    """Tell how what is stored becomes what the network takes."""
    if setup.normalisation is None:
        return to_index_tensor
    return Normaliser(setup.normalisation, setup.dtype)


def to_native_layout(inputs: NDArray[Any]) -> NDArray[Any]:
    """Lay out images with the channels last; texts stay as they are."""
    return np.ascontiguousarray(inputs.transpose(0, 2, 3, 1)) if inputs.ndim > 2 else inputs


def memory_batches(data: InMemoryImages | TextWindows, convert: Convert) -> Iterator[Batch]:
    """Yield batches in the given order."""
    flat, dataset = flatten_order(data.order)
    if isinstance(data, TextWindows):
        fetch = window_fetcher(tf.constant(data.tokens), data.time_steps)
    else:
        images = tf.constant(to_native_layout(data.images))
        fetch = fetcher(images, tf.constant(data.labels), convert)
    return iter(limit_threads(dataset.map(lambda start, stop: fetch(flat[start:stop]))))


def flatten_order(order: Sequence[NDArray[Any]]) -> tuple[Any, Any]:
    """Lay the order of all batches out as one long list.

    The batches may differ in length, so each is a stretch of the list.

    Returns
    -------
    tuple
        The list, a tensor of int64, and a data set of where each batch starts and stops in it.
    """
    lengths = np.array([len(indices) for indices in order], dtype=np.int64)
    stops = np.cumsum(lengths)
    flat = tf.constant(np.concatenate([np.asarray(i, dtype=np.int64) for i in order]))
    return flat, tf.data.Dataset.from_tensor_slices((stops - lengths, stops))


def window_fetcher(tokens: Any, time_steps: int) -> Callable[[Any], Batch]:
    """Make the function that cuts the windows that begin at given places out of a text.

    Parameters
    ----------
    words
        Tensor of int32, (words,).
    """
    places = tf.range(time_steps + 1, dtype=tf.int64)

    def fetch(starts: Any) -> Batch:
        cut = to_index_tensor(tf.gather(tokens, starts[:, tf.newaxis] + places))
        return cut[:, :-1], cut[:, 1:]

    return fetch


def fetcher(images: Any, labels: Any, convert: Convert) -> Callable[[Any], Batch]:
    """Make the function that fetches the examples with given indices, all at once.

    Parameters
    ----------
    images
        Tensor of uint8, (examples, height, width, channels).
    labels
        Tensor of int64, (examples,).
    """

    def fetch(indices: Any) -> Batch:
        return convert(tf.gather(images, indices)), tf.gather(labels, indices)

    return fetch


def limit_threads(dataset: Any) -> Any:
    """Hold a pipeline to the threads that the process was given.

    With one thread nothing is fetched ahead: a prefetching thread would compute beside the
    training, on a second core if there is one, or take turns with it if there is none. The
    whole pipeline then runs inside ``next``, where its time is seen. With more threads two
    batches are fetched ahead, as one would do. tf.data is kept from adding threads and buffers
    of its own.
    """
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    if threads > 1:
        dataset = dataset.prefetch(2)
    return dataset.with_options(dataset_options(threads))


def dataset_options(threads: int) -> Any:
    """Hold tf.data to a number of threads, and keep it from adding what was not asked for."""
    chosen = tf.data.Options()
    chosen.autotune.enabled = False
    chosen.experimental_optimization.inject_prefetch = False
    chosen.threading.private_threadpool_size = threads
    chosen.threading.max_intra_op_parallelism = threads
    return chosen


def file_batches(data: ImagesOnDisk, convert: Convert) -> Iterator[Batch]:
    """Yield batches: in the given order, or in that of the files if the reader knows no other."""
    given = data.input
    if data.reader == "FixedLengthRecordDataset":
        dataset = sequential_dataset(data, convert)
    elif given.cache:
        dataset = cached_dataset(data, convert)
    else:
        dataset = random_access_dataset(data, convert)
    if given.prefetch:
        dataset = dataset.prefetch(given.prefetch)
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    return lazily(dataset.with_options(dataset_options(max(threads, given.workers))))


def random_access_dataset(examples: ImagesOnDisk, convert: Convert) -> Any:
    """Read each example of a batch where it lies.

    TensorFlow has no operator that reads from the middle of a file, so Python does it.
    """
    files, labels = examples.files, tf.constant(examples.files.labels)

    def fetch(indices: Any) -> Batch:
        images = tf.numpy_function(files.read, [indices], tf.uint8, stateful=False)
        images = to_channels_last(tf.ensure_shape(images, (None, *files.shape)))
        return convert(images), tf.gather(labels, indices)

    flat, dataset = flatten_order(examples.order)
    return dataset.map(lambda start, stop: fetch(flat[start:stop]), **map_options(examples.input))


def cached_dataset(examples: ImagesOnDisk, convert: Convert) -> Any:
    """Keep the whole set as the one element of a cached data set, and gather from it.

    ``cache()`` gives its elements back in the order in which they came. An order that differs
    from epoch to epoch is only to be had inside an element.
    """
    files, labels = examples.files, tf.constant(examples.files.labels)
    whole = (
        record_dataset(files).batch(len(files)).map(lambda raw: decode_images(raw, files)).cache()
    )
    flat, order = flatten_order(examples.order)

    def fetch(images: Any, place: Any) -> Batch:
        return fetcher(images, labels, convert)(flat[place[0] : place[1]])

    return tf.data.Dataset.zip((whole.repeat(), order.map(lambda *place: place))).map(
        fetch, **map_options(examples.input)
    )


def sequential_dataset(examples: ImagesOnDisk, convert: Convert) -> Any:
    """Read example after example, from the first to the last and again."""
    files, given = examples.files, examples.input
    images = record_dataset(files).map(
        lambda raw: decode_images(raw[None], files)[0], **map_options(given)
    )
    if given.cache:
        images = images.cache()
    labels = tf.data.Dataset.from_tensor_slices(files.labels)
    dataset = tf.data.Dataset.zip((images, labels)).repeat()
    dataset = dataset.batch(len(examples.order[0])).take(len(examples.order))
    return dataset.map(lambda images, labels: (convert(images), labels))


def record_dataset(files: ImageFiles) -> Any:
    """List the images of all files as strings of bytes, in the order of the files."""
    size = files.image_bytes
    each = [
        tf.data.FixedLengthRecordDataset(
            str(stretch.path),
            record_bytes=size,
            header_bytes=stretch.offset,
            footer_bytes=stretch.file_bytes - stretch.offset - stretch.count * size,
        )
        for stretch in files.segments
    ]
    return reduce(lambda before, after: before.concatenate(after), each)


def decode_images(raw: Any, files: ImageFiles) -> Any:
    """Turn strings of bytes into images, uint8 (examples, height, width, channels)."""
    return to_channels_last(tf.reshape(tf.io.decode_raw(raw, tf.uint8), (-1, *files.shape)))


def to_channels_last(images: Any) -> Any:
    """Lay out images as TensorFlow's networks take them."""
    return tf.transpose(images, (0, 2, 3, 1))


def map_options(pipeline: InputPipeline) -> dict[str, Any]:
    """Tell how a map is spread over threads; the order stays."""
    if not pipeline.workers:
        return {}
    return {"num_parallel_calls": pipeline.workers, "deterministic": True}

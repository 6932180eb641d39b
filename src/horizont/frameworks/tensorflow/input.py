"""TensorFlow's input pipeline: tf.data from memory, with whole batches gathered, or from files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from horizont.config.input import InputPipeline
from horizont.data.files import ImageFiles
from horizont.frameworks import base

Batch = tuple[Any, Any]

#: Stored examples to network inputs.
Convert = Callable[[Any], Any]


class Normaliser:
    """Bytes to normalised numbers."""

    def __init__(self, normalisation: base.Normalisation, dtype: str) -> None:
        self.normalisation = normalisation
        self.dtype = dtype
        self.upscale = normalisation.upscale
        # NumPy arrays, so that the object fits any graph, including that of a remote worker.
        self.scale = normalisation.scale.astype(dtype)
        self.offset = normalisation.offset.astype(dtype)

    def __call__(self, images: Any) -> Any:
        """Normalise (examples, height, width, channels) bytes."""
        if self.upscale > 1:
            images = tf.repeat(tf.repeat(images, self.upscale, axis=1), self.upscale, axis=2)
        return tf.cast(images, self.dtype) * self.scale + self.offset


def to_index_tensor(indices: Any) -> Any:
    """Convert word indices to the type that TensorFlow looks up and compares fastest."""
    return tf.cast(indices, tf.int64)


def input_converter(setup: base.TrainingSetup) -> Convert:
    """Return the conversion of stored examples to network inputs."""
    if setup.normalisation is None:
        return to_index_tensor
    return Normaliser(setup.normalisation, setup.dtype)


def batches(data: base.TrainingData, convert: Convert) -> Iterator[Batch]:
    """Return an iterator over the batches, in the order of the data.

    `FixedLengthRecordDataset` ignores that order and reads in the order of the files.
    """
    if isinstance(data, base.ImagesOnDisk):
        return base.start_on_first_batch(_file_dataset(data, convert))
    flat, dataset = flatten_order(data.order)
    if isinstance(data, base.TextWindows):
        fetch = window_fetcher(tf.constant(data.tokens), data.time_steps)
    else:
        images = tf.constant(base.to_channels_last(data.images))
        fetch = fetcher(images, tf.constant(data.labels), convert)
    return iter(limit_threads(dataset.map(lambda start, stop: fetch(flat[start:stop]))))


def flatten_order(order: Sequence[NDArray[Any]]) -> tuple[Any, Any]:
    """Concatenate the orders of all batches, which may differ in length.

    Return the indices, int64, and a data set of the start and stop of each batch in them.
    """
    lengths = np.array([len(indices) for indices in order], dtype=np.int64)
    stops = np.cumsum(lengths)
    flat = tf.constant(np.concatenate([np.asarray(i, dtype=np.int64) for i in order]))
    return flat, tf.data.Dataset.from_tensor_slices((stops - lengths, stops))


def window_fetcher(tokens: Any, time_steps: int) -> Callable[[Any], Batch]:
    """Return a function that cuts the windows with given starts out of a text, int32 (words,)."""
    offsets = tf.range(time_steps + 1, dtype=tf.int64)

    def fetch(starts: Any) -> Batch:
        windows = to_index_tensor(tf.gather(tokens, starts[:, tf.newaxis] + offsets))
        return windows[:, :-1], windows[:, 1:]

    return fetch


def fetcher(images: Any, labels: Any, convert: Convert) -> Callable[[Any], Batch]:
    """Return a function that gathers the examples with given indices.

    Images are uint8, (examples, height, width, channels), labels int64, (examples,).
    """

    def fetch(indices: Any) -> Batch:
        return convert(tf.gather(images, indices)), tf.gather(labels, indices)

    return fetch


def limit_threads(dataset: Any) -> Any:
    """Limit a pipeline to the threads of the process.

    With one thread nothing is prefetched: a prefetching thread would compute besides the training,
    on a second core if there is one, or compete with it if there is none. The whole pipeline then
    runs inside ``next``, where its time is measured. With more threads two batches are prefetched,
    as usual. tf.data must not add threads and buffers of its own.
    """
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    if threads > 1:
        dataset = dataset.prefetch(2)
    return dataset.with_options(dataset_options(threads))


def dataset_options(threads: int) -> Any:
    """Return options that limit tf.data to a number of threads and disable its autotuning."""
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    options.threading.private_threadpool_size = threads
    options.threading.max_intra_op_parallelism = threads
    return options


def _file_dataset(data: base.ImagesOnDisk, convert: Convert) -> Any:
    if data.reader == "FixedLengthRecordDataset":
        dataset = _sequential_dataset(data, convert)
    elif data.reader == "tf.data per image":
        dataset = _single_image_dataset(data, convert)
    elif data.input.cache:
        dataset = _cached_dataset(data, convert)
    else:
        dataset = _random_access_dataset(data, convert)
    if data.input.prefetch:
        dataset = dataset.prefetch(data.input.prefetch)
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    return dataset.with_options(dataset_options(max(threads, data.input.workers)))


def _random_access_dataset(data: base.ImagesOnDisk, convert: Convert) -> Any:
    """Read the examples of a batch from the files."""
    files, labels = data.files, tf.constant(data.files.labels)

    def fetch(indices: Any) -> Batch:
        return convert(_read_images(files, indices)), tf.gather(labels, indices)

    flat, dataset = flatten_order(data.order)
    return dataset.map(lambda start, stop: fetch(flat[start:stop]), **_map_options(data.input))


def _read_images(files: ImageFiles, indices: Any) -> Any:
    """Read images, uint8 (examples, height, width, channels), by Python.

    TensorFlow has no operator that reads from the middle of a file.
    """
    images = tf.numpy_function(files.read, [indices], tf.uint8, stateful=False)
    return to_channels_last(tf.ensure_shape(images, (None, *files.shape)))


def _cached_dataset(data: base.ImagesOnDisk, convert: Convert) -> Any:
    """Cache the whole set as a single element, and gather from it.

    ``cache()`` yields its elements in the order of the first epoch. An order that differs between
    epochs is possible only inside an element.
    """
    whole, labels = _whole_set(data.files).cache(), tf.constant(data.files.labels)
    flat, order = flatten_order(data.order)

    def fetch(images: Any, bounds: Any) -> Batch:
        return fetcher(images, labels, convert)(flat[bounds[0] : bounds[1]])

    return tf.data.Dataset.zip((whole.repeat(), order.map(lambda *bounds: bounds))).map(
        fetch, **_map_options(data.input)
    )


def _single_image_dataset(data: base.ImagesOnDisk, convert: Convert) -> Any:
    """Read and normalise the images one by one, then make batches, as in TensorFlow's tutorials."""
    assert isinstance(convert, Normaliser), "files have images"
    files, labels = data.files, tf.constant(data.files.labels)
    transform = image_transform(convert.normalisation)
    indices = tf.data.Dataset.from_tensor_slices(flatten_order(data.order)[0])
    options = _map_options(data.input)

    def read(index: Any) -> Batch:
        return _read_images(files, index[tf.newaxis])[0], labels[index]

    def gather(images: Any) -> Any:
        return indices.map(lambda index: (images[index], labels[index]), **options)

    # As the argument of an inner data set, the whole set stays in memory.
    examples = (
        _whole_set(files).flat_map(gather) if data.input.cache else indices.map(read, **options)
    )
    examples = examples.map(lambda image, label: (transform(image), label), **options)
    return examples.batch(len(data.order[0]))


def image_transform(normalisation: base.Normalisation) -> Convert:
    """Return the normalisation of a single (height, width, channels) image."""
    mean, std = (each.astype(np.float32) for each in (normalisation.mean, normalisation.std))

    def transform(image: Any) -> Any:
        if normalisation.upscale > 1:
            for axis in (0, 1):
                image = tf.repeat(image, normalisation.upscale, axis=axis)
        return (tf.cast(image, tf.float32) / 255.0 - mean) / std

    return transform


def _whole_set(files: ImageFiles) -> Any:
    """Return a data set with all images as its only element."""
    return _record_dataset(files).batch(len(files)).map(lambda raw: _decode_images(raw, files))


def _sequential_dataset(data: base.ImagesOnDisk, convert: Convert) -> Any:
    """Read the examples in the order of the files, repeatedly."""
    files = data.files
    images = _record_dataset(files).map(
        lambda raw: _decode_images(raw[None], files)[0], **_map_options(data.input)
    )
    if data.input.cache:
        images = images.cache()
    labels = tf.data.Dataset.from_tensor_slices(files.labels)
    dataset = tf.data.Dataset.zip((images, labels)).repeat()
    dataset = dataset.batch(len(data.order[0])).take(len(data.order))
    return dataset.map(lambda images, labels: (convert(images), labels))


def _record_dataset(files: ImageFiles) -> Any:
    """Return a data set of the images of all files as byte strings, in the order of the files."""
    size = files.image_bytes
    datasets = [
        tf.data.FixedLengthRecordDataset(
            str(segment.path),
            record_bytes=size,
            header_bytes=segment.offset,
            footer_bytes=segment.file_bytes - segment.offset - segment.count * size,
        )
        for segment in files.segments
    ]
    return reduce(lambda joined, dataset: joined.concatenate(dataset), datasets)


def _decode_images(raw: Any, files: ImageFiles) -> Any:
    """Decode byte strings to images, uint8 (examples, height, width, channels)."""
    return to_channels_last(tf.reshape(tf.io.decode_raw(raw, tf.uint8), (-1, *files.shape)))


def to_channels_last(images: Any) -> Any:
    """Transpose images to the layout of the networks."""
    return tf.transpose(images, (0, 2, 3, 1))


def _map_options(pipeline: InputPipeline) -> dict[str, Any]:
    """Return the options that spread a map over threads without changing the order."""
    if not pipeline.workers:
        return {}
    return {"num_parallel_calls": pipeline.workers, "deterministic": True}

"""TensorFlow's own input pipeline: tf.data that gathers whole batches from memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from horizont.frameworks.base import Examples, Normalisation, Recipe, Windows

Batch = tuple[Any, Any]

#: From what is stored to what a network takes.
Convert = Callable[[Any], Any]


class Normaliser:
    """From bytes to normalised numbers."""

    def __init__(self, normalisation: Normalisation, dtype: str) -> None:
        self.dtype = dtype
        self.enlarge = normalisation.enlarge
        # NumPy, so that the same object serves in any graph, a remote worker's too.
        self.scale = normalisation.scale.astype(dtype)
        self.offset = normalisation.offset.astype(dtype)

    def __call__(self, images: Any) -> Any:
        """Normalise (examples, height, width, channels) bytes."""
        if self.enlarge > 1:
            images = tf.repeat(tf.repeat(images, self.enlarge, axis=1), self.enlarge, axis=2)
        return tf.cast(images, self.dtype) * self.scale + self.offset


def numbers(words: Any) -> Any:
    """Make numbers of words what TensorFlow looks up and compares fastest."""
    return tf.cast(words, tf.int64)


def converter(recipe: Recipe) -> Convert:
    """Tell how what is stored becomes what the network takes."""
    if recipe.normalisation is None:
        return numbers
    return Normaliser(recipe.normalisation, recipe.dtype)


def native(inputs: NDArray[Any]) -> NDArray[Any]:
    """Lay out images with the channels last; texts stay as they are."""
    return np.ascontiguousarray(inputs.transpose(0, 2, 3, 1)) if inputs.ndim > 2 else inputs


def batches(examples: Examples | Windows, convert: Convert) -> Iterator[Batch]:
    """Yield batches in the given order."""
    flat, dataset = stretched(examples.order)
    if isinstance(examples, Windows):
        fetch = window_fetcher(tf.constant(examples.words), examples.time_steps)
    else:
        images = tf.constant(native(examples.images))
        fetch = fetcher(images, tf.constant(examples.labels), convert)
    return iter(scheduled(dataset.map(lambda start, stop: fetch(flat[start:stop]))))


def stretched(order: Sequence[NDArray[Any]]) -> tuple[Any, Any]:
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


def window_fetcher(words: Any, time_steps: int) -> Callable[[Any], Batch]:
    """Make the function that cuts the windows that begin at given places out of a text.

    Parameters
    ----------
    words
        Tensor of int32, (words,).
    """
    places = tf.range(time_steps + 1, dtype=tf.int64)

    def fetch(starts: Any) -> Batch:
        cut = numbers(tf.gather(words, starts[:, tf.newaxis] + places))
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


def scheduled(dataset: Any) -> Any:
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
    return dataset.with_options(options(threads))


def options(threads: int) -> Any:
    """Hold tf.data to a number of threads, and keep it from adding what was not asked for."""
    chosen = tf.data.Options()
    chosen.autotune.enabled = False
    chosen.experimental_optimization.inject_prefetch = False
    chosen.threading.private_threadpool_size = threads
    chosen.threading.max_intra_op_parallelism = threads
    return chosen

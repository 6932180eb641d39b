"""A cache of our own: images that were read once stay in memory, decoded."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

#: From numbers of images to uint8 (images, channels, height, width).
Read = Callable[[NDArray[np.int64]], NDArray[np.uint8]]


class KeptImages:
    """Images that are read when they are asked for the first time.

    The room for all of them is reserved at once; the system gives memory to what is written.

    Parameters
    ----------
    count
        How many images there are.
    shape
        (channels, height, width) of an image.
    read
        Reads those that are not there yet.
    """

    def __init__(self, count: int, shape: tuple[int, ...], read: Read) -> None:
        self._images = np.empty((count, *shape), np.uint8)
        self._there = np.zeros(count, bool)
        self._read = read

    def __call__(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Fetch some images."""
        missing = indices[~self._there[indices]]
        if len(missing):
            self._images[missing] = self._read(missing)
            self._there[missing] = True
        return self._images[indices]
